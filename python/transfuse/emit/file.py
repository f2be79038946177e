"""The emitted file: a header that says what was derived and why it is fast, the kernels, and the class ModelNew."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from dataclasses import replace

from transfuse.emit import derived, device, host, portable, runtime
from transfuse.emit.builds import merged, shared
from transfuse.emit.formula import python_of
from transfuse.emit.model import Printer, Reference, as_written, attribute, user_inputs
from transfuse.emit.program import Kernel
from transfuse.emit.text import layout
from transfuse.problem import ProblemError

DTYPES = {"f32": "torch.float32", "f16": "torch.float16", "bf16": "torch.bfloat16", "f64": "torch.float64"}


LONGEST = 600  # lines of a file


def write(found, ref: Reference, modes, half: bool = False) -> str:
    """With kernels of their own for as many sizes and arithmetics as leave the file short enough to read. Without them rows of another
    length than the example's take the portable path, 16 bits the fp32 kernels, in which their products are exact, and strict fp32
    PyTorch's operators. half: kernels for 16 bits alone, where tensor cores have them."""
    every = list(dict.fromkeys(a for mode in modes for part in mode.parts for a in part.programs))
    if half and "half" in every:
        return _file(found, ref, modes, ["half"])
    taken, text = ["fp32"], _file(found, ref, modes, ["fp32"])
    if text.count("\n") >= LONGEST:
        modes = [replace(mode, parts=[_without_general(part) for part in mode.parts]) for mode in modes]
        text = _file(found, ref, modes, taken)
    for arithmetic in ("wide", "half", "strict"):
        if arithmetic in every and text.count("\n") < LONGEST:
            longer = _file(found, ref, modes, [a for a in every if a in (*taken, arithmetic)])
            if longer.count("\n") < LONGEST:
                taken, text = [*taken, arithmetic], longer
    return text


def _without_general(part):
    """Without kernels of their own for sizes that others cannot take: those are computed in PyTorch's operators."""
    kept = {key: [v for v in variants if v[0]] or variants for key, variants in part.programs.items()}
    return replace(part, programs=kept)


def _file(found, ref: Reference, modes, arithmetics: list[str]) -> str:
    parts = [part for mode in modes for part in mode.parts]
    builds, hosts, first = {}, {}, {}
    every = [program for part in parts for variants in part.programs.values() for _, program in variants]
    clusters = any(launch.cluster > 1 for program in every for launch in program.launches)
    falls = any(part.falls for part in parts)
    programs = {}
    for arithmetic in arithmetics:
        kernels = {}  # of each text its kernel
        programs[arithmetic] = [
            [
                (_aligned(c, part), _share(program, kernels))
                for c, program in part.programs.get(arithmetic, part.programs["fp32"])
            ]
            for part in parts
        ]
        first = first or {k.name: k for k in kernels.values()}
        builds[arithmetic] = [(k.name, _named_like(k, first.get(k.name))) for k in kernels.values()]
    code, unread = device.assembled(builds)
    for arithmetic in arithmetics:
        functions = []
        for part, variants in zip(parts, programs[arithmetic]):
            otherwise = -4 if arithmetic == "fp32" and "wide" in part.programs and "wide" in arithmetics else -2
            symbols = [s.name for s in part.sized.symbols]
            leaves = len(part.sized.names)
            functions.append(host.function(part.name, symbols, leaves, variants, clusters, otherwise, unread))
        text = "\n\n".join([*host.support("".join(functions), clusters, "half" in arithmetics), *functions])
        hosts[arithmetic] = re.sub(r"\btf_half\b", "STORED", text)
    source = merged({key: f"{code[key]}\n{BETWEEN}\n{hosts[key]}" for key in builds})
    statistics = any(part.outputs > part.sized.region.differentiable for part in parts)
    regions = [_region(part, statistics) for part in parts]
    functions = _functions(parts, regions)
    transposed = "], False, [" not in "".join(regions)
    written = [
        (text, dict(zip(map(leaf_name, p.sized.names), p.sized.shapes))) for p, text in zip(parts, regions) if p.falls
    ]
    convolutions = portable.called(written)
    direct, launched, convolve = portable.texts(convolutions, transposed) if convolutions else ("", "", "")
    source = source.replace(BETWEEN, direct) + launched
    rounding = [part.name for part in parts if "half" in part.programs]
    tensor_cores = bool(rounding)
    if tensor_cores and "half" not in arithmetics:  # 16 bits are converted before
        source = re.sub(r"\bSTORED\b", "float", source.replace(f"{device.ELEMENTS}\n", ""))
    source = layout.folded(re.sub(r"\n{3,}", "\n\n", re.sub(r"\n{2,}(?=// )", "\n", source)).strip("\n"))
    sections = [
        header(found, ref, modes) + _gradients(regions),
        runtime.imports(not tensor_cores) + lines_of(ref.imports),
        "# Kernels and the host code that launches them; sizes are run-time values. No torch headers: it compiles in seconds.\n"
        + (_served(arithmetics) if tensor_cores else "")
        + _strings(source),
        runtime.text(
            arithmetics, falls, tensor_cores, rounding * (len(rounding) < len(parts)), convolve, statistics, source
        ),
        runtime.helpers("\n".join(regions)),
        *regions,
        *functions,
        lines_of(ref.helpers).strip("\n"),
        model_class(found, ref, modes),
    ]
    text = "\n\n".join(s.strip("\n") for s in sections if s.strip()) + "\n"
    if text.count("differentiated(") == 1:
        text = text.replace(runtime.DIFFERENTIATED.strip("\n"), "")
    text = source_apart(text, folded)
    return re.sub(r"\n+((?:class|def) )", r"\n\n\n\1", text)


