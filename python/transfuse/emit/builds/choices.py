"""Lines of several builds as one: where they differ in a value it says PICK(…), one for each build."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from transfuse.emit.text.tokens import CLOSING, Token, closing, tokens

NEVER = {
    "=",
    "+=",
    "-=",
    "*=",
    "/=",
    "++",
    "--",
    ";",
    "return",
    "const",
    "auto",
    "static",
    "float",
    "STORED",
}  # in a value


@dataclass(frozen=True)
class Group:
    """What stands between brackets."""

    opening: Token
    inner: tuple[Token | Group, ...]
    closing: Token


Items = tuple[Token | Group, ...]


@dataclass(frozen=True)
class Words:
    """Of a line's build: the words of the function it stands in, and of all that is declared by itself."""

    local: frozenset[str]
    outside: frozenset[str]


def in_turn(lists: Iterable[Iterable[str]]) -> list[str]:
    """All that the lists have, each behind what it is behind in the first that has it."""
    every: list[str] = []
    for list_ in lists:
        last = -1
        for item in list_:
            if item not in every:
                every.insert(last + 1, item)
            last = every.index(item)
    return every


def one(lines: list[str], known: list[Words]) -> str | None:
    """The lines as one; None where that cannot be. known: of each build its words."""
    if (found := _rounded(lines, known)) is not None:
        return found
    if len(told := {code for line in lines for code in RETURNED.findall(line)}) > 1 and told & {"-1", "-3"}:
        return None
    if (found := _declared(lines, known)) is not None:
        return found
    rows = [tokens(line) for line in lines]
    if not all(rows) or any(t.kind in ("directive", "string", "comment") for row in rows for t in row):
        return None
    try:
        trees = [_tree(row) for row in rows]
    except ValueError:
        return None
    return _merged(trees, [_in_reach(line, words) for line, words in zip(lines, known)], False)


SHORT = 2  # letters of what counts a loop


def _in_reach(line: str, words: Words) -> Words:
    """Without what counts a loop that the line may not stand in: it says so itself, or it is not known there."""
    own = _own(line)
    reach = lambda every: frozenset(word for word in every if len(word) > SHORT or word in own)  # noqa: E731
    return Words(reach(words.local), reach(words.outside))


RETURNED = re.compile(r"\) return (-\d);$")  # what a caller is told: -2 and -4 that another path takes it
TYPES = {"float", "STORED"}  # of an element: as the last build, that for 16 bits, says; in all others both are float
ROUND = "tf_round<STORED>"  # of four bytes it is the value itself


def _rounded(lines: list[str], known: list[Words]) -> str | None:
    """Lines that differ in roundings to what is stored, and in casts of what is float: the one that says most of them."""
    if any("double" in words.local for words in known) or len({bare(line) for line in lines}) > 1:
        return None
    return max(lines, key=lambda line: (line.count(ROUND), -len(line)))


def bare(line: str) -> str:
    return re.sub(r"[()\s]", "", line.replace(ROUND, "").replace("(float)", ""))


DECLARED = re.compile(r"( *)((?:const )?(?:int|float|unsigned|long long)|__shared__ \w+) (\w[^;{}]*);")
ITEM = re.compile(r"(\w+)((?:\[\w+\])*)(?: = (.*))?", re.S)


def _declared(lines: list[str], known: list[Words]) -> str | None:
    """Variables by name, those too that some builds alone have: nobody reads them in the others."""
    found = [DECLARED.fullmatch(line) for line in lines]
    if not all(found) or len({(m[1], m[2]) for m in found}) > 1:
        return None
    parts = [[ITEM.fullmatch(_plain(part)) for part in _split(_tree(tokens(m[3])), ",")] for m in found]
    if not all(item for list_ in parts for item in list_):
        return None
    lists = [{item[1]: item for item in list_} for list_ in parts]
    every = in_turn(lists)
    if len(every) == sum(map(len, lists)):
        return None
    out = []
    for name in every:
        items = [list_.get(name) for list_ in lists]
        first = next(filter(None, items))
        for item, words in zip(items, known):
            if item is None and (name in words.local or not _needless(first, words)):
                return None
        values = [(item or first)[3] for item in items]
        if len({(item or first)[2] for item in items}) > 1 or len({value is None for value in values}) > 1:
            return None
        said = values[0] and _merged([_tree(tokens(value)) for value in values], known, True)
        if values[0] and said is None:
            return None
        out.append(f"{name}{first[2]}" + (f" = {said}" if said else ""))
    return f"{found[0][1]}{found[0][2]} {', '.join(out)};"


def _needless(item: re.Match, words: Words) -> bool:
    """Whether it may be declared where nobody reads it: its value is computed from what is there."""
    value = item[3] or "0"
    tree = _tree(tokens(value))
    return (
        _value(tree)
        and _own(value) <= words.local | words.outside
        and not re.search(r"\w\(", value.replace("ceil_div(", "("))
    )


def _own(text: str) -> set[str]:
    return set(re.findall(r"(?<!::)\b(?!std\b|long\b|int\b)[A-Za-z_]\w*", text))


