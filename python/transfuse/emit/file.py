"""The emitted file: a header that says what was derived and why it is fast, the kernels, and the class ModelNew."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

from transfuse import library
from transfuse.emit import (
    both_modes,
    device,
    follows,
    functions,
    gradients,
    header,
    host,
    portable,
    quotients,
    runtime,
    widths,
)
from transfuse.emit.alike import EACH, as_compiled, said_for_each
from transfuse.emit.builds import merged, shared
from transfuse.emit.builds.apart import FLAGS
from transfuse.emit.compiler import refused
from transfuse.emit.model import lines_of
from transfuse.emit.source import Reference
from transfuse.emit.model_class import WIDTH, model_class
from transfuse.emit.formula import Unstated
from transfuse.emit.launches import Kernel
from transfuse.emit.text import layout
from transfuse.emit.text.fewer import fewer
from transfuse.emit.text.words import words


LONGEST = 600  # lines of a file
ARITHMETICS = ("fp32", "wide", "strict", "half")


def write(found, ref: Reference, modes, half: bool = False) -> str:
    """With kernels of their own for as many sizes and arithmetics as leave the file short enough to read. Without them rows of another
    length than the example's take the portable path, 16 bits the fp32 kernels, in which their products are exact, and strict fp32
    PyTorch's operators. half: kernels for 16 bits alone, where tensor cores have them."""
    parts = [part for mode in modes for part in mode.parts]
    rounds = any(part.rounds for part in parts)
    every = list(dict.fromkeys(a for part in parts for a in part.programs.arithmetics))
    if half and rounds:
        alone = _with_each(modes, _standing_alone)
        with suppress(Unstated, library.CompileError):  # for no sizes but the example's: 16 bits are converted then
            return _shortest(found, ref, alone, "half")[1]
    modes = _with_each(modes, _fp32_alone) if rounds else modes
    modes, text = _shortest(found, ref, modes, "fp32")
    taken = ["fp32"]
    for arithmetic in ("wide", "half", "strict"):
        if arithmetic not in every or arithmetic in taken or text.count("\n") >= LONGEST:
            continue
        ways = [modes]
        if arithmetic == "half" and "wide" in every:  # rows of the example's length, as in fp32
            ways = [_with_each(modes, _like_fp32), *([modes] if "wide" in taken else [])]
        for told in ways:
            longer = _with(found, ref, told, [a for a in ARITHMETICS if a in (*taken, arithmetic)])
            longer = _close(longer) if longer and longer.count("\n") >= LONGEST else longer
            if longer and longer.count("\n") < LONGEST:
                modes, taken, text = told, [*taken, arithmetic], longer
                break
    return text


def _shortest(found, ref: Reference, modes, arithmetic: str) -> tuple[list, str]:
    """For one arithmetic, with as much as leaves the file short enough; and the modes as it has them."""
    parts = [part for mode in modes for part in mode.parts]
    ways = _ways(parts, arithmetic)
    for less in ways[:1] if any(part.network for part in parts) else ways:
        told = _with_each(modes, *less)
        text = _file(found, ref, told, [arithmetic])
        if text.count("\n") >= LONGEST and (_shorter in less or arithmetic == "half"):
            text = _close(text)
        if text.count("\n") < LONGEST:
            break
    return told, text


def _ways(parts, arithmetic: str) -> list[tuple]:
    """What a file may go without to be shorter, the least first."""
    rows = (_own_rows,) if arithmetic == "half" else ()
    return [
        (),
        *([(_without_general,)] if any(not c for p in parts for c, _ in p.programs.of(arithmetic)) else []),
        *([(_without_gradient,)] if any(part.gradient for part in parts) else []),
        *([rows] if rows and any(len(part.programs.of("half")) > 1 for part in parts) else []),
        (_without_gradient, *rows, _shorter),
    ]