def _gradients(regions: list[str]) -> str:
    """What backward does, as the header says it."""
    kinds = {"derivation's result": "_as_derived(", "model as written": "_as_written("}
    told = " or the ".join(kind for kind, mark in kinds.items() if any(mark in text for text in regions))
    return (
        f"\n# Gradients: PyTorch's operators differentiate the {told}, which has kernels of its own in forward alone."
    )


def _served(arithmetics: list[str]) -> str:
    """What the kernels are for, and what becomes of everything else."""
    own = {"fp32": "fp32 (TF32)", "half": "16 bits", "strict": "strict fp32"}
    ways = [
        *([] if "half" in arithmetics else ["16 bits are converted"]),
        *([] if {"strict", "fp32"} & {*arithmetics} == {"strict", "fp32"} else
          [f"{'strict fp32' if 'fp32' in arithmetics else 'fp32'} takes PyTorch's operators"]),
        "other GPUs and sizes the portable kernel",
    ]  # fmt: skip
    return f"# For {' and '.join(own[a] for a in own if a in arithmetics)} on sm_90a; {', '.join(ways)}.\n"


def source_apart(text: str, change) -> str:
    """The text with its Python lines changed, those of the CUDA strings left as they are."""
    parts = re.split(r'(r"""\n.*?\n""")', text, flags=re.S)
    return "".join(part if i % 2 else "\n".join(map(change, part.split("\n"))) for i, part in enumerate(parts))


WIDTH = 150


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
                cut = i + 1 if c == "," and depth + len(out) > 0 else cut
        if cut <= len(indent):
            break
        out.append(line[:cut])
        line = indent + line[cut:].lstrip()
    return "\n".join([*out, line])


def _strings(source: str) -> str:
    named, pieces = shared(source)
    quoted = [p if p in named else f'r"""\n{p.strip(chr(10))}\n"""' for p in pieces if p.strip()]
    return "\n".join(
        [*(f'{name} = r"""\n{text}\n"""' for name, text in named.items()), f"SOURCE = {' + '.join(quoted)}"]
    )


BETWEEN = "// between device and host code"


def _share(program, kernels: dict):
    """The program with kernels that differ in names alone being one."""
    launches = []
    for launch in program.launches:
        kernel = launch.kernel
        plain = kernel.text.replace(kernel.name, "@")
        for i, parameter in enumerate(kernel.parameters):
            plain = re.sub(rf"\b{parameter.name}\b", f"@{i}", plain)
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


def lines_of(text: str) -> str:
    return text + "\n" if text else ""


def _aligned(condition: str, part) -> str:
    count = len(part.sized.names)
    return condition.replace("aligned", f"aligned(leaf, {count})") if condition else condition


# The header ----------------------------------------------------------------------------------------------------------


