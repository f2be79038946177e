"""Plain kernels: a sum of sums is one sum, and loops over all taps in turn are one loop."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import reduce

from transfuse.emit.text.formulas import terms_of
from transfuse.emit.text.tokens import until_settled
from transfuse.emit.text.typed import Tree, Unread, names_in, said, tree_of

LOOP = r"(?:UNROLL )?for \(int \w+ = 0; [^;\n]*; [^;\n()]*\)"
SUMS = re.compile(
    rf"""
^(?P<I>\ *)double\ (?P<sum>\w+)\ =\ 0\.0;\n
(?P<outer>(?P=I)\ *{LOOP.replace(" ", "[ ]")})\ \{{\n
(?P<J>\ +)double\ (?P<part>\w+)\ =\ 0\.0;\n
(?P<loops>(?:\ +{LOOP.replace(" ", "[ ]")}\n)*)(?P<last>\ +(?:{LOOP.replace(" ", "[ ]")}\ )*)(?P=part)\ \+=\ (?P<term>[^;\n]*);\n
(?P=J)(?P=sum)\ \+=\ (?P=part);\n
\ *\}}$""",
    re.X | re.M,
)
COUNTED = r"(?:UNROLL )?for \(int (\w+) = 0; \1 < (\d+); (?:\+\+\1|\1\+\+)\)"
TAPS = re.compile(
    r"(?m)^(?P<I> *)(?P<loops>(?:(?:UNROLL )?for \(int \w+ = 0; \w+ < \d+; [^;\n()]*\)\s+){2,})(?P<to>\w+ \+= )(?P<term>[^;\n]*);$"
)
MOST = 32  # loads that are under way together: loops so short are unrolled


def one_sum(text: str) -> str:
    """Device code. What is added up is double, in an order of its own."""
    return TAPS.sub(_in_turn, until_settled(SUMS, _sum, text))


def _sum(m: re.Match) -> str:
    if re.search(rf"\b{m['sum']}\b", m["term"] + m["loops"] + m["last"] + m["outer"]):
        return m[0]
    return f"{m['I']}double {m['sum']} = 0.0;\n{m['outer']}\n{m['loops']}{m['last']}{m['sum']} += {m['term']};"


def _in_turn(m: re.Match) -> str:
    """Loops whose numbers, each times what those within it count, are the places of one array in turn."""
    loops = re.findall(COUNTED, m["loops"])
    try:
        term = tree_of(m["term"])
    except Unread:
        return m[0]
    if len(loops) != m["loops"].count("for (") or any(names_in(term).count(name) != 1 for name, _ in loops):
        return m[0]
    counts = {name: int(count) for name, count in loops}
    new, total = _index_in_turn(term, counts)
    if not total or any(name in names_in(new) for name in counts) or "r" in names_in(term):
        return m[0]
    together, within = 1, [count for _, count in loops]
    while within and together * int(within[-1]) <= MOST:
        together *= int(within.pop())
    unrolled = "UNROLL " if together == total else f'_Pragma("unroll {together}") '
    return f"{m['I']}{unrolled}for (int r = 0; r < {total}; ++r) {m['to']}{said(new)};"


def _index_in_turn(tree: Tree, counts: dict[str, int]) -> tuple[Tree, int]:
    """The term with the places of its one array said by r, and how many there are; 0 where they are not in turn."""
    if tree.kind == "index" and set(names_in(tree.of[1])) & set(counts):
        steps, rest = {}, []
        for term in terms_of(tree.of[1]):
            factor, low = 1, term
            if term.kind == "binary" and term.text == "*" and term.of[1].kind == "number":
                factor, low = int(term.of[1].text), term.of[0]
            if low.kind == "name" and low.text in counts:
                if factor in steps:  # a place is met twice
                    return tree, 0
                steps[factor] = counts[low.text]
            else:
                rest.append(term)
        step = 1
        while step in steps:
            step *= steps.pop(step)
        if steps:
            return tree, 0
        index = reduce(lambda a, b: Tree("binary", "+", [a, b]), [*rest, Tree("name", "r")])
        return replace(tree, of=[tree.of[0], index]), step
    total, of = 0, []
    for part in tree.of:
        part, count = _index_in_turn(part, counts)
        total += count
        of.append(part)
    return replace(tree, of=of), total
