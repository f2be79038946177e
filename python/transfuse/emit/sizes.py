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
    reading = _Reading(region, [node.name for node in call.args[: region.leaf_count]])
    shapes = [[_expression(size) for size in leaf.shape] for leaf in leaves]
    places = [(i, axis) for i, shape in enumerate(shapes) for axis in range(len(shape))]
    value = lambda place: int(leaves[place[0]].shape[place[1]].node.hint)  # noqa: E731
    unknown = [(i, axis) for i, axis in places if not isinstance(shapes[i][axis], int)]
    # Sizes of the model's inputs first; what lies between regions has multiples of them, the smallest of which is read.
    for i, axis in [p for p in unknown if shapes[p[0]][p[1]].is_Symbol] + sorted(unknown, key=value):
        reading.read(shapes[i], i, axis, value((i, axis)))
    shapes = [[reading.said(extent) for extent in shape] for shape in shapes]
    numbers = [reading.said(_expression(number)) for number in numbers]
    return Sized(region, sorted(reading.symbols, key=lambda s: (s.leaf, s.axis)), shapes, numbers, reading.names)


def _expression(size):
    """A whole number, or an expression of what only the call tells."""
    if isinstance(size, int):
        return size
    expression = size.node.expr
    return int(expression) if expression.is_Integer else expression


class _Reading:
    """Which sizes are read from a region's inputs, and what the symbols of the captured graph are in terms of them."""

    def __init__(self, region: Region, names: list[str]):
        self.region, self.names = region, names
        self.symbols: list[Symbol] = []
        self.found: dict = {}
        self.whole: dict = {}  # expressions that are read as they are: nothing else can be said by them

    def read(self, shape: list, leaf: int, axis: int, example: int) -> None:
        extent = shape[axis]
        free = [s for s in extent.free_symbols if s not in self.found]
        if len(free) != 1 or extent in self.whole:
            return
        if leaf not in self.region.inputs:
            raise ValueError(f"a parameter's size is not fixed ({self.names[leaf]})")
        names = ["batch", "channels", *AXES.get(len(shape), [])[1:]]
        name = names[axis] if axis < len(names) else f"size{axis}"
        while name in {s.name for s in self.symbols}:
            name += "_"
        symbol = sympy.Symbol(name, integer=True, positive=True)
        times = extent.coeff(free[0])
        more = sympy.expand(extent - times * free[0])
        if times.is_Integer and times != 0 and more.is_Integer:
            self.found[free[0]] = (symbol - more) / times
        else:
            self.whole[extent] = symbol
        rest = [e for e in shape[axis + 1 :] if isinstance(e, int)]
        known = len(rest) == len(shape) - axis - 1 > 0
        self.symbols.append(Symbol(name, leaf, axis, example, 1, math.prod(rest) if known else None))

    def said(self, extent):
        if isinstance(extent, int):
            return extent
        told = sympy.expand(self.whole.get(extent, extent).xreplace(self.found))
        own = {s.name for s in self.symbols}
        if any(s.name not in own or not s.is_positive for s in told.free_symbols) or _fractional(told):
            raise ValueError(f"the size {extent} cannot be read from an input")
        return told


def _fractional(expression) -> bool:
    return any(number.is_Rational and not number.is_Integer for number in expression.atoms(sympy.Number))


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
    for _ in range(count // 3):
        yield {
            s.name: steps[s.name] * chance.randint(-(-9 // steps[s.name]), max(15 // steps[s.name], 4)) for s in symbols
        }