def header(found, ref: Reference, modes, device: str = "cuda") -> str:
    lines = [f"{found.path.name} with its kernels: ModelNew computes what Model does. The model as written:"]
    lines += ["    " + line for line in ref.written.splitlines()]
    said: set[str] = set()  # in the mode before
    for mode in modes:
        for part in mode.parts:
            told = part.summary
            before, after = told["before"], told["after"]
            title = "" if len(modes) == 1 else f" ({'train' if mode.training else 'eval'} mode)"
            steps = _steps(told["steps"])
            own = [step for step in steps if step not in said]
            lines += [
                f"Derivation{title}, each rule exact{', beside those above' if len(own) < len(steps) else ''}:",
            ]
            lines += _shortened(own, 14 if len(modes) == 1 else 9)
            said |= {*steps}
            lines += [
                f"  in all {_cost(before)} became {_cost(after)}.",
            ]
            flops = sum(p["cost"]["flops"] for p in told["plan"]["passes"])
            moved = sum(p["cost"]["bytes"] for p in told["plan"]["passes"])
            passes = [
                f"{p['kind']}: {_flops(p['cost']['flops'])}, {_bytes(p['cost']['bytes'])}"
                + (f"; {p['why']}" if p["why"] else "")
                for p in told["plan"]["passes"]
            ]
            short = f"Plan: {'; '.join(passes)}."
            lines += [short] if len(short) <= 146 else ["Plan:", *(f"  {text}" for text in passes)]
            lines += textwrap.wrap(_justified(device, flops, moved, before), 146)
    return "\n".join(f"# {line}".rstrip() for line in lines)


def _justified(device: str, flops: float, moved: float, before: dict) -> str:
    if device == "cpu":
        return f"Why it may be this fast: {_flops(flops)} are done where the operators as written do {_flops(before['flops'])}."
    floor = max(flops / 400e12, moved / 4.0e12) * 1e3
    written = max(before["flops"] / 400e12, before["bytes"] / 4.0e12) * 1e3
    return (
        f"Why it may be this fast: on an H200 (400 TFLOP/s TF32, 4.0 TB/s measured) the plan cannot take less than {floor:.3g} ms"
        f" at the sizes of get_inputs(); the operators one by one, as written, not less than {written:.3g} ms."
    )


def _steps(steps) -> list[str]:
    out, last = [], None
    for step in steps:
        text = f"  {step['rule']}: {step['what']}" if step["what"] else f"  {step['rule']}"
        if text != last and len(text) < 400:
            out.append(text[:150])
        last = text
    return out


def _shortened(steps: list[str], most: int) -> list[str]:
    return steps if len(steps) <= most else [*steps[: most - 1], f"  … and {len(steps) - most + 1} more"]


def _cost(cost: dict) -> str:
    return f"{_flops(cost['flops'])} and {_bytes(cost['bytes'])}"


