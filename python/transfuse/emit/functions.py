"""A region of the model in Python: as written in PyTorch's operators, and what its program is told."""

from __future__ import annotations

import re

from transfuse.emit import derived
from transfuse.emit.formula import python_of
from transfuse.emit.model import as_written
from transfuse.emit.text.layout import WIDTH


def region(part) -> str:
    """How PyTorch would compute it: as derived where a formula is left, else as written."""
    names = [leaf_name(n) for n in part.sized.names]
    wanted = part.derived and not part.rounds
    formula = derived.written(part.sized, names, _serving(part).extents) if wanted else None
    return _as_derived(part, names, formula) if formula else _as_written(part, names)


def _serving(part):
    """The program for all sizes that the part's programs are for."""
    return part.programs.of("wide")[-1][1]


def programs(parts, regions: list[str], statistics: bool, portable: tuple[list[str], str] | None) -> str:
    """What `run` is told of each program; portable: of that for other GPUs."""
    entries, leaves, outputs = [], {}, {}
    for part in parts:
        at, extents = part.sized, _serving(part).extents
        leaves[part.name] = [f'("{leaf_name(n)}", {_tuple(map(extent_text, s))})' for n, s in zip(at.names, at.shapes)]
        shapes = [_tuple(python_of(e, extents) for e in shape) for _, shape in _serving(part).outputs]
        outputs[part.name] = f"lambda {', '.join(s.name for s in at.symbols)}: [{', '.join(shapes)}]"
    said = (
        "# Of each program: its leaves' shapes, with words for sizes that vary; its outputs'; how PyTorch computes them"
    )
    said = f"{said}{'; how many have gradients' * statistics}."
    if both := _in_both_modes(parts, regions, leaves, outputs):
        more, own = both
        said = said.replace(
            ", with words for sizes that vary", f" (words: sizes that vary; the last {more}: eval mode's)"
        )
        said = said.replace(": its leaves'", ": leaves'").replace("; its outputs'", "; outputs'")
        said += f"\nLEAVES = [{wrapped_list(leaves[parts[1].name], ' ' * 9)}]"
        every = leaves[parts[1].name]
        leaves, outputs[parts[1].name] = {name: "LEAVES" for name in leaves}, own
    for part, text in zip(parts, regions):
        told, results = leaves[part.name], f", {part.sized.region.differentiable}" if statistics else ""
        told = told if told == "LEAVES" else f"[{wrapped_list(told, ' ' * (8 + len(part.name)))}]"
        entry = f'    "{part.name}": ({told}, {outputs[part.name]}, {name_of(text)}{results}),'
        if told != "LEAVES" or len(entry) > WIDTH:
            apart = " " if told == "LEAVES" else NEW
            behind = NEW if told == "LEAVES" or text.startswith("lambda ") else " "
            entry = f'    "{part.name}": ({told},{apart}{outputs[part.name]},{behind}{name_of(text)}{results}),'
        entries.append(entry)
    if portable:
        told, shapes = portable
        given = f"[{', '.join(told)}],{NEW}"
        shape_of = lambda leaf: leaf.partition(", ")[2]  # noqa: E731
        if both and [*map(shape_of, told)] == [*map(shape_of, every[: len(told)])]:
            given = f"LEAVES[:{len(told)}], "
        shapes = both[1] if both and outputs[parts[0].name].startswith(f"{shapes[:-1]}, ") else shapes
        entries.append(f'    "convolve": ({given}{shapes}, None{", 1" * statistics}),')
    return "\n".join([said, "PROGRAMS = {", *entries, "}"])


def _in_both_modes(parts, regions: list[str], leaves: dict, outputs: dict) -> tuple[int, str] | None:
    """Where eval mode has the leaves of train mode and more, and its first output: how many more, and how its outputs are said."""
    if len(parts) != 2 or not regions[1].startswith("lambda *leaves"):
        return None
    (first, second), more = (
        (leaves[part.name] for part in parts),
        len(leaves[parts[1].name]) - len(leaves[parts[0].name]),
    )
    if more < 1 or second[: len(first)] != first:
        return None
    if not outputs[parts[0].name].startswith(outputs[parts[1].name][:-1] + ", "):
        return None
    return more, f'lambda **sizes: PROGRAMS["{parts[0].name}"][1](**sizes)[:1]'


NEW = "\n        "


def name_of(region: str) -> str:
    return region if region.startswith("lambda ") else re.search(r"def (\w+)\(", region)[1]


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


HEAD = re.compile(r'def (\w+)\(convolve, ([^()]*)\):\n    """[^"]*"""\n')
BY_RUNNING = re.compile(
    r"(\w+) = torch\.ops\.aten\.batch_norm\((\w+(?:\[0\])?, \w+, \w+), (\w+), (\w+), False, [^,]*, ([^,]*), \w+\)"
)