def _tree(row: list[Token]) -> Items:
    out: list[Token | Group] = []
    at = 0
    while at < len(row):
        if row[at].text in CLOSING:
            end = closing(row, at)
            out.append(Group(row[at], _tree(row[at + 1 : end]), row[end]))
            at = end + 1
        else:
            out.append(row[at])
            at += 1
    return tuple(out)


def _said(items: Items) -> str:
    return "".join(
        f"{i.opening.space}{i.opening.text}{_said(i.inner)}{i.closing.space}{i.closing.text}"
        if isinstance(i, Group)
        else i.space + i.text
        for i in items
    )


def _plain(items: Items) -> str:
    return re.sub(r"\s+", " ", _said(items)).strip()


def _merged(rows: list[Items], known: list[Words], whole: bool) -> str | None:
    """whole: what stands here may be one value."""
    if len({_plain(row) for row in rows}) == 1:
        return _said(rows[0])
    if len({len(row) for row in rows}) == 1 and (found := _one_by_one(rows, known)) is not None:
        return found
    for by in (";", ",", "||", "&&", ">=", "<=", "!=", "==", "<") if whole else (";", ","):
        parts = [_split(row, by) for row in rows]
        if len(parts[0]) > 1 and len({len(p) for p in parts}) == 1:
            found = [_merged(list(each), known, by != ";" and (whole or k > 0)) for k, each in enumerate(zip(*parts))]
            return None if None in found else (by if by in ";," else f" {by}").join(found)
    return _chosen(rows, known, whole)


def _one_by_one(rows: list[Items], known: list[Words]) -> str | None:
    out = ""
    for column in zip(*rows):
        if len({_plain((i,)) for i in column}) == 1:
            out += _said((column[0],))
        elif all(isinstance(i, Group) for i in column) and len({i.opening.text for i in column}) == 1:
            inner = _merged([i.inner for i in column], known, all(_list(i) for i in column))
            if inner is None:
                return None
            first = column[0]
            out += f"{first.opening.space}{first.opening.text}{inner}{first.closing.space}{first.closing.text}"
        elif any(isinstance(i, Group) for i in column):
            return None
        elif {i.text for i in column} == TYPES:
            out += column[0].space + column[-1].text
        elif all(i.kind == "number" or i.text in ("true", "false") for i in column):
            out += f"{column[0].space}PICK({', '.join(i.text for i in column)})"
        else:
            return None
    return out


def _list(group: Group) -> bool:
    """Values between brackets, not statements."""
    return not any(isinstance(i, Token) and i.text == ";" for i in group.inner)


def _split(items: Items, by: str) -> list[Items]:
    parts: list[list] = [[]]
    for item in items:
        if isinstance(item, Token) and item.text == by and (item.space or by in ";,"):
            parts.append([])
        else:
            parts[-1].append(item)
    return [tuple(p) for p in parts]


BEFORE = {"=", "return", "?", ":"}  # behind these a value begins


def _chosen(rows: list[Items], known: list[Words], whole: bool) -> str | None:
    """What is not alike, as one value of each."""
    least, same, behind = min(map(len, rows)), 0, 0
    text = lambda row, k: _plain((row[k],))  # noqa: E731
    while same < least and len({text(row, same) for row in rows}) == 1:
        same += 1
    while behind < least - same and len({text(row, -1 - behind) for row in rows}) == 1:
        behind += 1
    begins = [k + 1 for k in range(same) if isinstance(i := rows[0][k], Token) and i.text in BEFORE]
    first = begins[-1] if begins else 0 if whole else None
    if first is None:
        return None
    ends = [k for k in range(1, behind + 1) if isinstance(i := rows[0][-k], Token) and i.text in (";", ":", "?")]
    last = ends[-1] if ends else 0
    values = [row[first : len(row) - last] for row in rows]
    if not all(_value(value) for value in values):
        return None
    words = [_own(_said(value)) for value in values]
    if any(not words_ <= every.local | every.outside for words_ in words for every in known):
        return None
    said, common = [_plain(value) for value in values], ""
    if all("leaf" in of.local for of in known) and all(re.fullmatch(r"\w+(?: \* \w+)+", text) for text in said):
        said, common = _factored(said)
    picked = f"PICK({', '.join(said)}){common}"
    space = re.match(r"\s*", _said(values[0]))[0]
    return _said(rows[0][:first]) + space + picked + _said(rows[0][len(rows[0]) - last :])


def _factored(products: list[str]) -> tuple[list[str], str]:
    """Of whole numbers, what they have in common apart."""
    lists = [product.split(" * ") for product in products]
    common = []
    for factor in list(lists[0]):
        if all(factor in list_ for list_ in lists):
            common.append(factor)
            for list_ in lists:
                list_.remove(factor)
    return [" * ".join(list_) or "1" for list_ in lists], "".join(f" * {factor}" for factor in common)


def _value(items: Items) -> bool:
    """Whether these are one value: nothing is stored, declared or called for what it does."""
    if not items or _split(items, ",") != [items]:
        return False
    return all(_value(i.inner) if isinstance(i, Group) and len(i.inner) == 1 else _harmless(i) for i in items)


def _harmless(item: Token | Group) -> bool:
    if isinstance(item, Group):
        return item.opening.text != "{" and all(map(_harmless, item.inner))
    return item.text not in NEVER
