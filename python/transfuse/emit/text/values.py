"""Whole numbers that constants decide.

A constant that differs between kernels or builds is a tuple, one number for each of them and None where it is not defined; so
is what is computed from it. It decides something where all of them agree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from transfuse.emit.text.tokens import Token, closing, split, tokens


class Unknown(Exception):
    """Not decided by the constants."""


LEVELS = [["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!="], ["<", "<=", ">", ">="], ["<<", ">>"], ["+", "-"], ["*", "/", "%"]]  # fmt: skip
APPLY = {
    "||": lambda a, b: int(a or b), "&&": lambda a, b: int(a and b), "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b, "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b), "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b), ">": lambda a, b: int(a > b), ">=": lambda a, b: int(a >= b), "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b, "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1), "%": lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1),
}  # fmt: skip


def each(apply, *operands):
    """Numbers, or tuples of them element by element."""
    if not any(isinstance(o, tuple) for o in operands):
        return apply(*operands)
    count = max(len(o) for o in operands if isinstance(o, tuple))
    rows = zip(*(o if isinstance(o, tuple) else (o,) * count for o in operands))
    return tuple(None if None in row else apply(*row) for row in rows)


def agreed(number):
    """The one number a tuple has, or None."""
    if not isinstance(number, tuple):
        return number
    found = set(number) - {None}
    return next(iter(found)) if len(found) == 1 else None


@dataclass(frozen=True)
class Function:
    """One that returns an expression of its parameters."""

    parameters: tuple[str, ...]
    text: str

    def value(self, arguments: list[int | None], known: dict) -> int | None:
        given = {name: number for name, number in zip(self.parameters, arguments) if number is not None}
        outer = {name: number for name, number in known.items() if name not in self.parameters}
        return vector(tokens(self.text), {**outer, **given})


class Value:
    """A constant expression's value, or Unknown."""

    def __init__(self, items: list[Token], known: dict):
        self.items, self.known, self.at = items, known, 0
        self.value = self.ternary()
        if self.at < len(items):
            raise Unknown

    def peek(self) -> str:
        return self.items[self.at].text if self.at < len(self.items) else ""

    def ternary(self) -> int:
        condition = self.level(0)
        if self.peek() != "?":
            return condition
        self.at += 1
        yes = self.ternary()
        if self.peek() != ":":
            raise Unknown
        self.at += 1
        no = self.ternary()
        return each(lambda c, y, n: y if c else n, condition, yes, no)

    def level(self, depth: int) -> int:
        if depth == len(LEVELS):
            return self.unary()
        left = self.level(depth + 1)
        while self.peek() in LEVELS[depth]:
            operator = self.peek()
            self.at += 1
            right = self.level(depth + 1)
            if operator in "/%" and (0 in right if isinstance(right, tuple) else right == 0):
                raise Unknown
            left = each(APPLY[operator], left, right)
        return left

    def unary(self) -> int:
        if self.at >= len(self.items):
            raise Unknown
        token = self.items[self.at]
        self.at += 1
        if token.text in ("-", "+", "!", "~"):
            number = self.unary()
            return each(
                {"-": lambda n: -n, "+": lambda n: n, "!": lambda n: int(not n), "~": lambda n: ~n}[token.text], number
            )
        if token.text == "(":
            if (
                self.peek() in ("int", "unsigned")
                and self.at + 1 < len(self.items)
                and self.items[self.at + 1].text == ")"
            ):
                self.at += 2
                return self.unary()
            if [t.text for t in self.items[self.at : self.at + 3]] == ["long", "long", ")"]:
                self.at += 3
                return self.unary()
            number = self.ternary()
            if self.peek() != ")":
                raise Unknown
            self.at += 1
            return number
        if token.kind == "number" and re.fullmatch(r"(?:0x[0-9a-fA-F]+|\d+)[uUlL]*", token.text):
            return int(token.text.rstrip("uUlL"), 0)
        if token.text == "sizeof" and [t.text for t in self.items[self.at : self.at + 3]][::2] == ["(", ")"]:
            self.at += 3
            return self._known(f"sizeof {self.items[self.at - 2].text}")
        if self.peek() == "(" and token.text in ("min", "max"):
            end = closing(self.items, self.at)
            numbers = [Value(a, self.known).value for a in split(self.items[self.at + 1 : end], {","})]
            self.at = end + 1
            return each(min if token.text == "min" else max, *numbers)
        if self.peek() == "(" and isinstance(function := self.known.get(token.text), Function):
            end = closing(self.items, self.at)
            numbers = [vector(a, self.known) for a in split(self.items[self.at + 1 : end], {","})]
            self.at = end + 1
            if (found := function.value(numbers, self.known)) is None:
                raise Unknown
            return found
        return self._known(token.text)

    def _known(self, name: str) -> int:
        if not isinstance(found := self.known.get(name), (int, tuple)):
            raise Unknown
        return found


def vector(items: list[Token], known: dict) -> int | tuple | None:
    try:
        return Value(items, known).value
    except Unknown:
        return None


SIZES = {"float": 4, "double": 8, "tf_half": 2, "tf_bfloat": 2, "STORED": 2, "int": 4, "long": 8}


RETURNING = re.compile(
    r"(?:static )?__device__ __forceinline__ (?:constexpr )?(?:int|bool) (\w+)\(([^)]*)\) \{"
    r"\s*((?:constexpr int \w+\[\] = \{-?\d+\};\s*)?return [^;{}\"]*);\s*\}",
    re.M,
)
ELEMENT = re.compile(r"constexpr int (\w+)\[\] = \{(-?\d+)\};\s*return \1\[\w+\]")  # of a table with one


def constants(text: str) -> dict:
    """What the text's top level says about whole numbers, sizes of types and functions that are one expression."""
    known: dict = {"true": 1, "false": 0, **{f"sizeof {t}": s for t, s in SIZES.items() if t != "STORED"}}
    for line in text.split("\n"):
        line = re.sub(r"\s*//.*", "", line)
        if match := re.match(r"typedef (\w+)(?: long)? (\w+);", line):
            if match[1] in SIZES:
                known[f"sizeof {match[2]}"] = SIZES[match[1]]
        elif match := re.match(r"enum \{(.*)\};", line):
            known.update({name.strip(): i for i, name in enumerate(match[1].split(","))})
        elif match := re.match(r"(?:static )?constexpr (?:int|bool) (\w+ = .*);$", line):
            for name, items in declared(tokens(match[1])):
                if (found := vector(items, known)) is not None:
                    known[name] = found
    for match in RETURNING.finditer(re.sub(r"\s*//.*", "", text)):
        words = [p.split() for p in match[2].split(",")]
        parameters = tuple(w[-1].lstrip("*&") if len(w) > 1 else "" for w in words)
        known[match[1]] = Function(parameters, ELEMENT.sub(r"return \2", match[3]).removeprefix("return "))
    return known


def declared(items: list[Token]) -> list[tuple[str, list[Token]]]:
    return [(part[0].text, part[2:]) for part in split(items, {","}) if len(part) > 2 and part[1].text == "="]