def _close(text: str) -> str:
    """A long file's kernels without blank lines between them, its Python with one between functions and none within them: each begins
    at the margin. What a loop or a condition governs stands beside it, where it is one loop or one statement, and a layer's numbers
    beside its name."""
    closed = lambda m: layout.beside(re.sub(r"\n{2,}", "\n", m[0]))  # noqa: E731
    text = re.sub(r'(?<=r"""\n).*?(?=\n""")', closed, text, flags=re.S)
    text = BRACKETS.sub(_beside_its_name, re.sub(r"\n{2,}(?= )", "\n", re.sub(r"\n{3,}", "\n\n", text)))
    return re.sub(r"\n\n(?=import torch\n|_built, )", "\n", text)


BRACKETS = re.compile(r"^( *self\.\w+ = [\w.]+\()\n +([^\n#'\"]*[^\n#'\", ]),?\n *\)$", re.M)


def _beside_its_name(call: re.Match) -> str:
    line = f"{call[1]}{call[2]})"
    return line if len(line) <= layout.WIDTH else call[0]


def _with(found, ref: Reference, modes, arithmetics: list[str]) -> str | None:
    """None where the kernels of one of them are for no sizes but the example's."""
    try:
        return _file(found, ref, modes, arithmetics)
    except (Unstated, library.CompileError):
        return None


def _with_each(modes, *ways) -> list:
    """The modes with each of their parts changed in these ways."""

    def changed(part):
        for way in ways:
            part = way(part)
        return part

    return [replace(mode, parts=[changed(part) for part in mode.parts]) for mode in modes]


def _fp32_alone(part):
    return replace(part, programs=part.programs.changed(widths.fp32))


def _without_general(part):
    return replace(part, programs=part.programs.without_general())


def _own_rows(part):
    """Without kernels in 16 bits for rows of another length than the example's, where that has its own."""
    return replace(part, programs=part.programs.for_own_rows())


def _shorter(part):
    """For the example's kind of sizes alone, what its plain kernels look up said where they read it, and what PyTorch differentiates
    as written: a second formula of the model would have to be read as well."""
    plain = part.programs.without_general().changed(quotients.plainly).changed(follows.strides)
    return replace(part, programs=plain, derived=False, follows=True)


def _like_fp32(part):
    """In 16 bits for rows of the example's length alone, where they share the zeros between them as in fp32."""
    return replace(part, programs=part.programs.like_fp32())


def _standing_alone(part):
    return replace(part, programs=part.programs.standing_alone().changed(widths.half))


def _without_gradient(part):
    return replace(part, gradient=None)


