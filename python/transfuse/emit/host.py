"""Host code in C++: for each program a function that launches its kernels on a stream, sizes given at run time."""

from __future__ import annotations

import re
from dataclasses import replace

from transfuse.emit.launches import Program, Told, written


LAUNCH = r"""
@HEADS@
static bool aligned(void* const* leaf, int n) { return n == 0 || ((size_t)*leaf % 16 == 0 && aligned(leaf + 1, n - 1)); }
static long long ceil_div(long long a, long long b) { return (a + b - 1) / b; }
@SIZES@
// early: the kernel may start while its predecessor ends; it waits for it before it reads.
template <class... P, class... A>
void launch(void (*kernel)(P...), long long grid, int block, int shared, @CLUSTER@bool early, cudaStream_t stream, A... a) {
    cudaLaunchAttribute attributes[] = {{cudaLaunchAttributeProgrammaticStreamSerialization}@ATTRIBUTE@};
    attributes[0].val.programmaticStreamSerializationAllowed = early;
@DIMENSION@    cudaLaunchConfig_t config = {dim3((unsigned)grid), dim3((unsigned)block), (size_t)shared, stream, attributes, @COUNT@};
    cudaLaunchKernelEx(&config, kernel, P(a)...);
}
"""

# Of a launch: what is said where no kernel has a cluster of blocks, and where one has.
CLUSTERS = {
    "@CLUSTER@": ("", "int cluster, "),
    "@ATTRIBUTE@": ("", ", {cudaLaunchAttributeClusterDimension}"),
    "@DIMENSION@": ("", "    attributes[1].val.clusterDim = {(unsigned)cluster, 1, 1};\n"),
    "@COUNT@": ("early", "cluster > 1 ? 2u : early"),
}

ROOM = r"""
template <class K> void room(K* kernel, int bytes) { cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes); }
"""

DIVISOR = r"""
// n / d as (umulhi(n, magic) + n) >> shift, for n < 2^31
static tf_divisor divisor(long long d) {
    unsigned shift = 0;
    while ((1ull << shift) < (unsigned long long)d) ++shift;
    return {(unsigned)((((1ull << shift) - d) << 32) / d + 1), shift};
}
"""


# The driver's function, which the runtime has not; behind it how a tensor is told: dtype, axes, extents, strides, the box, its steps.
ENCODES = r"""    typedef int Encode(void*, int, int, const void*, const void*, const void*, const void*, const void*, int, int, int, int);
    static Encode* const encode = (Encode*)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuTensorMapEncodeTiled");
"""
ENCODED = r"""    const int ones[5] = {1, 1, 1, 1, 1};
    TensorMap map;
    encode(&map, @DTYPE@, 5, tensor, extent, stride, box, ones, 0, @SWIZZLE@, 3, 0);
    return map;
}
"""

BOXES = rf"""
// A tensor as the copy engine is told of it: five axes, fastest first; it reads boxes of it, zeros outside.
static TensorMap boxes_of(const void* tensor, const long long (&extent)[5], const long long (&stride)[4], const int (&box)[5]@MANNER@) {{
{ENCODES}{ENCODED}"""

# The same, where strides follow from the extents.
STRIDES = (
    "    const long long row = @BYTES@ * extent[0], plane = row * extent[1], all = plane * extent[2],"
    " stride[] = {row, plane, all * extent[4], all};\n"
)
CONTIGUOUS = rf"""
// A tensor [n][c][d][h][w] as the copy engine is told of it: axes w, h, d, n, c; it reads boxes of it, zeros outside.
static TensorMap boxes_of(const void* tensor, const long long (&extent)[5], const int (&box)[5]@MANNER@) {{
{ENCODES}{STRIDES}{ENCODED}"""
BY_STRIDES = re.compile(r"\bboxes_of(?:<float>)?\([^{}]*\{[^{}]*\}, \{[^{}]*\}, \{")
BY_EXTENTS = re.compile(r"\bboxes_of(?:<float>)?\([^{}]*\{[^{}]*\}, \{[^{}]*\}(?:, \d+)*\)")
# Told how boxes are swizzled, and that the copy rounds to TF32 (dtype 11).
MANNER = re.compile(r"\bboxes_of[^{};]*(?:\{[^{}]*\}, )+\d")


