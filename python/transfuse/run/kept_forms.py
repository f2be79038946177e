"""Types and extents of what a region keeps for backward, as numbers an operator takes: of each tensor its type, how many axes it has, and
the extents of these. Where sizes are symbols so are the extents: each a sum of symbols, with whole factors, and a number. These are
found by asking for some sizes, and must hold for others."""

from __future__ import annotations

import math

import torch

from transfuse.native import library

_TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_OTHERS = (1, 2, 5)  # beyond the sizes at hand, by all symbols at once: odd and even


def hints(numbers) -> list[int]:
    return [int(n.node.hint) if isinstance(n, torch.SymInt) else n for n in numbers]


class Shown:
    """A tensor's form without the tensor: what it is traced with belongs to another mode."""

    def __init__(self, tensor, values: dict | None = None):
        self.shape = hints(tensor.shape) if values is None else _at(tensor.shape, values)
        self._stride = hints(tensor.stride())
        self.dtype, self.device = tensor.dtype, tensor.device

    def dim(self):
        return len(self.shape)

    def numel(self):
        return math.prod(self.shape)

    def stride(self):
        return self._stride


def forms(handle: int, leaves, sizes, keep) -> list | None:
    """None: they are no such sums."""
    if not keep:
        return []
    given = [n for leaf in leaves for n in leaf.shape] + list(sizes)
    symbols = {n.node.expr: n for n in given if isinstance(n, torch.SymInt) and n.node.expr.is_Symbol}
    used = {s for n in given if isinstance(n, torch.SymInt) for s in n.node.expr.free_symbols}
    if not used <= symbols.keys():
        return None
    here = {symbol: int(n.node.hint) for symbol, n in symbols.items()}

    def told(values):
        return library.kept(handle, [Shown(leaf, values) for leaf in leaves], _at(sizes, values), keep)

    try:
        first = told(here)
        slopes = [_slopes(first, told(here | {symbol: here[symbol] + 1})) for symbol in here]
        for step in _OTHERS if here else ():
            there = told({symbol: value + step for symbol, value in here.items()})
            if _slopes(first, there) != [step * sum(each) for each in zip(*slopes, strict=True)]:
                return None
    except (RuntimeError, ValueError):  # sizes that the region does not take; or others are kept there
        return None
    found, place = [], 0
    for dtype, extents, _ in first:
        found += [_TYPES.index(dtype), len(extents)]
        for extent in extents:
            for (symbol, n), by in zip(symbols.items(), slopes):
                if by[place]:
                    extent = extent + by[place] * (n - here[symbol])
            found.append(extent)
            place += 1
    return found


def _at(numbers, values: dict) -> list[int]:
    return [int(n.node.expr.xreplace(values)) if isinstance(n, torch.SymInt) else n for n in numbers]


def _slopes(first, there) -> list[int]:
    """How much more each extent is."""
    if [dtype for dtype, *_ in first] != [dtype for dtype, *_ in there]:
        raise ValueError
    pairs = [pair for (_, a, _), (_, b, _) in zip(first, there) for pair in zip(a, b, strict=True)]
    return [b - a for a, b in pairs]


def _each(forms):
    at = 0
    while at < len(forms):
        begin, end = at + 2, at + 2 + forms[at + 1]
        yield _TYPES[forms[at]], forms[begin:end]
        at = end


def tensors(forms, device) -> list[torch.Tensor]:
    return [torch.empty(list(extents), dtype=dtype, device=device) for dtype, extents in _each(forms)]


def are_of(kept, forms) -> bool:
    return [(t.dtype, list(t.shape)) for t in kept] == [(dtype, list(extents)) for dtype, extents in _each(forms)]


def are_promised(handle: int, leaves, sizes, keep, kept) -> bool:
    """Whether what a graph kept, shared results behind it, is what a call on these leaves keeps: `keep` as Program.kept tells it."""
    flows = keep[0]
    shared = len(keep) - flows - keep[flows + 1] - 2
    told = [(dtype, extents) for dtype, extents, _ in library.kept(handle, leaves, sizes, keep)]
    return told == [(t.dtype, list(t.shape)) for t in kept[: len(kept) - shared]]
