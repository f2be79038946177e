"""Arrays of a function: those nobody reads are gone, and what is computed to be read once stands where it is read."""

from __future__ import annotations

import re
from dataclasses import replace

from transfuse.emit.text.layout import plain
from transfuse.emit.text.statements import Node, every
from transfuse.emit.text.tokens import Token, tokens

ARRAY = re.compile(r"(?:float|double|REAL|unsigned|int) ((?:\w+(?:\[\w+\])+(?:, )?)+);")
INTO_ARRAY = re.compile(r"(\w+)(?:\[[^][]*\])+ = (.*);", re.S)
IMPURE = re.compile(r"\+\+|--|[^=!<>]=[^=]|\b(?!tf_|float\b|__int_as_float\b|fmaf\b|min\b|max\b)\w+\(")


def _leaves_of(nodes: list[Node], within: bool = False):
    """Statements, and whether they stand within a function: others are members."""
    for node in nodes:
        if node.kind == "leaf":
            yield plain(node.items), within
        inside = within or (node.kind == "definition" and any(t.text == "(" for t in node.items))
        yield from _leaves_of([*node.children, *node.orelse], inside)


def read(nodes: list[Node], counts: dict[str, int]) -> list[Node]:
    """Without arrays of a function that are computed and never read."""
    arrays: set[str] = set()
    written: dict[str, int] = {}
    for text, local in _leaves_of(nodes):
        if local and (match := ARRAY.fullmatch(text)):
            arrays |= set(re.findall(r"(\w+)\[", match[1]))
        elif (
            (match := INTO_ARRAY.fullmatch(text))
            and not re.search(rf"\b{match[1]}\b", match[2])
            and not IMPURE.search(match[2])
        ):
            written[match[1]] = written.get(match[1], 0) + 1
    unread = {name for name in arrays if counts[name] == 1 + written.get(name, 0)}
    return _without(nodes, unread) if unread else nodes


def _without(nodes: list[Node], names: set[str]) -> list[Node]:
    out: list[Node] = []
    for node in nodes:
        text = plain(node.items) if node.kind == "leaf" else ""
        if (match := INTO_ARRAY.fullmatch(text)) and match[1] in names:
            continue
        if (match := ARRAY.fullmatch(text)) and names & set(re.findall(r"(\w+)\[", match[1])):
            kept = [part for part in match[1].split(", ") if part.split("[")[0] not in names]
            if kept:
                head = text[: match.start(1)]
                out.append(replace(node, items=tokens(f"{head}{', '.join(kept)};")))
            continue
        inner = _without(node.children, names)
        if node.kind == "loop" and node.children and not any(n.kind != "directive" for n in inner):
            while out and out[-1].kind == "directive" and "unroll" in out[-1].items[0].text:
                out.pop()
            continue
        out.append(replace(node, children=inner, orelse=_without(node.orelse, names)))
    return out


# What is read once -----------------------------------------------------------------------------------------------------

LONGEST = 90  # of an expression that is said within another
TURNS = re.compile(r"for \(int (\w+) = (\w+); \1 < (\w+); \1\+\+\)")
READING = re.compile(r"for \(int (\w+) = (\w+); \1 < (\w+); \1\+\+(?:, (?P<moved>\w+) \+= [^;()]+)?\)")
COPIED = re.compile(r"\w+(?:\[\w+\])+")
ELEMENT = re.compile(r"(\w+)((?:\[\w+\])+) = (.*);", re.S)
ADDED = re.compile(r"(\w+)((?:\[\w+\])+) \+= (.*);", re.S)


def within(nodes: list[Node], local: bool = False) -> list[Node]:
    """Elements that a loop computes and a later loop over the same elements reads once, computed there. local: of a function."""
    nodes = [
        replace(n, children=within(n.children, inside), orelse=within(n.orelse, inside))
        for n in nodes
        for inside in [local or (n.kind == "definition" and any(t.text == "(" for t in n.items))]
    ]
    while local:
        counts: dict[str, int] = {}
        for node in nodes:
            for token in every(node):
                counts[token.text] = counts.get(token.text, 0) + 1
        declared = [ARRAY.fullmatch(plain(n.items)) for n in nodes if n.kind == "leaf"]
        once = {name for m in declared if m for name in re.findall(r"(\w+)\[", m[1]) if counts[name] == 3}
        new = _within(nodes, once)
        if new is None:
            break
        nodes = new
    return nodes


def _within(nodes: list[Node], once: set[str]) -> list[Node] | None:
    """One such array less; None: there is none."""
    for i, node in enumerate(nodes):
        if (found := _computed(node)) and found[0] in once and len(found[2]) <= LONGEST:
            name, index, value, loops = found
            words = set(re.findall(r"[A-Za-z_]\w*", value))
            for k in range(i + 1, len(nodes)):
                if any(t.text == name for t in every(nodes[k])):
                    target = _read_in(nodes[k], name, index, value, loops)
                    if target is None:
                        break
                    begin = i - (i > 0 and nodes[i - 1].kind == "directive" and "unroll" in nodes[i - 1].items[0].text)
                    return _without([*nodes[:begin], *nodes[i + 1 : k], target, *nodes[k + 1 :]], {name})
                if words & _written(nodes[k]):
                    break
        for part in ("children", "orelse"):
            inner = _within(getattr(node, part), once)
            if inner is not None:
                name = next(n for n in once if not any(t.text == n for x in inner for t in every(x)) and any(
                    t.text == n for x in getattr(node, part) for t in every(x)))  # fmt: skip
                return _without([*nodes[:i], replace(node, **{part: inner}), *nodes[i + 1 :]], {name})
    return None