def _flops(value: float) -> str:
    for unit, size in (("Gflop", 1e9), ("Mflop", 1e6), ("kflop", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} flop"


def _bytes(value: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"


# A region ------------------------------------------------------------------------------------------------------------


def _region(part, any_statistics: bool) -> str:
    at, region = part.sized, part.sized.region
    program = part.programs.get("wide", part.programs["fp32"])[-1][1]  # the one for all sizes
    names = [leaf_name(n) for n in at.names]
    symbols = [s.name for s in at.symbols]
    expected = wrapped_list(
        [
            f'("{n}", ({", ".join(extent_text(e) for e in shape)}{"," if len(shape) == 1 else ""}))'
            for n, shape in zip(names, at.shapes)
        ],
        "               ",
    )
    shapes = ", ".join(
        f"({', '.join(python_of(e, program.extents) for e in shape)}{',' if len(shape) == 1 else ''})"
        for _, shape in program.outputs
    )
    formula = None if "half" in part.programs else derived.written(at, names, program.extents)
    kind = "derived" if formula else "written"
    otherwise = f" or {part.name}_as_{kind}({'None' if formula else 'convolve'}, *leaves)" if part.falls else ""
    results = f", {region.differentiable}" if any_statistics else ""
    places = ", ".join(f"({s.leaf}, {s.axis})" for s in at.symbols) + ("," if len(symbols) == 1 else "")
    return f'''
{_as_derived(part, names, formula) if formula else _as_written(part, names)}


def {part.name}_by_kernels(*leaves):
    expected = ({expected}{"," if len(names) == 1 else ""})  # words for sizes that vary
    sizes_at, outputs = ({places}), lambda {", ".join(symbols)}: [{shapes}]
    return run("{part.name}", leaves, expected, sizes_at, outputs{results}){otherwise}'''


def _functions(parts, regions: list[str]) -> list[str]:
    """What autograd is given: of one region its own function, of several a function that makes them."""
    every = [part.sized.region.differentiable for part in parts]
    kinds = ["derived" if f"def {part.name}_as_derived(" in text else "written" for part, text in zip(parts, regions)]
    statistics = [part.outputs > n for part, n in zip(parts, every)]
    if len(parts) > 1 and (not any(statistics) or len({*every}) == 1):
        forward, given = _kept("kernels", any(statistics), every[0])
        names = ", ".join(part.name.capitalize() for part in parts)
        made = [f"differentiable({p.name}_by_kernels, {p.name}_as_{kind})" for p, kind in zip(parts, kinds)]
        text = textwrap.indent(_function("Function", forward, "written", given), "    ")
        told = '"""For autograd: results by kernels, gradients of what is written."""'
        return [
            f"\ndef differentiable(kernels, written):\n    {told}\n{text}\n\n    return Function\n\n\n{names} = {', '.join(made)}"
        ]
    out = []
    for part, kind, n, some in zip(parts, kinds, every, statistics):
        forward, given = _kept(f"{part.name}_by_kernels", some, n)
        text = _function(part.name.capitalize(), forward, f"{part.name}_as_{kind}", given)
        if len(parts) == 1 and kind == "written":  # the one place where gradients are asked for
            text = text.replace(
                CALLED.format(f"{part.name}_as_{kind}", given), runtime.within(f"{part.name}_as_{kind}", given)
            )
        out.append(f"\n{text}")
    return out


CALLED = "        return differentiated({}, ctx.saved_tensors, {})"


def _function(name: str, forward: str, written: str, given: str) -> str:
    return f"""class {name}(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *leaves):
        ctx.save_for_backward(*leaves)
{forward}

    @staticmethod
    def backward(ctx, *gradients):
{CALLED.format(written, given)}"""


def _kept(kernels: str, statistics: bool, results: int) -> tuple[str, str]:
    """What forward returns, and the gradients that backward looks at: not those of statistics."""
    if not statistics:
        return f"        return tuple({kernels}(*leaves))", "gradients"
    marked = f"        ctx.mark_non_differentiable(*out[{results}:])\n        return tuple(out)"
    return f"        out = {kernels}(*leaves)\n{marked}", f"gradients[:{results}]"


def _as_written(part, names: list[str]) -> str:
    at = part.sized
    numbers = [f"({number})" if not isinstance(number, int) else str(number) for number in at.numbers]
    lines = as_written(at.region.eager, [*names, *numbers])
    read = [s for s in at.symbols if re.search(rf"\b{s.name}\b", " ".join(numbers))]
    sizes = ", ".join(s.name for s in read) + " = " + ", ".join(f"{names[s.leaf]}.shape[{s.axis}]" for s in read)
    if (
        len(lines) > 1
        and (match := re.fullmatch(r"return \[(\w+)\]", lines[-1]))
        and lines[-2].startswith(f"{match[1]} = ")
    ):
        lines[-2:] = [f"return [{lines[-2].removeprefix(f'{match[1]} = ')}]"]
    also = " and the portable path computes" if part.falls else ""
    return "\n".join([
        f"def {part.name}_as_written({', '.join(['convolve', *names])}):",
        f'    """In PyTorch\'s operators, convolutions apart: what backward differentiates{also}."""',
        *([f"    {sizes}"] if read else []),
        *(f"    {line}" for line in lines),
    ])  # fmt: skip


def _as_derived(part, names: list[str], formula: list[str]) -> str:
    at = part.sized
    sizes = [s for s in at.symbols if re.search(rf"\b{s.name}\b", " ".join(formula))]
    shapes = ", ".join(f"{names[s.leaf]}.shape[{s.axis}]" for s in sizes)
    big = {s.leaf for s in at.symbols}
    large = [n for i, n in enumerate(names) if i in big]
    small = [n for i, n in enumerate(names) if i not in big]
    behind = large + small == names and len(small) > 1  # parameters, by one name
    doubled = (
        f"{small[0]}.double()"
        if len(small) == 1
        else f"[t.double() for t in {'parameters' if behind else '(' + ', '.join(small) + ')'}]"
    )
    every = ", ".join([*large, "*parameters"] if behind else names)
    return "\n".join([
        f"def {part.name}_as_derived(_, {every}):",
        '    """The derivation\'s result in PyTorch\'s operators: what backward differentiates. No large intermediate exists."""',
        f"    dtype = {names[0]}.dtype",
        *(f"    {n} = {n}.to(torch.promote_types(dtype, torch.float32))" for n in large),
        *([f"    {', '.join(small)} = {doubled}"] if small else []),
        *([f"    {', '.join(s.name for s in sizes)} = {shapes}"] if sizes else []),
        *(f"    {line}" for line in formula),
    ])  # fmt: skip


def wrapped_list(items: list[str], indent: str) -> str:
    lines = [""]
    for item in items:
        if lines[-1] and len(lines[-1]) + len(item) > 130:
            lines.append("")
        lines[-1] += (", " if lines[-1] else "") + item
    return f",\n{indent} ".join(lines)


def leaf_name(name: str) -> str:
    return re.sub(r"^[pb]_", "", name)


def extent_text(extent) -> str:
    return str(extent) if isinstance(extent, int) else f'"{extent}"'


# The class -----------------------------------------------------------------------------------------------------------


def model_class(found, ref: Reference, modes) -> str:
    body = [textwrap.indent(_guarded(found, ref.init), "    ")]
    forwards = [_forward(ref, mode) for mode in modes]
    forwards[0][:0] = _given(found, ref, modes[0])
    if len(modes) == 1:
        body.append(textwrap.indent(f"{ref.signature}\n" + textwrap.indent("\n".join(forwards[0]), "    "), "    "))
    else:
        lines = ["if self.training:", *("    " + line for line in forwards[0]), *forwards[1]]
        body.append(textwrap.indent(f"{ref.signature}\n" + textwrap.indent("\n".join(lines), "    "), "    "))
    return "\nclass ModelNew(nn.Module):\n" + "\n\n".join(body)


def _guarded(found, init: str) -> str:
    """The constructor, refusing arguments other than those the kernels were written for."""
    given = found.module.get_init_inputs()
    signature = inspect.signature(found.module.Model.__init__)
    bound = signature.bind(None, **given) if isinstance(given, dict) else signature.bind(None, *given)
    bound.apply_defaults()
    tree = ast.parse(init)
    first = tree.body[0].body[0]
    lines = init.splitlines()
    checks = []
    for name, value in list(bound.arguments.items())[1:]:
        if isinstance(value, list):
            value = tuple(value)
        if not isinstance(value, (int, float, bool, str, tuple, type(None))):
            continue
        mine = f"tuple({name})" if isinstance(value, tuple) else name
        checks.append((mine, value))
    if checks:
        indent = " " * first.col_offset
        wanted = ", ".join(repr(v) for _, v in checks)
        mine = ", ".join(m for m, _ in checks)
        comma = "," if len(checks) == 1 else ""
        said = f"{indent}given, expected = ({mine}{comma}), ({wanted}{comma})"
        apart = [f"{indent}given = ({mine}{comma})", f"{indent}expected = ({wanted}{comma})"]
        guard = [
            *([said] if len(said) < WIDTH - 4 else apart),
            f"{indent}if given != expected:",
            f'{indent}    raise ValueError(f"the kernels of this file were written for ModelNew{{expected}}, got ModelNew{{given}}")',
        ]
        lines[first.lineno - 1 : first.lineno - 1] = guard
    return "\n".join(lines)


def _given(found, ref: Reference, mode) -> list[str]:
    """Refuses arguments of forward, beside its tensors, that are not the defaults the graph was captured with."""
    holders = [n for n in mode.cut.graph_module.graph.nodes if n.op == "placeholder"]
    defaults = inspect.signature(found.module.Model.forward).parameters
    others = {n: defaults[n].default for n in ref.names[len(holders) - len(mode.capture.sources) :] if n in defaults}
    return [
        line
        for name, value in others.items()
        if value is not inspect.Parameter.empty
        for line in (
            f"if {name} is not {value!r}:" if value is None or isinstance(value, bool) else f"if {name} != {value!r}:",
            f'    raise ValueError(f"forward of this file was written for {name}={value!r}, got {{{name}!r}}")',
        )
    ]


def _forward(ref: Reference, mode) -> list[str]:
    graph = mode.cut.graph_module.graph
    holders = [n for n in graph.nodes if n.op == "placeholder"]
    sources = mode.capture.sources
    texts = {}
    for node, (kind, target) in zip(holders, sources):
        texts[node] = attribute(target)
        if kind == "constant" and node.users:
            value = mode.capture.constants[target]
            if value.numel() > 16:
                raise ProblemError(
                    f"the model uses a constant tensor of {value.numel()} elements; a file holds up to 16"
                )
            texts[node] = f"{user_inputs(ref, 1)[0]}.new_tensor({value.tolist()!r})"
    inputs = holders[len(sources) :]
    texts.update(zip(inputs, user_inputs(ref, len(inputs))))
    printer = Printer(texts)
    parts = {part.sized.region.name: part for part in mode.parts}
    for node in graph.nodes:
        if node.op == "call_module":
            part = parts[node.target]
            arguments = ", ".join(printer.argument(a) for a in node.args[: part.sized.region.leaf_count])
            users = [u for u in node.users]
            call = f"({part.name.capitalize()}.apply if torch.is_grad_enabled() else {part.name}_by_kernels)"
            if part.outputs == 1:
                printer.lines.append(f"y{'' if len(parts) == 1 else node.target[-1]} = {call}({arguments})[0]")
                for user in users:
                    printer.texts[user] = f"y{'' if len(parts) == 1 else node.target[-1]}"
            else:
                name = "y" if len(parts) == 1 else f"y{node.target[-1]}"
                printer.lines.append(f"{name} = {call}({arguments})")
                for user in users:
                    printer.texts[user] = f"{name}[{user.args[1]}]"
        elif node.op == "call_function" and node not in printer.texts:
            printer.statement(node)
        elif node.op == "output":
            results = [printer.argument(a) for a in node.args[0]]
            spec = mode.capture.out_spec
            if spec.num_leaves == 1 and spec.num_children == 0:
                last = printer.lines[-1] if printer.lines else ""
                if last.startswith(f"{results[0]} = "):
                    printer.lines[-1] = f"return {last.removeprefix(f'{results[0]} = ')}"
                else:
                    printer.lines.append(f"return {results[0]}")
            else:
                told = _returned(spec, iter(results))
                printer.lines.append(f"return {told[1:-1] if spec.type is tuple and len(results) > 1 else told}")
    long = any(len(line) > WIDTH - 8 for line in printer.lines)
    if not long and all(part.plain for part in mode.parts):
        return printer.lines
    return _layers_named(printer.lines, {*user_inputs(ref, len(inputs))})


def _returned(spec, results) -> str:
    """What forward returns: tensors in tuples, lists and dictionaries."""
    if spec.is_leaf():
        return next(results)
    items = [_returned(child, results) for child in spec.children()]
    if spec.type is tuple:
        return f"({', '.join(items)}{',' * (len(items) == 1)})"
    if spec.type is list:
        return f"[{', '.join(items)}]"
    if spec.type is dict:
        return f"{{{', '.join(f'{key!r}: {item}' for key, item in zip(spec.context, items))}}}"
    raise ProblemError(
        f"forward returns a {spec.type.__name__}; a file can return tensors in tuples, lists and dictionaries"
    )


def _layers_named(lines: list[str], taken: set[str]) -> list[str]:
    """Layers of which several parameters are read are looked up once: a module's attributes are not found fast."""
    text = "\n".join(lines)
    for layer in dict.fromkeys(re.findall(r"\bself((?:\.\w+)+)\.\w+\b(?!\()", text)):
        name = layer.split(".")[-1]
        uses = re.findall(rf"\bself{re.escape(layer)}\.\w+", text)
        if len(uses) > 1 and name.isidentifier() and name not in taken and not re.search(rf"(?<![.\w]){name}\b", text):
            text = f"{name} = self{layer}\n" + re.sub(rf"\bself{re.escape(layer)}\.", f"{name}.", text)
            taken.add(name)
    return text.split("\n")
