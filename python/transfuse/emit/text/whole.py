"""What only the whole of a kernel's text shows: parameters nobody reads, members that are always one number, tables of equal ones.

Several kernels (and builds of one) are looked at together: what goes, goes from all of them, so that they stay one text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from transfuse.emit.text.signature import named
from transfuse.emit.text.tokens import CLOSING, Token, closing, split, tokens

KEYWORDS = {
    "if",
    "constexpr",
    "for",
    "while",
    "switch",
    "return",
    "sizeof",
    "else",
    "alignas",
    "asm",
    "defined",
    "__launch_bounds__",
}
WRITES = {"++", "--", "+=", "-=", "*=", "|=", "&=", "^=", "/=", "%=", "<<=", ">>="}


@dataclass
class Definition:
    """Of a function: where its parameters stand, and where what reads them ends."""

    name: str
    open: int
    close: int
    end: int


def joined(items: list[Token]) -> str:
    return "".join(t.space + t.text for t in items)


def definitions(items: list[Token]) -> list[Definition]:
    found = []
    for i in range(len(items) - 1):
        if items[i].kind != "word" or items[i].text in KEYWORDS or items[i + 1].text != "(":
            continue
        if not i or (items[i - 1].kind != "word" and items[i - 1].text not in ("*", "&", ">")):
            continue  # a call, or a member's first value
        close = closing(items, i + 1)
        at = close + 1
        if at < len(items) and items[at].text == "const":
            at += 1
        if at < len(items) and items[at].text == ":" and items[i - 1].text != "?":  # what a constructor begins with
            at += 1
            while at < len(items) and items[at].text not in ("{", ";"):
                at = closing(items, at) + 1 if items[at].text == "(" else at + 1
        if at < len(items) and items[at].text == "{":
            found.append(Definition(items[i].text, i + 1, close, closing(items, at)))
    return found


def without_unused_parameters(sources: list[list[str]]) -> list[list[str]]:
    """sources: of each kernel its declarations. Functions that stand once in a kernel lose what they do not read."""
    tokenised = [[tokens(text) for text in source] for source in sources]
    while True:
        idle: dict[tuple[str, int], set[int]] = {}
        several: set[str] = set()
        for source in tokenised:
            seen: set[str] = set()
            for items in source:
                kernel = any(t.text == "__global__" for t in items)
                for d in definitions(items):
                    if d.name in seen or kernel or d.name.startswith("~"):
                        several.add(d.name)
                    seen.add(d.name)
                    parameters = split(items[d.open + 1 : d.close], {","}) if d.close > d.open + 1 else []
                    inside = {t.text for t in items[d.close + 1 : d.end]}
                    names = [named(p) for p in parameters]
                    unused = {i for i, n in enumerate(names) if n is None or n not in inside}
                    key = d.name, len(parameters)
                    idle[key] = idle.get(key, unused) & unused
                    several |= {n for n, c in idle if n == d.name and c != len(parameters)}
        gone = {key[0]: (key[1], indices) for key, indices in idle.items() if indices and key[0] not in several}
        gone = {name: found for name, found in gone.items() if _plain_calls(name, found, tokenised)}
        if not gone:
            return [[joined(items) for items in source] for source in tokenised]
        tokenised = [[_shortened(items, gone) for items in source] for source in tokenised]


def calls(items: list[Token], name: str):
    """Positions of the bracket behind a name where it is defined, called, or a variable of that type is made."""
    for i, token in enumerate(items):
        if token.text != name or token.kind != "word":
            continue
        at = i + 1
        if at < len(items) and items[at].text == "<":
            depth, at = 1, at + 1
            while at < len(items) and depth and items[at].text not in (";", "{", "("):
                depth += (items[at].text == "<") - (items[at].text == ">")
                at += 1
        before = items[i - 1] if i else Token("operator", ";", "")
        if at < len(items) and items[at].kind == "word" and at + 1 < len(items) and items[at + 1].text == "(":
            yield at + 1
            last = closing(items, at + 1)  # several variables: Type a(…), b(…);
            while [t.text for t in items[last + 1 : last + 4 : 2]] == [",", "("] and items[last + 2].kind == "word":
                yield last + 3
                last = closing(items, last + 3)
        elif at < len(items) and items[at].text == "(":
            yield from [at] if before.kind != "word" or before.text in ("return", "else") or _defined(items, i) else []


def _defined(items: list[Token], at: int) -> bool:
    if items[at + 1].text != "(":
        return False
    behind = closing(items, at + 1) + 1
    return behind < len(items) and items[behind].text in ("{", "const", ":")


def _plain_calls(name: str, found: tuple[int, set[int]], sources) -> bool:
    """Whether every call gives as many arguments, and none of those that would go does something."""
    count, indices = found
    for source in sources:
        for items in source:
            for at in calls(items, name):
                given = split(items[at + 1 : closing(items, at)], {","})
                if len(given) != count:
                    return False
                texts = [t.text for i in indices for t in given[i]]
                if any(t in WRITES or t == "=" for t in texts):
                    return False
    return True


def _shortened(items: list[Token], gone: dict[str, tuple[int, set[int]]]) -> list[Token]:
    names = gone.keys() & {t.text for t in items}
    for name in names:
        for at in reversed(list(calls(items, name))):
            close = closing(items, at)
            given = split(items[at + 1 : close], {","})
            kept = [g for i, g in enumerate(given) if i not in gone[name][1]]
            inner: list[Token] = []
            for i, part in enumerate(kept):
                first = Token(part[0].kind, part[0].text, " " if i else "")
                inner += [*([Token("operator", ",", "")] if i else []), first, *part[1:]]
            if (
                not kept
                and items[at - 1].kind == "word"
                and at > 1
                and items[at - 2].kind == "word"
                and not _defined(items, at - 1)
            ):
                items = [*items[:at], *items[close + 1 :]]  # a variable that is made of nothing
            else:
                items = [*items[: at + 1], *inner, *items[close:]]
    return items


# Members -------------------------------------------------------------------------------------------------------------


def without_constant_members(sources: list[list[str]]) -> list[list[str]]:
    """Whole-number members of structs to which nothing but one number is ever given."""
    tokenised = [[tokens(text) for text in source] for source in sources]
    candidates: dict[str, set[str]] = {}
    barred: set[str] = set()
    for source in tokenised:
        owners: dict[str, int] = {}
        for items in source:
            if (name := _struct(items)) is not None:
                for member in _members(items):
                    owners[member] = owners.get(member, 0) + 1
                    candidates.setdefault(member, set()).add(name)
        barred |= {m for m, count in owners.items() if count > 1}
        for items in source:  # structs that are made of a list of values keep their members
            for a, b, c in zip(items, items[1:], [*items[2:], Token("operator", "", "")]):
                made = a.text if b.text == "{" else a.text if b.kind == "word" and c.text == "{" else None
                if a.text != "struct" and made is not None:
                    barred |= {m for m, names in candidates.items() if made in names and not _declares(items, made)}
    for member, owners in candidates.items():
        if member in barred or len(owners) > 1:
            continue
        owner = next(iter(owners))
        holding = [source for source in tokenised if any(_struct(items) == owner for items in source)]
        values = {v for source in holding for items in source for v in _given(items, member, _struct(items) == owner)}
        if len(values) == 1 and (number := next(iter(values))) is not None:
            for source in holding:
                source[:] = [_replaced(items, member, number, _struct(items) == owner) for items in source]
    return [[joined(items) for items in source] for source in tokenised]


def _struct(items: list[Token]) -> str | None:
    for i, token in enumerate(items):
        if token.text == "struct" and i + 2 < len(items) and items[i + 2].text == "{":
            return items[i + 1].text
        if token.text in ("(", ";", "{"):
            return None
    return None


def _declares(items: list[Token], name: str) -> bool:
    return _struct(items) == name


def _members(items: list[Token]) -> list[str]:
    """Whole numbers among a struct's members that have no first value."""
    body = items[next(i for i, t in enumerate(items) if t.text == "{") + 1 : -2]
    found, i = [], 0
    while i < len(body):
        end = i
        while end < len(body) and body[end].text != ";":
            end = closing(body, end) + 1 if body[end].text in CLOSING else end + 1
            if body[end - 1].text == "}":
                break
        statement = [t for t in body[i:end] if t.kind not in ("comment", "directive")]
        if [t.text for t in statement[:1]] == ["int"] and not any(t.text in ("(", "=", "{") for t in statement):
            found += [part[0].text for part in split(statement[1:], {","}) if len(part) == 1]
        i = end + (end < len(body) and body[end].text == ";")
    return found