def _file(found, ref: Reference, modes, arithmetics: list[str]) -> str:
    forward = [part for mode in modes for part in mode.parts]
    backward = [part.gradient for part in forward if part.gradient] * (len(forward) == 1)
    parts = forward + backward
    builds, hosts, first = {}, {}, {}
    every = [program for part in parts for a in arithmetics for _, program in part.programs.of(a)]
    clusters = any(launch.cluster > 1 for program in every for launch in program.launches)
    falls = any(part.falls for part in parts)
    programs = {}
    for arithmetic in arithmetics:
        kernels = {}  # of each text its kernel
        programs[arithmetic] = [
            [(_aligned(c, part), _share(program, kernels)) for c, program in part.programs.of(arithmetic)]
            for part in parts
        ]
        first = first or {k.name: k for k in kernels.values()}
        builds[arithmetic] = [(k.name, _named_like(k, first.get(k.name))) for k in kernels.values()]
    network = any(part.network for part in parts)
    launched = [program for variants in programs[arithmetics[0]] for _, program in variants]
    long = len(builds) == 1 and any(part.follows for part in parts)
    code, told = device.assembled(builds, network, follows.found(launched) if long else None)
    for arithmetic in arithmetics:
        launched_by = []
        for part, variants in zip(parts, programs[arithmetic]):
            otherwise = -2
            if "wide" in part.programs and "wide" in arithmetics:
                otherwise = (
                    -4 if arithmetic == "fp32" else -3 if arithmetic == "half" and part.programs.own_rows else -2
                )
            symbols = [s.name for s in part.sized.symbols]
            leaves = len(part.sized.names)
            launched_by.append(host.function(part.name, symbols, leaves, variants, clusters, otherwise, told))
        if len(modes) == len(parts) == 2 and len(arithmetics) == 1:
            launched_by = _in_both_modes(parts, programs[arithmetic], clusters, told) or launched_by
        launched_by = host.always_early(launched_by if "half" in arithmetics else host.of_floats(launched_by))
        text = "\n\n".join([*host.support("".join(launched_by), clusters, "half" in arithmetics), *launched_by])
        hosts[arithmetic] = re.sub(r"\btf_half\b", "STORED", text)
    code, hosts = host.sizes_read(code, hosts)
    hosts = host.totals_counted(hosts)
    source = _merged({key: f"{code[key]}\n{BETWEEN}\n{hosts[key]}" for key in builds})
    statistics = any(part.outputs > part.sized.region.differentiable for part in parts)
    regions = [functions.region(part) for part in forward]
    regions = [*functions.by_one_function(*regions)] if len(modes) == len(regions) == 2 else regions
    regions = [*map(functions.returned_directly, functions.norm_written_out(regions))]
    regions += [gradients.python(functions.name_of(regions[0]), part.name) for part in backward]
    transposed = "], False, [" not in "".join(regions)
    rounding = [part.name for part in parts if part.rounds and part.tf32]
    tensor_cores = any(part.rounds for part in parts)
    written = [
        (text, dict(zip(map(functions.leaf_name, p.sized.names), p.sized.shapes)))
        for p, text in zip(parts, regions)
        if p.falls and tensor_cores and not network  # other kernels run on every GPU
    ]
    convolutions = portable.called(written)
    direct, launched, convolve = portable.texts(convolutions, transposed) if convolutions else ("", "", "")
    source = source.replace(BETWEEN, direct) + launched
    if tensor_cores and "half" not in arithmetics:  # 16 bits are converted before
        source = source.replace(direct, portable.of_floats(direct)) if direct else source
        source = re.sub(r"\bSTORED\b", "float", source.replace(f"{device.ELEMENTS}\n", ""))
    for shorter in [] if network else [words, *([fewer] if long else [])]:
        source = _if_it_compiles(shorter(source), source, builds)
    source = layout.folded(re.sub(r"\n{3,}", "\n\n", re.sub(r"\n{2,}(?=// )", "\n", source)).strip("\n"))
    model = model_class(found, ref, modes, network)
    sections = [
        header.header(found, ref, modes) + header.gradients(regions, bool(backward)),
        runtime.imports(network) + lines_of(ref.imports),
        "# Kernels and the host code that launches them; sizes are run-time values. No torch headers: it compiles in seconds.\n"
        + (header.served(arithmetics, bool(convolutions), bool(rounding)) if tensor_cores else "")
        + _strings(source),
        runtime.text(
            arithmetics,
            falls,
            tensor_cores,
            rounding,
            len(rounding) < len(parts),
            convolve,
            statistics,
            any(not isinstance(e, int) and not e.is_Symbol for p in parts for shape in p.sized.shapes for e in shape),
            source,
            network,
            any(not shape for program in every for _, shape in program.outputs),
            any(part.programs["fp32"][0][1].optional for part in backward),
            not any("as_written(" in text for text in regions),
            {"wide", "half"} <= {*arithmetics} and any(part.programs.own_rows for part in parts),
        ),
        runtime.helpers("\n".join(regions), model),
        *(text for text in regions if text.startswith("def ")),
        functions.programs(parts, regions, statistics, portable.program(convolutions)),
        gradients.function(backward[0].name, backward[0].programs["fp32"][0][1])
        if backward
        else runtime.function(statistics, [functions.name_of(text) for text in regions]),
        lines_of(ref.helpers).strip("\n"),
        model,
    ]
    text = "\n\n".join(s.strip("\n") for s in sections if s.strip()) + "\n"
    text = source_apart(text, folded)
    return re.sub(r"\n+((?:class|def) )", r"\n\n\n\1", text)


def source_apart(text: str, change) -> str:
    """The text with its Python lines changed, those of the CUDA strings left as they are."""
    parts = re.split(r'(r"""\n.*?\n""")', text, flags=re.S)
    return "".join(part if i % 2 else "\n".join(map(change, part.split("\n"))) for i, part in enumerate(parts))