def begun(nodes: list[Node]) -> list[Node]:
    """Elements that are given a value and, by a later loop over the same, a term more: their sum at once, there."""
    nodes = [replace(n, children=begun(n.children), orelse=begun(n.orelse)) for n in nodes]
    for i, node in enumerate(nodes):
        if not (found := _computed(node)):
            continue
        name, index, value, loops = found
        words = set(re.findall(r"[A-Za-z_]\w*", value)) - set(loops)
        for k in range(i + 1, len(nodes)):
            if any(t.text == name for t in every(nodes[k])):
                if (added := _computed(nodes[k], "+=")) and added[:2] == (name, index) and added[3] == loops:
                    first = f"({value})" if "?" in value else value
                    sum_ = _with_leaf(nodes[k], tokens(f"{name}{index} = {first} + {added[2]};"))
                    begin = i - (i > 0 and nodes[i - 1].kind == "directive" and "unroll" in nodes[i - 1].items[0].text)
                    return begun([*nodes[:begin], *nodes[i + 1 : k], sum_, *nodes[k + 1 :]])
                break
            if words & _written(nodes[k]):
                break
    return nodes


def _with_leaf(node: Node, items: list[Token]) -> Node:
    """Loops around one statement, around another."""
    if node.kind == "leaf":
        return replace(node, items=items)
    inner = [n if n.kind == "directive" else _with_leaf(n, items) for n in node.children]
    return replace(node, children=inner)


def _computed(node: Node, by: str = "=") -> tuple[str, str, str, dict[str, tuple[str, str]]] | None:
    """Of loops around one element's computation: the array, the element, the value, and how far the loops go."""
    loops: dict[str, tuple[str, str]] = {}
    while node.kind == "loop" and (match := TURNS.match(plain(node.items))):
        inner = [n for n in node.children if not (n.kind == "directive" and "unroll" in n.items[0].text)]
        if len(inner) == 1 and inner[0].kind == "block":
            inner = [n for n in inner[0].children if not (n.kind == "directive" and "unroll" in n.items[0].text)]
        if len(inner) != 1:
            return None
        loops[match[1]] = match[2], match[3]
        node = inner[0]
    if (
        node.kind != "leaf"
        or not loops
        or not (match := (ELEMENT if by == "=" else ADDED).fullmatch(plain(node.items)))
        or IMPURE.search(match[3])
    ):
        return None
    named = set(re.findall(r"\w+", match[2])) - {"0"}
    itself = re.search(rf"\b{match[1]}\b", match[3])
    return (match[1], match[2], match[3], loops) if named <= set(loops) and not itself else None


def _read_in(node: Node, name: str, index: str, value: str, loops: dict[str, tuple[str, str]]) -> Node | None:
    """The statement with the value in place of the element; None where it is another element, or the loops are others."""
    if node.kind == "leaf":
        text = plain(node.items)
        if f"{name}{index}" not in text or loops:
            return None
        alone = f" = {name}{index};" in text or f"({name}{index})" in text
        said = value if alone or _is_one(value) else f"({value})"
        return replace(node, items=tokens(text.replace(f"{name}{index}", said)))
    left = dict(loops)
    match = READING.match(plain(node.items)) if node.kind == "loop" else None
    if match and left.get(match[1]) == (match[2], match[3]) and not re.search(rf"\b{match['moved']}\b", value):
        del left[match[1]]
    elif node.kind == "loop" and not (match and match[1] not in loops and COPIED.fullmatch(value)):
        return None  # it would be computed again in each of its turns
    elif any(t.text == name for t in node.items) or set(
        re.findall(r"\b(?:int|float) (\w+) =", plain(node.items))
    ) & set(loops):
        return None
    for part in ("children", "orelse"):
        for i, inner in enumerate(getattr(node, part)):
            if any(t.text == name for t in every(inner)):
                words = set(re.findall(r"[A-Za-z_]\w*", value)) - set(loops)
                if any(words & _written(before) for before in getattr(node, part)[:i]):
                    return None
                new = _read_in(inner, name, index, value, left)
                parts = [*getattr(node, part)[:i], new, *getattr(node, part)[i + 1 :]]
                return None if new is None else replace(node, **{part: parts})
    return None


def _is_one(value: str) -> bool:
    """An element, or a call: needs no parentheses."""
    if re.fullmatch(r"[\w.]+(?:\[[^][]*\])*", value):
        return True
    head = re.match(r"\w+\(", value)
    depth = 0
    for at in range(head.end() - 1 if head else len(value), len(value)):
        depth += {"(": 1, ")": -1}.get(value[at], 0)
        if depth == 0:
            return at == len(value) - 1
    return False


def _written(node: Node) -> set[str]:
    """Names that a statement gives values to, or may."""
    found: set[str] = set()
    for text, _ in _leaves_of([node]):
        found |= set(re.findall(r"(\w+)(?:\[[^][]*\])*(?:\.\w+(?:\[[^][]*\])*)? [-+*/|&]?=(?!=)", text))
        found |= {word for pair in re.findall(r"(?:\+\+|--)(\w+)|(\w+)(?:\+\+|--)", text) for word in pair}
        if match := re.match(r"(?:\w+::)?(\w+)\((.*)\);", text, re.S):
            found |= set(re.findall(r"[A-Za-z_]\w*", match[2]))
    return found