def _mentions(items: list[Token], member: str, inside: bool):
    """Positions where the member is meant: behind a dot, or by itself within its struct."""
    for i, token in enumerate(items):
        if token.text == member and token.kind == "word":
            dotted = i > 0 and items[i - 1].text in (".", "->")
            if dotted or (inside and not (i and items[i - 1].text in ("int", ",") and _declaration(items, i))):
                yield i, dotted


def _declaration(items: list[Token], at: int) -> bool:
    """Whether a name stands in the list of a struct's members."""
    while at > 0 and items[at].text not in (";", "{", "}", "("):
        at -= 1
    return items[at].text != "(" and at + 1 < len(items) and items[at + 1].text == "int"


def _given(items: list[Token], member: str, inside: bool):
    """What is given to the member: numbers, or None for everything else."""
    for i, dotted in _mentions(items, member, inside):
        after = items[i + 1].text if i + 1 < len(items) else ""
        begin = _object(items, i) if dotted else i
        before = items[begin - 1].text if begin else ""
        if after in WRITES or before in ("++", "--", "&"):
            yield None
        elif after == "(" and not dotted:
            inner = items[i + 2 : closing(items, i + 1)]
            yield inner[0].text if len(inner) == 1 and inner[0].kind == "number" else None
        elif after == "=":
            plain = items[i + 2].kind == "number" and items[i + 3].text == ";" and before in (";", "{", "}", ")")
            yield items[i + 2].text if plain else None


