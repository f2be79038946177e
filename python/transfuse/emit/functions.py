"""A region of the model in Python: as written in PyTorch's operators, and what its program is told."""

from __future__ import annotations

import re

from transfuse.emit import derived
from transfuse.emit.formula import python_of
from transfuse.emit.model import as_written


def region(part) -> str:
    """How PyTorch would compute it: as derived where a formula is left, else as written."""
    names = [leaf_name(n) for n in part.sized.names]
    formula = None if part.rounds else derived.written(part.sized, names, _serving(part).extents)
    return _as_derived(part, names, formula) if formula else _as_written(part, names)


def _serving(part):
    """The program for all sizes that the part's programs are for."""
    return part.programs.of("wide")[-1][1]


def programs(parts, regions: list[str], statistics: bool) -> str:
    """What `run` is told of each program."""
    entries = []
    for part, text in zip(parts, regions):
        at, extents = part.sized, _serving(part).extents
        expected = [f'("{leaf_name(n)}", {_tuple(map(extent_text, s))})' for n, s in zip(at.names, at.shapes)]
        shapes = [_tuple(python_of(e, extents) for e in shape) for _, shape in _serving(part).outputs]
        outputs = f"lambda {', '.join(s.name for s in at.symbols)}: [{', '.join(shapes)}]"
        results = f", {at.region.differentiable}" if statistics else ""
        entries.append(
            f'    "{part.name}": ([{wrapped_list(expected, " " * (8 + len(part.name)))}],\n'
            f"        {outputs}, {name_of(text)}{results}),"
        )
    told = (
        "# Of each program: its leaves' shapes, with words for sizes that vary; its outputs'; how PyTorch computes them"
    )
    return "\n".join([f"{told}{'; how many have gradients' * statistics}.", "PROGRAMS = {", *entries, "}"])


def name_of(region: str) -> str:
    return re.search(r"def (\w+)\(", region)[1]


def _tuple(items) -> str:
    items = list(items)
    return f"({', '.join(items)}{',' * (len(items) == 1)})"


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