def folded(line: str) -> str:
    """A line of Python, broken behind commas within brackets where it is too long."""
    out, indent = [], " " * (len(line) - len(line.lstrip()) + 8)
    while len(line) > WIDTH and not line.lstrip().startswith(("#", '"""')):
        depth, quote, cut = 0, "", 0
        for i, c in enumerate(line[:WIDTH]):
            if quote:
                quote = "" if c == quote else quote
            elif c in "\"'":
                quote = c
            else:
                depth += (c in "([{") - (c in ")]}")
                cut = i + 1 if line[i : i + 2] == ", " and depth + len(out) > 0 else cut
        if cut <= len(indent):
            break
        out.append(line[:cut])
        line = indent + line[cut:].lstrip()
    return "\n".join([*out, line])


def _strings(source: str) -> str:
    defined, source = said_for_each(source)
    named, pieces = shared(source)
    quoted = [p if p in named else f'r"""\n{p.strip(chr(10))}\n"""' for p in pieces if p.strip()]
    joined = re.sub(rf"\n+{re.escape(EACH)}\n+", f'\n""" + {EACH} + r"""\n', " + ".join(quoted))
    return defined + "\n".join([*(f'{name} = r"""\n{text}\n"""' for name, text in named.items()), f"SOURCE = {joined}"])


BETWEEN = "// between device and host code"


def _merged(texts: dict[str, str]) -> str:
    """One text of all builds."""
    return merged(texts, lambda text: _compiles(text.split(BETWEEN)[0], texts))


def _if_it_compiles(text: str, otherwise: str, builds) -> str:
    """Device and host code, of which the first is shown to the compiler."""
    return text if _compiles(re.split(r"\n(?:#include <|static bool aligned\()", text)[0], builds) else otherwise


def _compiles(code: str, builds) -> bool:
    told = [
        ["-DSTORED=Half" if key == "half" else "-DSTORED=float", *([f"-D{FLAGS[key]}"] if FLAGS[key] else [])]
        for key in builds
    ]
    return not any(refused(as_compiled(code), *flags) for flags in told)


def _in_both_modes(parts, programs, clusters: bool, told) -> list[str] | None:
    """One function for both modes, where each has one variant and sizes of the same names."""
    symbols = [[s.name for s in part.sized.symbols] for part in parts]
    if symbols[0] != symbols[1] or any(len(variants) != 1 for variants in programs):
        return None
    two = [both_modes.Mode(part.name, len(part.sized.names), *variants[0]) for part, variants in zip(parts, programs)]
    text = both_modes.function(*two, symbols[0], clusters, -2, told)
    return [text] if text else None


VALUE = re.compile(r"\b[vr]\d+\b")  # of a tile program: what it computes, and what it reads


def _share(program, kernels: dict):
    """The program with kernels that differ in names alone, of parameters and values, being one."""
    launches = []
    for launch in program.launches:
        kernel = launch.kernel
        plain = kernel.text.replace(kernel.name, "@")
        for i, parameter in enumerate(kernel.parameters):
            plain = re.sub(rf"\b{parameter.name}\b", f"@{i}", plain)
        words = list(dict.fromkeys(VALUE.findall(plain)))
        plain = VALUE.sub(lambda m, words=words: f"{m[0][0]}{words.index(m[0])}", plain)
        same = Kernel(kernels.setdefault(plain, kernel).name, kernel.text, kernel.parameters)
        launches.append(replace(launch, kernel=same))
    return replace(program, launches=launches)


def _named_like(kernel: Kernel, model: Kernel | None) -> str:
    """The kernel's text with the names that a kernel of another build gives its parameters, one by one."""
    types = lambda k: [p.type.replace("float", "STORED") for p in k.parameters]  # noqa: E731
    if model is None or types(kernel) != types(model):
        return kernel.text
    names = {p.name: q.name for p, q in zip(kernel.parameters, model.parameters)}
    if (set(names.values()) - set(names)) & set(re.findall(r"\w+", kernel.text)):
        return kernel.text
    return re.sub(rf"\b(?:{'|'.join(names)})\b", lambda m: names[m[0]], kernel.text) if names else kernel.text


def _aligned(condition: str, part) -> str:
    count = len(part.sized.names)
    return condition.replace("aligned", f"aligned(leaf, {count})") if condition else condition
