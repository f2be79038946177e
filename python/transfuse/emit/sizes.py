"""A region at any size: its symbols, the tensors they are read from, and the graph's text with other numbers in it."""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass

import sympy

from transfuse.region import Region
from transfuse.translate import value_of

AXES = {2: ["batch"], 3: ["batch", "length"], 4: ["batch", "height", "width"], 5: ["batch", "depth", "height", "width"]}


@dataclass
class Symbol:
    """A size that only the call tells: read from an axis of a leaf."""

    name: str
    leaf: int
    axis: int
    example: int
    lowest: int
    behind: int | None = None  # elements of the axes behind it, where those are known


@dataclass
class Sized:
    """A region whose leaf shapes and sizes are expressions of symbols."""

    region: Region
    symbols: list[Symbol]
    shapes: list[list]  # of each leaf: whole numbers and expressions of the symbols
    numbers: list  # what $0, $1, … stand for
    names: list[str]  # of the leaves

    @property
    def example(self) -> dict[str, int]:
        return {s.name: s.example for s in self.symbols}

    def text(self, sizes: dict[str, int], dtype: str = "f32") -> str:
        """The graph at these sizes; leaves of the captured dtype become `dtype`."""
        text = self.region.text
        for k in reversed(range(len(self.numbers))):
            text = text.replace(f"${k}", str(at(self.numbers[k], sizes)))
        shapes = iter(self.shapes)

        def typed(match):
            shape = ",".join(str(at(extent, sizes)) for extent in next(shapes))
            return f"{match[1]}{dtype if match[2] == 'f32' else match[2]}[{shape}]"

        return re.sub(r"(= (?:input|param) )(\w+)\[[^\]]*\]", typed, text)


def at(extent, sizes: dict[str, int]) -> int:
    if isinstance(extent, int):
        return extent
    return int(extent.xreplace({s: sympy.Integer(sizes[s.name]) for s in extent.free_symbols}))


def sized(region: Region, call) -> Sized:
    """`call`: the node of the cut graph that stands for the region."""
    arguments = [value_of(node) for node in call.args]
    leaves, numbers = arguments[: region.leaf_count], arguments[region.leaf_count :]
    expression = lambda size: size if isinstance(size, int) else size.node.expr  # noqa: E731
    shapes = [[expression(size) for size in leaf.shape] for leaf in leaves]
    hints = {}
    for size in [*(size for leaf in leaves for size in leaf.shape), *numbers]:
        if not isinstance(size, int) and size.node.expr.is_Symbol:
            hints[size.node.expr] = int(size.node.hint)
    symbols, found = [], {}
    for i, shape in enumerate(shapes):
        for axis, extent in enumerate(shape):
            if isinstance(extent, int) or not extent.is_Symbol or extent in found:
                continue
            if i not in region.inputs:
                raise ValueError(f"a parameter's size is not fixed ({call.args[i].name})")
            names = ["batch", "channels", *AXES.get(len(shape), [])[1:]]
            name = names[axis] if axis < len(names) else f"size{axis}"
            while name in {s.name for s in found.values()}:
                name += "_"
            found[extent] = sympy.Symbol(name, integer=True, positive=True)
            rest = [e for e in shape[axis + 1 :] if isinstance(e, int) or e.is_Integer]
            known = len(rest) == len(shape) - axis - 1 > 0
            symbols.append(Symbol(name, i, axis, hints[extent], 1, int(math.prod(rest)) if known else None))
    rename = lambda e: e if isinstance(e, int) else (int(e) if e.is_Integer else e.xreplace(found))  # noqa: E731
    shapes = [[rename(extent) for extent in shape] for shape in shapes]
    numbers = [rename(expression(number)) for number in numbers]
    for extent in [*(e for shape in shapes for e in shape), *numbers]:
        if not isinstance(extent, int) and any(s not in found.values() for s in extent.free_symbols):
            raise ValueError(f"the size {extent} cannot be read from an input")
    return Sized(region, symbols, shapes, numbers, [node.name for node in call.args[: region.leaf_count]])


GRAIN = 16  # what the innermost axis of the example is a multiple of, as far as kernels care


def grains(symbols: list[Symbol], aligned: bool) -> dict[str, int]:
    """Of each symbol the number it is a multiple of. Where the innermost axis is a multiple of 16, no other matters, and none
    does that counts images whose size is known."""
    if not aligned:
        return {s.name: 1 for s in symbols}
    free = [s for s in symbols if s.behind is not None]
    inner = {
        max((s for s in symbols if s.leaf == leaf), key=lambda s: s.axis).name for leaf in {s.leaf for s in symbols}
    } - {s.name for s in free}
    if all(s.example % GRAIN == 0 for s in symbols if s.name in inner):
        free = [s for s in symbols if s.name not in inner]
    return {s.name: 1 if s in free else math.gcd(s.example, GRAIN) for s in symbols}


def samples(symbols: list[Symbol], count: int, seed: int, aligned: bool, edges=()):
    """Sizes around the example's and beyond, alike in what they are multiples of. Some are multiples of `edges` as well, where
    what is rounded up changes. The last are small, with fewer tiles than a GPU has multiprocessors."""
    chance = random.Random(seed)
    steps = grains(symbols, aligned)
    for turn in range(count):
        sizes = {}
        large = chance.choice([*range(len(symbols)), len(symbols) - 1]) if turn % 3 == 2 else -1
        for i, symbol in enumerate(symbols):
            step = steps[symbol.name]
            low, high = (0.6, 1.2) if large < 0 else (2, 4) if i == large else (0.3, 0.6)
            least, most = max(int(symbol.example * low), 11), max(int(symbol.example * high), 48)
            if turn % 4 == 0:
                least, most = 11, 48
            if turn % 6 == 5:
                least, most = (1040, 2600) if i == large else (9, 11)
            size = chance.randint(least, most)
            if edges and turn % 2:
                edge = chance.choice(edges)
                edge = math.lcm(edge, step) if chance.random() < 0.6 else edge
                size = max(size // edge, 1) * edge + chance.choice((0, 0, -step, step, 1, -1, 2, -2))
            sizes[symbol.name] = max((size + step - 1) // step, -(-9 // step)) * step
        yield sizes
    for _ in range(count // 5):
        yield {s.name: max(chance.randint(9, 15) // steps[s.name], 1) * steps[s.name] for s in symbols}
