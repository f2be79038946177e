"""A region of the model in Python: by its kernels, as written in PyTorch's operators, and for autograd."""

from __future__ import annotations

import re
import textwrap

from transfuse.emit import derived, runtime
from transfuse.emit.formula import python_of
from transfuse.emit.model import as_written


def by_kernels(part, any_statistics: bool, convolve: str) -> str:
    """convolve: what computes convolutions where the kernels cannot."""
    at, region = part.sized, part.sized.region
    program = part.programs.of("wide")[-1][1]  # the one for all sizes
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
    formula = None if part.rounds else derived.written(at, names, program.extents)
    kind = "derived" if formula else "written"
    otherwise = f" or {part.name}_as_{kind}({'None' if formula else convolve}, *leaves)" if part.falls else ""
    results = f", {region.differentiable}" if any_statistics else ""
    places = ", ".join(f"({s.leaf}, {s.axis})" for s in at.symbols) + ("," if len(symbols) == 1 else "")
    return f'''
{_as_derived(part, names, formula) if formula else _as_written(part, names)}


def {part.name}_by_kernels(*leaves):
    expected = ({expected}{"," if len(names) == 1 else ""})  # words for sizes that vary
    sizes_at, outputs = ({places}), lambda {", ".join(symbols)}: [{shapes}]
    return run("{part.name}", leaves, expected, sizes_at, outputs{results}){otherwise}'''


def functions(parts, regions: list[str]) -> list[str]:
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