def by_one_function(train: str, evaluation: str) -> tuple[str, str]:
    """Two modes that differ in whose statistics a batch norm takes: what is written for train mode takes running ones as well."""
    mine, other = HEAD.match(train), HEAD.match(evaluation)
    if not mine or not other:
        return train, evaluation
    lines, theirs = train[mine.end() :].split("\n"), evaluation[other.end() :]
    norms = [i for i, line in enumerate(lines) if re.match(r"    \w+ = batch_norm\(", line)]
    if not norms:
        return train, evaluation
    running: list[str] = []
    for i, match in zip(norms, BY_RUNNING.finditer(theirs)):
        running += match[3], match[4]
        own = lines[i].split()[0]
        theirs = theirs.replace(match[0], f"@ = batch_norm({match[2]}, {match[5]})")
        theirs = re.sub(rf"(?<![.\w]){match[1]}\b(?!\()", f"{own}[0]", theirs).replace("@ = ", f"{own} = ")
    last = lines[-2].split(" = ", 1)
    alike = [*lines[:-2], f"    return [{last[-1]}]"] == theirs.split("\n")
    names, all_ = mine[2].split(", "), other[2].split(", ")
    if not alike or not lines[-1].startswith(f"    return [{last[0].strip()}, ") or {*names, *running} != {*all_}:
        return train, evaluation
    for k, i in enumerate(norms):
        given = "*running" if len(norms) == 1 else f"*running[{2 * k}:{2 * k + 2}]"
        lines[i] = f"{lines[i][:-1]}, {given})"
    said = mine[0].replace(mine[1], "as_written")  # in either mode
    said = said.replace("):\n", ", *running):\n", 1).replace('."""', '. running: statistics of eval mode."""')
    order = [all_.index(name) for name in [*names, *running]]
    call = "lambda *leaves: as_written(*leaves)[:1]"
    if order != sorted(order):
        listed = f"*[leaves[i] for i in ({', '.join(map(str, order))})]"
        call = f"lambda convolve, *leaves: as_written(convolve, {listed})[:1]"
    return said + "\n".join(lines), call


NORM = re.compile(r"(?m)^    (\w+) = batch_norm\((\w+(?:\[\d\])?), (\w+, \w+|None, None), ([^,()]*)(, \*running)?\)$")


def norm_written_out(regions: list[str]) -> list[str]:
    """Where there is one batch norm, it needs no function (runtime.BATCH_NORM)."""
    found = [(i, m) for i, text in enumerate(regions) for m in NORM.finditer(text)]
    if len(found) != 1 or sum(len(re.findall(r"(?<![.\w])batch_norm\(", text)) for text in regions) != 1:
        return regions
    i, (name, x, scale, eps, running) = found[0][0], found[0][1].groups()
    own, result = f"{x}.new_zeros(2, {x}.shape[1]).unbind()", name.removesuffix("_statistics")
    taken = lambda word: re.search(rf"\b{word}\b(?!\()", regions[i].replace(name, "@"))  # noqa: E731
    mean, variance = (f"own_{word}" if taken(word) else word for word in ("mean", "variance"))
    if any(map(taken, (mean, variance, result))):
        return regions
    training = "not running" if running else "True"
    lines = (
        f"    {mean}, {variance} = {'running or ' if running else ''}{own}"
        f"  # {'else ' if running else ''}the batch's, its variance unbiased\n"
        f"    {result} = torch.ops.aten.batch_norm({x}, {scale}, {mean}, {variance}, {training}, 1.0, {eps}, torch.backends.cudnn.enabled)"
    )
    text = regions[i].replace(found[0][1][0], lines)
    for k, by in enumerate((result, mean, variance)):
        text = text.replace(f"{name}[{k}]", by)
    if re.search(rf"\b{name}\b", text) and name != result:
        return regions
    return [*regions[:i], text, *regions[i + 1 :]]


RETURNED = re.compile(r"(?m)^    (?P<name>\w+) = (?P<made>[^\n]*)\n    return \[(?P=name), (?P<others>[^\n]*)\]$")


def returned_directly(region: str) -> str:
    """What is made last and only returned needs no name."""
    match = RETURNED.search(region)
    if not match or re.search(rf"\b{match['name']}\b", match["others"]):
        return region
    return f"{region[: match.start()]}    return [{match['made']}, {match['others']}]{region[match.end() :]}"


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
    """As the model calls it, where that is a name: the first layer of a Sequential has a number."""
    short = re.sub(r"^[pb]_", "", name)
    return short if short.isidentifier() else name


def extent_text(extent) -> str:
    return str(extent) if isinstance(extent, int) else f'"{extent}"'
