"""Parts of a function that are alike but for numbers, one for each value of a selector, as one text for all of its values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from transfuse.emit.text.layout import ENDLESS, plain, printed, wide
from transfuse.emit.text.statements import Node, Parser
from transfuse.emit.text.tokens import Token, tokens

CONDITION = re.compile(r"(at\.variant|WG) == (\d+)")
NAMES = {"at.variant": "VARIANT", "WG": "WG"}
TABLES = re.compile(r"static constexpr int ((?:\w+\[\] = \{[^{}]*\}(?:, )?)+);\n?")
TABLE = re.compile(r"(\w+)\[\] = \{([^{}]*)\}")


@dataclass
class Choice:
    """Statements for one value of the selector: their tables, and the rest."""

    tables: dict[str, list[int]]
    rest: list[Token]


def selected(nodes: list[Node]) -> list[Node]:
    """Among these a run of choices by one selector becomes one of them, with tables of tables."""
    for begin in range(len(nodes)):
        name, blocks, end = _choices(nodes, begin)
        if name and len(blocks) > 1 and (lines := _merged([_choice(block) for block in blocks], NAMES[name])):
            return [*nodes[:begin], *Parser(tokens("\n".join(lines))).body(), *nodes[end:]]
    return nodes


def _choices(nodes: list[Node], at: int) -> tuple[str, list[list[Node]], int]:
    """if (s == 0) … else if (s == 1) … or the same one after another: the selector, its blocks, and where they end."""
    name, blocks, end = "", [], at
    node: Node | None = nodes[at]
    while node is not None and node.kind == "if" and (match := CONDITION.fullmatch(plain(node.items))):
        if int(match[2]) != len(blocks) or match[1] != (name or match[1]):
            break
        name = match[1]
        blocks.append(node.children[0].children if node.children[0].kind == "block" else node.children)
        if node.orelse:
            node = node.orelse[0] if len(node.orelse) == 1 else None
        else:
            end += 1
            node = nodes[end] if end < len(nodes) else None
    return name, blocks, max(end, at + 1)


def _choice(nodes: list[Node]) -> Choice | None:
    """None where tables of several blocks have one name."""
    with wide(ENDLESS):
        text = "\n".join(printed(nodes))
    tables: dict[str, list[int]] = {}
    for match in TABLES.finditer(text):
        found = {name: [int(n) for n in numbers.split(",")] for name, numbers in TABLE.findall(match[1])}
        if tables.keys() & found.keys():
            return None
        tables |= found
    return Choice(tables, tokens(TABLES.sub("", text)))


def _merged(choices: list[Choice | None], selector: str) -> list[str] | None:
    if None in choices:
        return None
    first = choices[0]
    alike = lambda c: [t.text if t.kind != "number" else "#" for t in c.rest]  # noqa: E731
    if any(alike(c) != alike(first) or list(c.tables) != list(first.tables) for c in choices):
        return None
    out = ""
    for i, column in enumerate(zip(*(c.rest for c in choices))):
        said = column[0].text
        if len({t.text for t in column}) > 1:
            said = _series([t.text for t in column], selector)
            if said is None:
                return None
            alone = column[0].space and first.rest[i - 1].text not in "*/%-" and first.rest[i + 1].text not in "*/%"
            said = said if alone else f"({said})"
        out += column[0].space + said
    declared = []
    for name, numbers in first.tables.items():
        rows = [c.tables[name] for c in choices]
        if all(row == numbers for row in rows):
            declared.append(f"{name}[] = {{{_listed(numbers)}}}")
        else:
            declared.append(f"{name}[][{max(map(len, rows))}] = {{{', '.join(f'{{{_listed(row)}}}' for row in rows)}}}")
            out = re.sub(rf"\b{name}\[", f"{name}[{selector}][", out)
    return [*([f"static constexpr int {', '.join(declared)};"] if declared else []), out.strip("\n")]


def _series(numbers: list[str], selector: str) -> str | None:
    """Numbers that grow evenly with the selector."""
    if not all(n.isdigit() for n in numbers):
        return None
    values = [int(n) for n in numbers]
    step = values[1] - values[0]
    if step <= 0 or any(b - a != step for a, b in pairwise(values)):
        return None
    scaled = selector if step == 1 else f"{step} * {selector}"
    return f"{values[0]} + {scaled}" if values[0] else scaled


def _listed(values: list[int]) -> str:
    return ", ".join(map(str, values))


CALL = re.compile(r"( +)multiply<WG>\((.*)\);")


def chosen(text: str, placed: bool, variants: int) -> str:
    """The call of a function that is one for each variant. placed: it is told where the tile lies all the same."""
    match = CALL.search(text)
    given = match[2]
    made = ""
    if found := re.search(r"shared_address\(shared \+ [^()]*\), shared_address\(shared\)", given):
        patch, weights = found[0].split(", ")
        made = f"{match[1]}const unsigned patch = {patch}, weights = {weights};\n"
        given = given.replace(found[0], "patch, weights")
    given = given if placed else given.replace(" at,", "", 1)
    asked = [*(f"if (at.variant == {v}) " for v in range(variants - 1)), ""]
    calls = [f"{when}multiply<WG, {v}>({given});" for v, when in enumerate(asked)]
    return text.replace(match[0], made + match[1] + f"\n{match[1]}else ".join(calls))