def _object(items: list[Token], at: int) -> int:
    """Where the expression before a dot begins."""
    while at > 0 and items[at - 1].text in (".", "->"):
        at -= 2
        while items[at].text in (")", "]"):
            depth = 0
            while True:
                depth += (items[at].text in CLOSING.values()) - (items[at].text in CLOSING)
                at -= 1
                if not depth:
                    break
    return at


def _replaced(items: list[Token], member: str, number: str, inside: bool) -> list[Token]:
    out = list(items)
    for i, dotted in reversed(list(_mentions(items, member, inside))):
        begin, after = _object(out, i) if dotted else i, out[i + 1].text
        if after == "(" and not dotted:  # in a constructor's list
            end = closing(out, i + 1) + 1
            if out[end].text == ",":
                out = out[:i] + out[end + 1 :]
            else:
                out = out[: i - 1] + out[end:]
        elif after == "=" and out[i + 2].text == number and out[i + 3].text == ";":
            if out[begin - 1].text == ")":
                out = out[:begin] + [Token("operator", ";", "")] + out[i + 4 :]
            else:
                out = out[:begin] + out[i + 4 :]
        else:
            out = [*out[:begin], Token("number", number, out[begin].space), *out[i + 1 :]]
    return _undeclared(out, member) if inside else out


def _undeclared(items: list[Token], member: str) -> list[Token]:
    for i, token in enumerate(items):
        if token.text == member and i and items[i - 1].text in ("int", ",") and _declaration(items, i):
            if items[i + 1].text == ",":
                following = Token(items[i + 2].kind, items[i + 2].text, token.space)
                return [*items[:i], following, *items[i + 3 :]]
            if items[i - 1].text == ",":
                return items[: i - 1] + items[i + 1 :]
            return items[: i - 1] + items[i + 2 :]  # `int member;`
    return items


# What is written and never read ----------------------------------------------------------------------------------------


def without_unread_members(sources: list[list[str]]) -> list[list[str]]:
    """Members of other types that a struct gives values, and nobody reads."""
    tokenised = [[tokens(text) for text in source] for source in sources]
    unread: set[tuple[str, str]] | None = None
    for source in tokenised:
        for items in source:
            if (owner := _struct(items)) is None:
                continue
            named = {a.text for other in source for a, b in _variables(other, owner)}
            for member in MEMBER.findall(joined(items)):
                read = any(d or i + 1 >= len(items) or items[i + 1].text != "=" for i, d in _mentions(items, member, True)
                           if not _typed(items, i))  # fmt: skip
                seen = any(a.text in named and b.text == "." and c.text == member
                           for other in source for a, b, c in zip(other, other[1:], other[2:]))  # fmt: skip
                if not read and not seen and named:
                    unread = (unread or set()) | {(owner, member)}
    for owner, member in unread or ():
        for source in tokenised:
            source[:] = [
                tokens(_unwritten(joined(items), member)) if _struct(items) == owner else items for items in source
            ]
    return [[_without_unread_references(joined(items)) for items in source] for source in tokenised]


REFERENCE = re.compile(r"\n    const \w+& (\w+);[^\n]*")


def _without_unread_references(text: str) -> str:
    """References that a struct's constructor is given, and nobody reads."""
    for match in REFERENCE.finditer(text) if "struct" in text else ():
        given = re.compile(rf"(?:, |(?<=: )){match[1]}\(\w+\)(?:, (?={{))?")
        if len(re.findall(rf"\b{match[1]}\b", re.sub(r"//[^\n]*", "", text))) == 2 and len(given.findall(text)) == 1:
            text = given.sub("", text.replace(match[0], ""))
    return text


MEMBER = re.compile(r"\n    Place (\w+);")


def _typed(items: list[Token], at: int) -> bool:
    return at > 0 and items[at - 1].text == "Place"


def _variables(items: list[Token], owner: str):
    for a, b, c in zip(items, items[1:], items[2:]):
        if a.text == owner and b.kind == "word" and c.text in ("(", ";", ","):
            yield b, c
        elif a.text == owner and b.text == "&" and c.kind == "word":
            yield c, b


def _unwritten(text: str, member: str) -> str:
    text = re.sub(rf"\n    Place {member};[^\n]*", "", text)
    return re.sub(rf"(?:\n +|(?<=[;{{]) ){member} = [^;\n]*;", "", text)
