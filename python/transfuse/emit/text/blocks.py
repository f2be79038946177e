"""The statements of a block, tidied: names for what has one already, places used once, sums and arrays written together."""

from __future__ import annotations

import re
from dataclasses import replace

from transfuse.emit.text.layout import plain
from transfuse.emit.text.statements import Node, every
from transfuse.emit.text.tokens import Token, closing, split


CHANGES = {"=", "++", "--", "+=", "-=", "*=", "/=", "|=", "&="}


def changed(nodes: list[Node]) -> set[str]:
    """Names that are given something, or whose address is taken."""
    items = [t for node in nodes for t in [*every(node), Token("operator", ";", "")]]
    found = set()
    for before, token, after in zip(
        [Token("operator", ";", ""), *items], items, [*items[1:], Token("operator", ";", "")]
    ):
        if token.kind == "word" and (after.text in CHANGES or before.text in ("++", "--", "&")):
            found.add(token.text)
    return found


COPY = re.compile(r"(?:const|(constexpr)) int (\w+) = ([A-Za-z_]\w*|\d+);")


def copies_gone(nodes: list[Node]) -> list[Node]:
    """Names for what has one already; as long as that stays what it is."""
    for i, node in enumerate(nodes):
        match = COPY.fullmatch(plain(node.items)) if node.kind == "leaf" else None
        if not match or (match[3].isupper() and not match[1]) or match[3] in changed(nodes[i + 1 :]):
            continue
        name, by, rest = match[2], match[3], nodes[i + 1 :]
        if any(
            re.search(rf"\b(?:int|float|REAL|auto|unsigned|double) (?:{name}|{by}) =", plain(n.items))
            for n in _all(rest)
        ):
            continue
        return copies_gone([*nodes[:i], *(_renamed(n, name, by) for n in rest)])
    return nodes


PLACE = re.compile(r"at\.u\[\d\](?: \+ [\w *]+)?|wg \* \d+")  # of a tile; of a warpgroup's channels

SUM = re.compile(r"(\w+) (\+?)= ([^;?<>=|&]*);")


def _sums_together(nodes: list[Node]) -> list[Node]:
    """`x = a; x += b;` as one sum."""
    out: list[Node] = []
    for node in nodes:
        last, this = (
            SUM.fullmatch(plain(n.items)) if n is not None and n.kind == "leaf" and not n.note else None
            for n in (out[-1] if out else None, node)
        )
        if (
            last
            and this
            and last[1] == this[1]
            and not last[2]
            and this[2]
            and last[1] not in re.findall(r"\w+", this[3])
        ):
            first = Token(node.items[2].kind, node.items[2].text, " ")
            out[-1] = Node("leaf", [*out[-1].items[:-1], Token("operator", "+", " "), first, *node.items[3:]])
        else:
            out.append(node)
    return out


def tidied(nodes: list[Node]) -> list[Node]:
    return _arrays_together(_sums_together(_places_used_once(nodes)))


def _places_used_once(nodes: list[Node]) -> list[Node]:
    """A tile's place along an axis stands where it is used, if that is one place."""
    for i, node in enumerate(nodes):
        if node.kind != "leaf" or [t.text for t in node.items[:2]] != ["const", "int"]:
            continue
        parts = split(node.items[2:-1], {","})
        rest = nodes[i + 1 :]
        uses = [t.text for n in rest for t in every(n)]
        once = {
            p[0].text: p[2:]
            for p in parts
            if len(p) > 2 and PLACE.fullmatch(plain(p[2:])) and uses.count(p[0].text) == 1
        }
        if len(once) == len(parts):
            return _places_used_once([*nodes[:i], *(_put(n, once) for n in rest)])
    return nodes


