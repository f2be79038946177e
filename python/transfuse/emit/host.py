"""Host code in C++: for each program a function that launches its kernels on a stream, sizes given at run time."""

from __future__ import annotations

import re

from transfuse.emit.program import Program

SMALL = "1600000000"  # flops of a convolution, below which optimize multiplies in strict fp32 as well (see tf32_pays)

LAUNCH = r"""
static bool aligned(void* const* leaf, int count) {
    return std::all_of(leaf, leaf + count, [](void* p) { return (size_t)p % 16 == 0; });
}
static long long ceil_div(long long a, long long b) { return (a + b - 1) / b; }

// early: the kernel may start while its predecessor ends; it waits for it before it reads.
template <class... P, class... A>
static void launch(void (*kernel)(P...), long long grid, int block, int shared, @CLUSTER@bool early, cudaStream_t stream, A... a) {
    cudaLaunchAttribute attributes[] = {{cudaLaunchAttributeProgrammaticStreamSerialization}@ATTRIBUTE@};
    attributes[0].val.programmaticStreamSerializationAllowed = early;
@DIMENSION@    cudaLaunchConfig_t config = {dim3((unsigned)grid), dim3((unsigned)block), (size_t)shared, stream, attributes, @COUNT@};
    if (shared > 48 * 1024) cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
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

DIVISOR = r"""
// n / d as (umulhi(n, magic) + n) >> shift, for n < 2^31
static tf_divisor divisor(long long d) {
    unsigned shift = 0;
    while ((1ull << shift) < (unsigned long long)d) ++shift;
    return {(unsigned)((((1ull << shift) - d) << 32) / d + 1), shift};
}
"""


BOXES = r"""
// A tensor as the copy engine is told of it: five axes, fastest first; it reads boxes of it, zeros outside.
template <class S>
static TensorMap boxes_of(const S* tensor, std::array<uint64_t, 5> extent, std::array<uint64_t, 4> stride, std::array<unsigned, 5> box) {
    typedef int Encode(void*, int, unsigned, const void*, uint64_t*, uint64_t*, unsigned*, unsigned*, int, int, int, int);
    static Encode* const encode = (Encode*)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuTensorMapEncodeTiled");
    unsigned ones[5] = {1, 1, 1, 1, 1};
    TensorMap map;
    encode(&map, @ELEMENT@, 5, tensor, extent.data(), stride.data(), box.data(), ones, 0, 0, 3, 0);
    return map;
}
"""


def support(functions: str, clusters: bool, half: bool) -> list[str]:
    """What the functions call."""
    launch = LAUNCH
    for word, texts in CLUSTERS.items():
        launch = launch.replace(word, texts[clusters])
    element = "sizeof(S) == 4 ? 7 : std::is_same<S, Half>::value ? 6 : 9" if half else "7"
    boxes = BOXES.replace("@ELEMENT@", element)
    return [launch, *([DIVISOR] if "divisor(" in functions else []), *([boxes] if "boxes_of(" in functions else [])]


def function(
    name: str, symbols: list[str], leaves: int, variants: list[tuple[str, Program]], clusters: bool, otherwise: int
) -> str:
    """extern "C": the bytes of workspace it needs, or the launches: given are addresses of leaves, outputs, workspace. The first variant whose condition holds; where
    none does `otherwise`: -2 for the portable path, -4 for the build for rows of any length."""
    lines = [
        f'extern "C" long long {name}(void* const* leaf, const long long* size, cudaStream_t stream, int arch, int asks) {{',
        f"    void* const* const out = leaf + {leaves};",
    ]
    unpack = ", ".join(f"{s} = size[{i}]" for i, s in enumerate(symbols))
    lines.append(f"    const long long {unpack};")
    for condition, program in variants:
        indent = "    "
        if condition:
            lines.append(f"    if ({condition}) {{")
            indent = "        "
        for line in _body(program, clusters):
            lines.append(indent + line)
        if condition:
            lines.append("    }")
    if variants[-1][0]:
        lines.append(f"    return {otherwise};")
    lines.append("}")
    return "\n".join(lines)


def _body(program: Program, clusters: bool) -> list[str]:
    calls = []
    for i, launch in enumerate(program.launches):
        early = "arch >= 90" if launch.early and i > 0 else "false"
        cluster, grid = f"{launch.cluster}, " if clusters else "", launch.grid
        if launch.cluster > 1:
            cluster, grid = f"arch >= 90 ? {launch.cluster} : 1, ", f"arch >= 90 ? {launch.grid} : 1"
        arguments = ", ".join(_value(p) for p in launch.kernel.parameters)
        calls.append(
            f"launch({launch.kernel.name}, {grid}, {launch.block}, {launch.shared}, {cluster}{early}, stream, {arguments});"
        )
    most = program.largest[0] if len(program.largest) == 1 else f"std::max<long long>({{{', '.join(program.largest)}}})"
    used = " ".join(calls) + " " + program.bytes + most + program.flops
    statements = _used([*program.extents, *program.workspace[1:]], used)
    return [
        *(f"const long long {name} = {formula};" for name, formula in statements),
        f"if ({most} >= 1ll << 31) return -1;",
        *([f"if ({program.flops} < {SMALL}) return -3;"] if program.flops else []),
        f"if (asks) return {program.bytes};",
        *([f"char* const workspace = (char*)out[{len(program.outputs)}];"] if "workspace" in used else []),
        *calls,
        "return (long long)cudaGetLastError();",
    ]


def _value(p) -> str:
    if p.type.endswith("TensorMap"):
        return p.value
    if p.value.startswith("{"):
        return f"{p.type}{p.value}".replace("{", "{", 1)
    return p.value


def _used(named: list[tuple[str, str]], text: str) -> list[tuple[str, str]]:
    kept: list[tuple[str, str]] = []
    for name, formula in reversed(named):
        if re.search(rf"\b{name}\b", text):
            kept.insert(0, (name, formula))
            text += " " + formula
    return kept
