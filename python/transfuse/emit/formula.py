"""Launch arguments as formulas of the sizes.

The generators say what an argument is at many sizes; here each series of numbers gets the formula that gives all of them:
a constant, a product of extents, a quotient rounded up or down, a minimum. A formula is accepted only if it is right at
every one of the sizes, of which there are far more than any formula has unknowns; a series that none fits is an error.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass

import numpy as np


class Unstated(Exception):
    """An argument that no formula gives."""


@dataclass(frozen=True)
class Formula:
    text: str  # C++ on long long
    constant: int | None = None
    atom: bool = True  # needs no parentheses beside * and /


def factor(formula: Formula) -> str:
    return formula.text if formula.atom else f"({formula.text})"


class Statement:
    """Knows the sizes' names and values at every sample, and what was found so far."""

    def __init__(self, symbols: dict[str, np.ndarray]):
        self.bases: list[tuple[str, np.ndarray]] = []
        self.named: list[tuple[str, str]] = []  # extents with a name of their own, and their formulas
        self.known: dict[bytes, Formula] = {}
        self.logs: dict[str, float] = {}
        self.count = len(next(iter(symbols.values()))) if symbols else 1
        self.products: dict[bytes, tuple[tuple[str, ...], np.ndarray]] = {}  # by their ratios
        for name, values in symbols.items():
            self.base(name, np.asarray(values, dtype=np.int64))

    def base(self, name: str, values: np.ndarray) -> None:
        self.bases.append((name, values))
        self.known[values.tobytes()] = Formula(name)
        self.logs[name] = float(np.log(values).max()) if (values > 0).all() else 99.0
        for size in range(4):
            for others in itertools.combinations(self.bases[:-1], size):
                names = (*(n for n, _ in others), name)
                if sum(self.logs[n] for n in names) > 42:  # beyond 2^60
                    continue
                product = values
                for _, other in others:
                    product = product * other
                self.products.setdefault(_ratio(product), (names, product))

    def extent(self, name: str, values) -> None:
        """An axis of some value: a formula of one symbol, given a name where it is not that symbol itself."""
        values = np.asarray(values, dtype=np.int64)
        if values.tobytes() in self.known or (values == values[0]).all():
            return
        found = self._affine(values)
        if found is None:
            return
        taken = {n for n, _ in self.bases}
        while name in taken:
            name += "_"
        self.named.append((name, found.text))
        self.base(name, values)

    def state(self, values) -> Formula:
        values = np.asarray(values, dtype=np.int64)
        if (values == values[0]).all():
            return Formula(str(values[0]), int(values[0]), values[0] >= 0)
        key = values.tobytes()
        if key not in self.known:
            found = self._search(values)
            if found is None:
                raise Unstated(f"no formula gives {values[:6].tolist()}…")
            self.known[key] = found
        return self.known[key]

    def learn(self, series: list) -> None:
        """Counts among these (quotients that were rounded) get names, so that products of them are found as well."""
        left = sorted({tuple(s) for s in series}, key=max)
        for _ in range(3):
            waiting = []
            for values in left:
                values = np.asarray(values, dtype=np.int64)
                if (values == values[0]).all() or values.tobytes() in self.known:
                    continue
                found = self._affine(values)
                if (found and re.fullmatch(r"-.*|\w+ - \d+", found.text)) or (not found and self._product(values)):
                    continue
                found = found or self._rounded(values) or self._quotient(values) or self._across(values)
                if found is None:
                    waiting.append(values)
                elif (values > 1).any() and (values > 0).all() and np.gcd.reduce(values) < 16:
                    name = f"count_{sum(n.startswith('count_') for n, _ in self.named) + 1}"
                    self.named.append((name, found.text))
                    self.base(name, values)
            if len(waiting) == len(left):
                return
            left = [tuple(w) for w in waiting]

    def _search(self, values: np.ndarray) -> Formula | None:
        for find in (
            self._affine,
            self._product,
            self._rounded,
            self._quotient,
            self._bounded,
            self._padded,
            self._across,
        ):
            if (found := find(values)) is not None:
                return found
        return None

    # The grammar --------------------------------------------------------------------------------------------------

    def _affine(self, values) -> Formula | None:
        """(a·s + b) / c for one symbol, rounded down."""
        for name, s in self.bases:
            span = int(np.argmax(s)), int(np.argmin(s))
            if s[span[0]] == s[span[1]]:
                continue
            slope = (values[span[0]] - values[span[1]]) / (s[span[0]] - s[span[1]])
            for c in range(1, 9):
                a = round(slope * c)
                if a == 0 or abs(slope * c - a) > 0.2 or math.gcd(a, c) > 1:
                    continue
                low = (c * values - a * s).max()  # b with floor((a·s + b)/c) = values everywhere
                if low <= (c * values - a * s + c - 1).min():
                    scaled = f"{a} * {name}" if a not in (1, -1) else name if a == 1 else f"-{name}"
                    shifted = f"{scaled} {'+' if low > 0 else '-'} {abs(low)}" if low else scaled
                    if c == 1:
                        return Formula(shifted, atom=low == 0 and a == 1)
                    return Formula(f"({shifted}) / {c}" if low or a != 1 else f"{scaled} / {c}", atom=False)
        return None

    def _across(self, values) -> Formula | None:
        """(a·s + b) / c for one symbol and a larger c: windows of so many pixels go on across the ends of rows. Of several a that
        give all values none is taken."""
        for (name, s), c in itertools.product(self.bases, (16, 32, 64, 128)):
            high, low = int(np.argmax(s)), int(np.argmin(s))
            rise, run = int(values[high] - values[low]), int(s[high] - s[low])
            fits = []
            for a in range(c * (rise - 1) // run, -(-c * (rise + 1) // run) + 1) if run and rise > 1 else ():
                b = (c * values - a * s).max()
                if math.gcd(a, c) == 1 and b <= (c * values - a * s + c - 1).min():
                    fits.append(f"({a} * {name} {'+' if b >= 0 else '-'} {abs(b)}) / {c}")
            if len(fits) == 1:
                return Formula(fits[0], atom=False)
        return None

    def _product(self, values, shifts=(0, 1, -1)) -> Formula | None:
        for shift in shifts:
            if (values + shift <= 0).any():
                continue
            found = self.products.get(_ratio(values + shift))
            if found is None:
                continue
            names, product = found
            top, bottom = int(values[0] + shift), int(product[0])
            common = math.gcd(top, bottom)
            top, bottom = top // common, bottom // common
            if not (bottom * (values + shift) == top * product).all():
                continue
            text = " * ".join(([str(top)] if top > 1 else []) + list(names))
            if bottom > 1:
                text += f" / {bottom}"
            if shift:
                text += f" {'-' if shift > 0 else '+'} {abs(shift)}"
            return Formula(text, atom=False)
        return None

    def _rounded(self, values) -> Formula | None:
        """g·⌈product / c⌉"""
        common = int(np.gcd.reduce(values))
        names, table = list(zip(*self.products.values()))
        table = np.array(table)
        for g in sorted({common, *(d for d in (1, 2, 4, 8, 32, 128, 256) if common % d == 0)}):
            steps = values // g
            if (steps < 1).any():
                continue
            for by, divisor in [("", 1), *((n, v) for n, v in self.bases if n.startswith("count_") and g == 1)]:
                whole = -(-table // divisor)
                low = (-(-whole // steps)).max(axis=1)
                more = steps > 1
                if not more.any():
                    continue
                high = ((whole - 1) // np.maximum(steps - 1, 1))[:, more].min(axis=1)
                for row in np.nonzero(low <= high)[0]:
                    c = _roundest(int(low[row]), int(high[row]))
                    if by not in names[row] and (c > 1 or by) and (-(-table[row] // (c * divisor)) == steps).all():
                        per = " * ".join([*([str(c)] if c > 1 else []), *([by] if by else [])])
                        text = f"ceil_div({' * '.join(names[row])}, {per})"
                        return Formula(f"{g} * {text}", atom=False) if g > 1 else Formula(text)
            if g in (1, 256) and (found := self._share(names, table, steps)):
                return Formula(f"{g} * {found.text}", atom=False) if g > 1 else found
        return None

    def _share(self, names, table, steps) -> Formula | None:
        """⌈a·product / block⌉: blocks of threads"""
        more = steps > 1
        low, high = (table / steps).max(axis=1), (table / np.maximum(steps - 1, 1))[:, more].min(axis=1, initial=np.inf)
        for row in np.nonzero(low < high)[0]:
            for block in (256, 32, 8, 128, 64, 512, 1024):
                a = int(block / low[row])
                if a > 1 and block / a < high[row] and (-(-table[row] * a // block) == steps).all():
                    return Formula(f"ceil_div({a} * {' * '.join(names[row])}, {block})")
        return None

    def _quotient(self, values) -> Formula | None:
        """⌈a / b⌉, ⌊a / b⌋ or ⌊c / b⌋ of what is known"""
        atoms = [(f.text, np.frombuffer(key, dtype=np.int64), f) for key, f in self.known.items()]
        for (_, a, fa), (_, b, fb) in itertools.product(atoms, atoms):
            if fa is fb or (b < 1).any():
                continue
            if (-(-a // b) == values).all():
                return Formula(f"ceil_div({fa.text}, {fb.text})")
            if (a // b == values).all():
                return Formula(f"{factor(fa)} / {factor(fb)}", atom=False)
        for _, b, fb in atoms:
            low, high = int((values * b).max()), int(((values + 1) * b - 1).min())
            if 1 < low <= high and (b > 0).all():
                c = _roundest(low, high)
                if (c // b == values).all():
                    return Formula(f"{c} / {factor(fb)}", atom=False)
        return None

    def _bounded(self, values) -> Formula | None:
        """g·min(c, a); where blocks are as many as the machine has room for, g is what each of them has"""
        most, common = int(values.max()), int(np.gcd.reduce(values))
        shares = (most // MULTIPROCESSORS // k for k in range(1, 17) if most % (MULTIPROCESSORS * k) == 0)
        for g in sorted({1, common, *(g for g in shares if common % g == 0)}):
            if (found := self._least(values // g)) is not None:
                return Formula(f"{g} * {found.text}", atom=False) if g > 1 else found
        return None

    def _padded(self, values, axes: int = 2) -> Formula | None:
        """g·product·⌈a / c⌉: an image whose axes are padded to whole tiles"""
        for (name, extent), c in itertools.product(self.bases, (2, 4, 8, 16, 32, 64, 128, 3, 5, 6)):
            tiles = -(-extent // c)
            if name.startswith("count_") or (tiles < 1).any() or (values % tiles).any() or (tiles == tiles[0]).all():
                continue
            rest = values // tiles
            text = f"ceil_div({name}, {c})"
            if (rest == rest[0]).all():
                return Formula(f"{rest[0]} * {text}" if rest[0] > 1 else text, atom=bool(rest[0] == 1))
            found = self._product(rest, (0,)) or (self._padded(rest, axes - 1) if axes > 1 else None)
            if found is not None and "/" not in found.text:
                return Formula(f"{found.text} * {text}", atom=False)
        return None

    def _least(self, values) -> Formula | None:
        most = int(values.max())
        for key, formula in list(self.known.items()):
            a = np.frombuffer(key, dtype=np.int64)
            if (np.minimum(a, most) == values).all():
                return Formula(f"std::min<long long>({most}, {formula.text})")
        enough = 2 if most == MULTIPROCESSORS else 6  # a grid is bounded by the machine: fewer sizes say as much
        if (values < most).sum() >= enough:
            for names, product in self.products.values():
                if (np.minimum(product, most) == values).all():
                    return Formula(f"std::min<long long>({most}, {' * '.join(names)})")
        return None


MULTIPROCESSORS = 132
PRIME = (1 << 31) - 1


def _ratio(values: np.ndarray) -> bytes:
    """What two series that differ by a constant factor have in common: v/v₀ modulo a prime."""
    return (values % PRIME * pow(int(values[0]), -1, PRIME) % PRIME).tobytes()


def _roundest(low: int, high: int) -> int:
    """The number between with the most factors of two."""
    for bit in range(62, -1, -1):
        candidate = (high >> bit) << bit
        if candidate >= low and candidate > 0:
            return candidate
    return low


def scalar(statement: Statement, values: list[float], single: bool) -> str:
    """A number that depends on sizes through a count: M, c/M or c·M/(M − 1)."""
    rounded = np.float32 if single else np.float64
    expected = np.array(values, dtype=rounded)
    for names, product in statement.products.values():
        if (product.astype(rounded) == expected).all():
            return " * ".join(names)
        exact = values[0] * float(product[0])
        c, whole = round(exact, 6), round(1 / exact) if 0 < exact < 1 else 0
        inverse = np.array([rounded(c / float(p)) for p in product])
        if c != 0 and np.allclose(inverse, expected, rtol=3e-7 if single else 1e-14, atol=0):
            return f"{c!r} / ({' * '.join(names)})"
        inverse = np.array([rounded(1 / (float(p) * whole)) for p in product]) if whole else inverse
        if whole and np.allclose(inverse, expected, rtol=3e-7 if single else 1e-14, atol=0):
            return f"1.0 / ({whole} * {' * '.join(names)})"
    # c·M/(M − 1) with sizes that are fixed in M: what its example says of them.
    first = 1 / (values[0] - 1) + 1 if values[0] > 1 else 0
    widths = {round(first / float(p[0])) for _, p in statement.products.values() if first > p[0]}
    for (names, product), scale in itertools.product(statement.products.values(), (1, 2, 3, 4, 5, 8, 16, 32, *widths)):
        count = product.astype(float) * scale
        if (count < 2).any():
            continue
        if ((count / (count - 1)).astype(rounded) == expected).all():
            whole = " * ".join([*names, *([str(scale)] if scale > 1 else [])])
            return f"1.0 + 1.0 / ({whole} - 1)"
    raise Unstated(f"no formula gives {values[:4]}…")


def python_of(formula: str, named: list[tuple[str, str]], whole: bool = True) -> str:
    """A formula of the sizes in Python; whole: its quotients are rounded down."""
    for name, inner in reversed(named):
        if formula == name:
            formula = inner[1:-1] if re.fullmatch(r"\([^()]*\)", inner) else inner
            continue
        inner = inner if re.fullmatch(r"\w+", inner) else f"({inner})"
        formula = re.sub(rf"\b{name}\b", inner, formula)
    formula = re.sub(r"ceil_div\(([^,]*), ([^()]*)\)", r"-(-(\1) // (\2))", formula)
    return formula.replace(" / ", " // ") if whole else formula