def _put(node: Node, values: dict[str, list[Token]]) -> Node:
    items: list[Token] = []
    for token in node.items:
        if token.kind == "word" and (given := values.get(token.text)):
            sum_ = len(given) > 6
            first = Token(given[0].kind, given[0].text, "" if sum_ else token.space)
            items += (
                [Token("operator", "(", token.space)] * sum_ + [first, *given[1:]] + [Token("operator", ")", "")] * sum_
            )
        else:
            items.append(token)
    inner = [_put(n, values) for n in node.children], [_put(n, values) for n in node.orelse]
    return Node(node.kind, items, *inner, node.note, node.flat, node.beside)


ARRAY = re.compile(r"(float|REAL|double) (\w+(?:\[\w+\])+(?:, \w+(?:\[\w+\])+)*);")


def _arrays_together(nodes: list[Node]) -> list[Node]:
    """Arrays of a block that begin empty are declared together, where the first of them is and their extents are known."""
    first: dict[str, Node] = {}
    out: list[Node] = []
    for node in nodes:
        match = ARRAY.fullmatch(plain(node.items)) if node.kind == "leaf" and not node.note else None
        if node.kind == "leaf" and node.items and node.items[0].text == "constexpr":
            first = {}  # what it names may be an extent of the arrays that follow
        if match and match[1] in first:
            mine = first[match[1]]
            mine.items = [*mine.items[:-1], Token("operator", ",", ""), *node.items[1:]]
        elif match:
            first[match[1]] = Node("leaf", list(node.items), note=node.note, beside=node.beside)
            out.append(first[match[1]])
        else:
            out.append(node)
    return out


def _all(nodes: list[Node]):
    for node in nodes:
        yield node
        yield from _all([*node.children, *node.orelse])


def _renamed(node: Node, name: str, by: str) -> Node:
    items = list(node.items)
    for i, token in enumerate(items):
        if token.text == name and token.kind == "word" and not (i and items[i - 1].text in (".", "->")):
            items[i] = Token("word", by, token.space)
    inner = [_renamed(n, name, by) for n in node.children], [_renamed(n, name, by) for n in node.orelse]
    return Node(node.kind, items, *inner, node.note, node.flat, node.beside)


def parameter_itself(head: list[Token], nodes: list[Node]) -> list[Node]:
    """A variable that begins as a parameter which is not read again is that parameter."""
    if len(nodes) != 1 or nodes[0].kind != "block":
        return nodes
    statements = nodes[0].children
    for i, node in enumerate(statements):
        match = re.fullmatch(r"int (\w+) = (\w+);", plain(node.items)) if node.kind == "leaf" else None
        if not match or not re.search(rf"\bint {match[2]}[,)]", plain(head)):
            continue
        rest = statements[:i] + statements[i + 1 :]
        words = {t.text for n in rest for t in every(n) if t.kind == "word"}
        if match[2] not in words:
            return [replace(nodes[0], children=[_renamed(n, match[1], match[2]) for n in rest])]
    return nodes


def without_early_return(nodes: list[Node]) -> list[Node]:
    """A function's `if (c) return;` before its last statement as `if (!(c))` that statement."""
    if len(nodes) == 1 and nodes[0].kind == "block" and len(nodes[0].children) > 1:
        *before, asked, last = nodes[0].children
        if asked.kind == "if" and [plain(n.items) for n in asked.children] == ["return;"] and not asked.orelse:
            if last.kind == "leaf" and not asked.note:
                return [replace(nodes[0], children=[*before, Node("if", negated(asked.items), [last])])]
    return nodes


OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def negated(condition: list[Token]) -> list[Token]:
    if condition[0].text == "!" and (
        len(condition) == 2 or closing(condition, len(condition) > 2 and 2) == len(condition) - 1
    ):
        return [Token(condition[1].kind, condition[1].text, ""), *condition[2:]]  # of a word or a call
    signs = [t for t in condition if t.kind == "operator" and t.text in (*OPPOSITE, "&&", "||", "?", "&", "|", "!")]
    if len(signs) == 1 and signs[0].text in OPPOSITE:
        return [replace(t, text=OPPOSITE[t.text]) if t is signs[0] else t for t in condition]
    bracket = lambda text: Token("operator", text, "")  # noqa: E731
    return [bracket("!"), bracket("("), *condition, bracket(")")]