# A kernel's struct of sizes takes int: they are checked to fit.
SIZES = r"""template <class... N> static Sizes sizes_of(N... n) { return {(int)n...}; }
"""

MEMBERS = "struct Sizes { int in[4], out[4], "
FIRST_FOUR = re.compile(r"\bsizes_of\((?:[^,()]+, ){4}")


def sizes_read(code: dict[str, str], hosts: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Device and host code of all builds, without the input's sizes where no kernel reads them."""
    calls = lambda text: text.count("sizes_of(") - text.count("sizes_of(N... n)")  # noqa: E731
    read = any(MEMBERS not in text or re.search(r"\.in\[", text) for text in code.values())
    if read or any(len(FIRST_FOUR.findall(text)) != calls(text) for text in hosts.values()):
        return code, hosts
    plain = {key: text.replace(MEMBERS, "struct Sizes { int out[4], ") for key, text in code.items()}
    return plain, {key: FIRST_FOUR.sub("sizes_of(", text) for key, text in hosts.items()}


TOTAL = "Sizes s = {(int)n...}; return s.total = s.tiles[0] * s.tiles[1] * s.tiles[2] * s.tiles[3], s;"
SIZES_OF = re.compile(r"\bsizes_of\(((?:[^()]|\([^()]*\))*)\)(?! \{)")


def totals_counted(hosts: dict[str, str]) -> dict[str, str]:
    """Host code of all builds in which sizes_of counts the tiles, where every call tells it how many along each axis and all of them."""
    calls = [_items(m[1]) for text in hosts.values() for m in SIZES_OF.finditer(text)]
    if not calls or not all(_is_product(*call[-5:]) for call in calls):
        return hosts
    less = lambda m: f"sizes_of({', '.join(_items(m[1])[:-1])})"  # noqa: E731
    return {key: SIZES_OF.sub(less, text).replace("return {(int)n...};", TOTAL) for key, text in hosts.items()}


def _items(arguments: str) -> list[str]:
    return re.split(r", (?![^()]*\))", arguments)


def _is_product(*counts: str) -> bool:
    """Whether the last is the product of the others."""
    *each, total = ([f for f in count.split(" * ") if f != "1"] for count in counts)
    return len(counts) == 5 and sorted(total) == sorted(f for factors in each for f in factors)


EARLY = re.compile(r"(?<=, )true, (?=stream\b)")


def always_early(functions: list[str]) -> list[str]:
    """Functions that need not say of a launch that it may begin early, where none may not."""
    told = re.findall(r"\blaunch\([^\n]*?, ([^,\n]*), stream\b", "\n".join(functions))
    return [EARLY.sub("", text) for text in functions] if {*told} == {"true"} else functions


def support(functions: str, clusters: bool, half: bool) -> list[str]:
    """What the functions call."""
    launch = LAUNCH.replace("A>\nvoid", "A> void")
    for word, texts in CLUSTERS.items():
        launch = launch.replace(word, texts[clusters])
    if not re.search(r", (?:true|false|arch >= 90), stream\b", functions):
        launch = re.sub(r"\bearly(?=[;}])", "1", launch.replace("bool early, ", "")).replace("// early: the", "// The")
    boxes = "".join(text for calls, text in ((BY_STRIDES, BOXES), (BY_EXTENTS, CONTIGUOUS)) if calls.search(functions))
    manner = bool(MANNER.search(functions))
    called = {"divisor(": DIVISOR, "boxes_of": _of_elements(boxes, half, "boxes_of<float>(" in functions, manner)}
    used = {"algorithm": "std::m", "dlfcn.h": "boxes_of", "type_traits": "boxes_of" if half else "std::is_same"}
    launch = launch.replace("@HEADS@", "\n".join(f"#include <{head}>" for head, by in used.items() if by in functions))
    room = ROOM.lstrip("\n") if " room(" in functions else ""
    launch = launch.replace("@SIZES@", (SIZES if "sizes_of(" in functions else "") + room)
    return [launch, *(text for name, text in called.items() if name in functions)]


def _of_elements(boxes: str, half: bool, sums: bool, manner: bool) -> str:
    """What makes tensor maps, for elements as they are stored; sums: some are of sums, in fp32 where 16 bits are stored; manner: some are
    told more."""
    stored = "T" if sums else "STORED"
    dtype = f"sizeof({stored}) == 4 ? 7 : std::is_same<{stored}, Half>::value ? 6 : 9" if half else "7"
    boxes = boxes.replace("@BYTES@", f"sizeof({stored})" if half else "4")
    boxes = boxes.replace("@MANNER@", f", int swizzle = 0, int dtype = {dtype}" if manner else "")
    boxes = boxes.replace("@SWIZZLE@", "swizzle" if manner else "0").replace("@DTYPE@", "dtype" if manner else dtype)
    return boxes.replace("static TensorMap", "template <class T = STORED> static TensorMap") if sums else boxes


def of_floats(functions: list[str]) -> list[str]:
    """Functions of a file in which all elements are fp32."""
    return [text.replace("boxes_of<float>(", "boxes_of(") for text in functions]


def function(
    name: str,
    symbols: list[str],
    leaves: int,
    variants: list[tuple[str, Program]],
    clusters: bool,
    otherwise: int,
    told: Told,
) -> str:
    """extern "C": the bytes of workspace it needs, or the launches; given are addresses of leaves, outputs and workspace. The
    first variant whose condition holds; where none does `otherwise`: -2 for the portable path, -4 for the build for rows of
    any length. told: how kernels are launched by now."""
    lines = [
        f'extern "C" long long {name}(void* const* leaf, const long long* size, cudaStream_t stream, int arch, int asks) {{',
        f"    void* const* const out = leaf + {leaves};",
    ]
    if len(variants) == 1 and variants[0][0]:
        condition, program = variants[0]
        made = calls(program, clusters, "arch == 90" in condition, told)
        return "\n".join([*lines, *only(symbols, condition, program, otherwise, made), "}"])
    lines.append(_unpacked(symbols))
    for condition, program in variants:
        indent = "    "
        if condition:
            lines.append(f"    if ({condition}) {{")
            indent = "        "
        made = calls(program, clusters, "arch == 90" in condition, told)
        lines += [f"{indent}{line}" for line in _body(program, made, f"out[{len(program.outputs)}]")]
        if condition:
            lines.append("    }")
    if variants[-1][0]:
        lines.append(f"    return {otherwise};")
    lines.append("}")
    return "\n".join(lines)


def only(
    symbols: list[str], condition: str, program: Program, otherwise: int, made: list[str], workspace: str | None = None
) -> list[str]:
    """What a function with one variant does, whose launches are made so; where its workspace is."""
    at_once = [c for c in program.beyond if otherwise == -2 and {*re.findall(r"[a-z_]\w*", c)} <= {*symbols}]
    program = replace(program, beyond=[c for c in program.beyond if c not in at_once])
    refused = f"    if ({' || '.join([_negated(condition), *at_once])}) return {otherwise};"
    body = _body(program, made, workspace or f"out[{len(program.outputs)}]")
    return [_unpacked(symbols), refused, *(f"    {line}" for line in body)]


def _unpacked(symbols: list[str]) -> str:
    return f"    const long long {', '.join(f'{s} = size[{i}]' for i, s in enumerate(symbols))};"


def _negated(condition: str) -> str:
    """Of conditions that must all hold: whether one does not."""
    parts = [part.replace(" == ", " != ") if " == " in part else f"!{part}" for part in condition.split(" && ")]
    return " || ".join(parts)


def calls(program: Program, clusters: bool, hopper: bool, told: Told) -> list[str]:
    """Its launches. hopper: no other GPU gets here."""
    made = []
    for launch in program.launches:
        early = "false" if not launch.early else "true" if hopper else "arch >= 90"
        cluster, grid = f"{launch.cluster}, " if clusters else "", launch.grid
        if launch.cluster > 1 and not hopper:
            cluster, grid = f"arch >= 90 ? {launch.cluster} : 1, ", f"arch >= 90 ? {launch.grid} : 1"
        name, values = told.call(launch.kernel.name, [_value(p) for p in launch.kernel.parameters])
        arguments = "".join(f", {value}" for value in values)
        how = f"{grid}, {launch.block}, {launch.shared}, {cluster}{early}, stream"
        asked = [f"if ({w}) " for k in program.optional if (w := f"out[{k}]") in written(launch)]
        made.append(f"{''.join(asked)}launch({name}, {how}{arguments});")
    return made


def _body(program: Program, made: list[str], workspace: str) -> list[str]:
    most = program.largest[0] if len(program.largest) == 1 else f"std::max<long long>({{{', '.join(program.largest)}}})"
    made, program = _said_where_given(made, program)
    used = " ".join([*made, program.bytes, most, *program.beyond])
    begins = [("at_0", f"asks ? 0 : (long long){workspace}"), *program.workspace[1:]] if program.workspace else []
    statements = _used([*program.extents, *begins], used)
    return [
        *_declared([(n, f) for n, f in statements if not n.startswith("at_")]),
        *([f"if ({' || '.join(program.beyond)}) return -2;"] if program.beyond else []),
        f"if ({most} >= 1ll << 31) return -1;",
        *_declared([(n, f) for n, f in statements if n.startswith("at_")]),
        f"if (asks) return {_rooms(program)}{program.bytes.removeprefix(' + ') or '0'};",
        *made,
        "return (long long)cudaGetLastError();",
    ]


def _said_where_given(made: list[str], program: Program) -> tuple[list[str], Program]:
    """Multiples of a size stand where launches are given them, unless something else reads them."""
    formulas = [formula for _, formula in program.extents + program.workspace]
    rest = " ".join([*formulas, program.bytes, *program.largest, *program.beyond])
    extents = []
    for name, formula in program.extents:
        word = re.compile(rf"(?<=, ){name}(?=[,)])")
        read = sum(len(re.findall(rf"\b{name}\b", call)) for call in made)
        if (
            not re.fullmatch(r"\d+ \* [a-z]+", formula)
            or re.search(rf"\b{name}\b", rest)
            or sum(len(word.findall(c)) for c in made) < read
        ):
            extents.append((name, formula))
        else:
            made = [word.sub(formula, call) for call in made]
    return made, replace(program, extents=extents)


def _rooms(program: Program) -> str:
    """Kernels with more shared memory than every kernel may have are told so when the call is prepared."""
    large = {launch.kernel.name: launch.shared for launch in program.launches if launch.shared > 48 * 1024}
    return "".join(f"room({name}, {shared}), " for name, shared in large.items())


def _declared(named: list[tuple[str, str]]) -> list[str]:
    """Declarations, as many as fit on a line."""
    lines: list[str] = []
    for name, formula in named:
        if lines and len(lines[-1]) + len(name) + len(formula) < 136:
            lines[-1] = f"{lines[-1][:-1]}, {name} = {formula};"
        else:
            lines.append(f"const long long {name} = {formula};")
    return lines


def _value(p) -> str:
    if p.type == "Sizes":
        return f"sizes_of({re.sub('[{}]', '', p.value)})"
    return f"{p.type}{p.value}" if p.value.startswith("{") else p.value


def _used(named: list[tuple[str, str]], text: str) -> list[tuple[str, str]]:
    kept: list[tuple[str, str]] = []
    for name, formula in reversed(named):
        if re.search(rf"\b{name}\b", text):
            kept.insert(0, (name, formula))
            text += " " + formula
    return kept
