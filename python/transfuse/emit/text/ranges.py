"""Between which whole numbers an expression lies: conditions that hold for all of them are decided.

Constants are one number (or one for each build); loop variables, remainders and elements of tables lie in ranges.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from transfuse.emit.text.tokens import Token, closing, split, tokens
from transfuse.emit.text.values import LEVELS, Function, Unknown, Value, agreed, vector


@dataclass(frozen=True)
class Range:
    lo: int
    hi: int
    table: bool = False  # of each element


THREADS = Range(0, 1023)
WARPGROUP = Range(0, 127)


def _compare(holds, fails):
    """A comparison: 1 or 0 where all numbers agree."""
    return lambda a, b: Range(1, 1) if holds(a, b) else Range(0, 0) if fails(a, b) else Range(0, 1)


def _product(a: Range, b: Range) -> Range:
    corners = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return Range(min(corners), max(corners))


def _natural(*ranges: Range) -> None:
    if any(r.lo < 0 for r in ranges):
        raise Unknown


def _quotient(a: Range, b: Range) -> Range:
    _natural(a, Range(b.lo - 1, b.hi))
    return Range(a.lo // b.hi, a.hi // b.lo)


def _remainder(a: Range, b: Range) -> Range:
    _natural(a, Range(b.lo - 1, b.hi))
    return a if a.hi < b.lo else Range(0, min(a.hi, b.hi - 1))


def _masked(a: Range, b: Range) -> Range:
    _natural(a, b)
    return Range(0, min(a.hi, b.hi))


def _shifted(a: Range, b: Range) -> Range:
    _natural(a, b)
    return Range(a.lo >> b.hi, a.hi >> b.lo)


APPLY = {
    "||": lambda a, b: _decided(a, b, 1), "&&": lambda a, b: _decided(a, b, 0),
    "==": _compare(lambda a, b: a.lo == a.hi == b.lo == b.hi, lambda a, b: a.hi < b.lo or b.hi < a.lo),
    "!=": _compare(lambda a, b: a.hi < b.lo or b.hi < a.lo, lambda a, b: a.lo == a.hi == b.lo == b.hi),
    "<": _compare(lambda a, b: a.hi < b.lo, lambda a, b: a.lo >= b.hi),
    "<=": _compare(lambda a, b: a.hi <= b.lo, lambda a, b: a.lo > b.hi),
    ">": _compare(lambda a, b: a.lo > b.hi, lambda a, b: a.hi <= b.lo),
    ">=": _compare(lambda a, b: a.lo >= b.hi, lambda a, b: a.hi < b.lo),
    "+": lambda a, b: Range(a.lo + b.lo, a.hi + b.hi), "-": lambda a, b: Range(a.lo - b.hi, a.hi - b.lo),
    "*": _product, "/": _quotient, "%": _remainder, "&": _masked, ">>": _shifted,
}  # fmt: skip


def _decided(a: Range, b: Range, deciding: int) -> Range:
    truth = [int(r.lo > 0 or r.hi < 0) if r.lo > 0 or r.hi < 0 or r.lo == r.hi else None for r in (a, b)]
    if deciding in truth:
        return Range(deciding, deciding)
    return Range(0, 1) if None in truth else Range(1 - deciding, 1 - deciding)


class _Interval(Value):
    """Value, of ranges."""

    def ternary(self) -> Range:
        condition = self.level(0)
        if self.peek() != "?":
            return condition
        self.at += 1
        yes = self.ternary()
        self.at += 1
        no = self.ternary()
        if condition == Range(1, 1) or condition == Range(0, 0):
            return yes if condition.lo else no
        return Range(min(yes.lo, no.lo), max(yes.hi, no.hi))

    def level(self, depth: int) -> Range:
        if depth == len(LEVELS):
            return self.unary()
        left = self.level(depth + 1)
        while self.peek() in LEVELS[depth]:
            operator = self.peek()
            self.at += 1
            right = self.level(depth + 1)
            if operator not in APPLY:
                raise Unknown
            left = APPLY[operator](left, right)
        return left

    def unary(self) -> Range:
        texts = [t.text for t in self.items[self.at : self.at + 3]]
        if texts in (["threadIdx", ".", "x"], ["blockIdx", ".", "x"]):
            self.at += 3
            return self.known.get(texts[0], THREADS if texts[0] == "threadIdx" else Range(0, (1 << 31) - 1))
        if texts[:1] == ["-"]:
            self.at += 1
            found = self.unary()
            return Range(-found.hi, -found.lo)
        if texts[:1] == ["!"]:
            self.at += 1
            return APPLY["=="](self.unary(), Range(0, 0))
        if texts[:1] in (["~"], ["+"], ["sizeof"]) or texts[1:2] == ["."]:
            raise Unknown
        if texts[:1] in (["min"], ["max"]) and texts[1:2] == ["("]:
            a, b = self._arguments()
            pick = min if texts[0] == "min" else max
            return Range(pick(a.lo, b.lo), pick(a.hi, b.hi))
        if texts[1:2] == ["("] and isinstance(function := self.known.get(texts[0]), Function):
            given = dict(zip(function.parameters, self._arguments()))
            return _Interval(tokens(function.text), {**self.known, **given}).value
        found = super().unary()
        if isinstance(found, Range) and found.table:
            if self.peek() != "[":
                raise Unknown
            self.at = closing(self.items, self.at) + 1
            return Range(found.lo, found.hi)
        return Range(found, found) if isinstance(found, int) else found

    def _arguments(self) -> list[Range]:
        end = closing(self.items, self.at + 1)
        inner = split(self.items[self.at + 2 : end], {","})
        self.at = end + 1
        return [_Interval(items, self.known).value for items in inner]

    def _known(self, name: str) -> Range:
        found = self.known.get(name)
        if isinstance(found, tuple) and any(n is not None for n in found):
            numbers = [n for n in found if n is not None]
            return Range(min(numbers), max(numbers))
        if isinstance(found, int):
            return Range(found, found)
        if not isinstance(found, Range):
            raise Unknown
        return found


def interval(items: list[Token], known: dict) -> Range | None:
    """The range of an expression; None where nothing is known of it."""
    try:
        found = _Interval(items, known).value
    except (Unknown, IndexError, ValueError, RecursionError):
        return None
    return None if found.table else found


def value(items: list[Token], known: dict) -> int | None:
    """The number an expression is in all builds, or that all numbers in its range agree upon."""
    found = agreed(vector(items, known))
    if found is None and (range_ := interval(items, known)) and range_.lo == range_.hi:
        return range_.lo
    return found


def parted(condition: list[Token], known: dict) -> tuple[dict, dict]:
    """What is known where `name < bound` holds, and where it does not."""
    if len(condition) < 3 or condition[1].text != "<" or not isinstance(mine := known.get(condition[0].text), Range):
        return known, known
    bound = interval(condition[2:], known)
    if bound is None or bound.lo != bound.hi or any(t.text in ("&&", "||", "?") for t in condition):
        return known, known
    name = condition[0].text
    return (
        {**known, name: Range(mine.lo, min(mine.hi, bound.lo - 1))},
        {**known, name: Range(max(mine.lo, bound.lo), mine.hi)},
    )


def turns(head: list[Token], known: dict) -> tuple[str, Range] | None:
    """A loop's variable and the numbers it goes through, as long as nothing else changes it."""
    texts = [t.text for t in head]
    if texts[:3] != ["for", "(", "int"] or texts[4:5] != ["="]:
        return None
    parts = split(head[5:-1], {";"})
    if len(parts) != 3 or any(t.text == "," for t in parts[0]):
        return None
    name, condition = texts[3], split(parts[1], {"&&"})[0]
    step = [t.text for t in split(parts[2], {","})[0]]
    rises = step in ([name, "++"], ["++", name]) or step[:2] == [name, "+="]
    first, bound = interval(parts[0], known), interval(condition[2:], known)
    if not rises or [t.text for t in condition[:2]] != [name, "<"] or first is None or bound is None:
        return None
    return (name, Range(first.lo, max(bound.hi - 1, first.lo))) if first.lo >= 0 else None


TABLE = re.compile(
    r"^(?:static )?(?:__constant__|__device__ const|static constexpr) int (\w+)\[\d*\] = \{([-\d,\s]+)\};", re.M
)


def tables(text: str) -> dict[str, Range]:
    found = {}
    for match in TABLE.finditer(text):
        numbers = [int(n) for n in match[2].split(",") if n.strip()]
        found[match[1]] = Range(min(numbers), max(numbers), True)
    return found
