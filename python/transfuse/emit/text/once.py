"""Short functions that are called once, written out where they are called."""

from __future__ import annotations

import re
from dataclasses import dataclass

from transfuse.emit.text.signature import named
from transfuse.emit.text.tokens import Token, closing, split, tokens

LONGEST = 5  # lines of a body
MANY = 8  # parameters: what a function that is told so much does is read more easily where all of it is at hand
DECLARES = re.compile(
    r"(?:\b(?:int|float|bool|double|unsigned|long|auto)[ *&]+(?=\w+(?:\[[^\]]*\])*(?: =|;|,))|, (?=\w+(?:\[[^\]]*\])* =))(\w+)"
)
FUNCTION = re.compile(
    r"(?P<comment>(?://[^\n]*\n)*)(?:template <int (?P<template>\w+)(?:, class (?P<type>\w+))?> )?(?:static )?"
    r"(?:__device__ __forceinline__|TF_PTX|TF_FUNCTION|DEVICE) void (?P<name>\w+)(?=\()",
)


@dataclass
class Function:
    comment: str
    template: str  # the number it is for
    type: str  # of what its first parameter points to
    name: str
    parameters: list[tuple[str, str]]  # type and name
    body: list[Token]


def short(text: str) -> Function | None:
    """A function of few statements that only does something."""
    match = FUNCTION.match(text.lstrip("\n"))
    if not match or "asm" in text or "return" in text:
        return None
    items = tokens(text.lstrip("\n")[match.end() :])
    close = closing(items, 0)
    end = closing(items, close + 1)
    body = items[close + 2 : end]
    parameters = [(_plain(p), named(p)) for p in split(items[1:close], {","})] if close > 1 else []
    told = len(parameters) >= MANY and "UNROLL" in text
    if (
        end + 1 != len(items)
        or sum("\n" in t.space for t in body) > LONGEST
        or any(t.kind == "directive" for t in body[1:])
    ):
        if not all(t.text.startswith("#pragma unroll") for t in body if t.kind == "directive"):
            return None
        if sum("\n" in t.space for t in body) > LONGEST + 2 and not told:
            return None
    if any(name is None for _, name in parameters):
        return None
    return Function(match["comment"], match["template"] or "", match["type"] or "", match["name"], parameters, body)


def written_out(sources: list[list[str]], found: list[list[Function | None]]) -> list[list[str | None]]:
    """sources: of each kernel its declarations; None for those that are gone. What goes, goes from all of them."""
    names = {f.name for functions in found for f in functions if f}
    for name in sorted(names):
        changed = []
        for source, functions in zip(sources, found):
            mine = [i for i, f in enumerate(functions) if f and f.name == name and source[i] is not None]
            if not any(re.search(rf"\b{name}\b", text or "") for text in source):
                continue
            places = [i for i, text in enumerate(source) if text and re.search(rf"\b{name}\b", text)]
            if len(mine) != 1 or len(places) != 2:
                break
            at = next(i for i in places if i != mine[0])
            fresh = short(source[mine[0]])
            text = _inlined(source[at], fresh) if fresh else None
            if text is None:
                break
            changed.append((source, mine[0], at, text))
        else:
            for source, gone, at, text in changed:
                source[gone], source[at] = None, text
    return sources


def _plain(items: list[Token]) -> str:
    return "".join((" " if t.space and i else "") + t.text for i, t in enumerate(items))


def _set(items: list[Token], i: int) -> bool:
    """Whether a name is given another value there."""
    sets = ("=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "++", "--")
    return (i + 1 < len(items) and items[i + 1].text in sets) or items[i - 1].text in ("++", "--")


def _pointed_to(items: list[Token], at: int) -> str | None:
    """What the pointer that a call f<4>(pointer, …) is given first points to: by its last declaration that the call can see."""
    pointer, closed = items[at + 5].text, 0
    for i in range(at - 1, 1, -1):
        closed += items[i].text == "}"
        closed -= items[i].text == "{" and closed > 0
        if not closed and items[i].text == pointer and items[i - 1].text == "*" and items[i + 1].text == "=":
            return items[i - 2].text
    return None


def _inlined(text: str, function: Function) -> str | None:
    items = tokens(text)
    calls = [i for i, t in enumerate(items) if t.text == function.name and t.kind == "word"]
    if len(calls) != 1:
        return None
    at, body = calls[0], list(function.body)
    if (
        items[at + 1].text == "<" and items[at + 3].text == ">" and function.type
    ):  # f<4>(to, …): for a number and a type
        type_ = _pointed_to(items, at)
        if not type_:
            return None
        by = {function.template: items[at + 2].text, function.type: type_}
        body = [Token(t.kind, by.get(t.text, t.text), t.space) for t in body]
        items = [*items[: at + 1], *items[at + 4 :]]
    elif items[at + 1].text == "<" and items[at + 3].text == ">" and all(t.text != function.template for t in body):
        items = [*items[: at + 1], *items[at + 4 :]]  # for a number that it does not read
    elif items[at + 1].text != "(" or function.type:
        return None
    elif function.template and not re.search(rf"constexpr int [^;]*\b{function.template} =", text):
        return None
    before, end = items[at - 1], closing(items, at + 1)
    if items[end + 1].text != ";" or not (
        before.text in (";", "{", "}", ")") or before.kind in ("comment", "directive")
    ):
        return None
    words = {t.text for t in items}
    made: list[str] = []
    by_place: dict[int, list[Token]] = {}
    declared = re.compile(r"(?:int|float|uint4|const|unsigned|double) (\w+) =")
    hidden = set(declared.findall(_plain(body)))  # names the body has for itself, those of its loops among them
    own = set(declared.findall(re.sub(r"for \(int \w+ =", "", _plain(body))))
    for (type_, name), given in zip(function.parameters, split(items[at + 2 : end], {","}), strict=True):
        uses = [
            i for i, t in enumerate(body) if t.text == name and t.kind == "word" and body[i - 1].text not in (".", "->")
        ]
        simple = all(t.kind in ("word", "number") or t.text in (".", "[", "]", "->") for t in given)
        if hidden & {t.text for t in given} or ("&" not in type_ and any(_set(body, i) for i in uses)):
            return None
        if simple or len(uses) == 1:
            wrap = not simple and (len(given) < 2 or given[1].text != "(" or closing(given, 1) != len(given) - 1)
            for i in uses:
                first = Token(given[0].kind, given[0].text, "" if wrap else body[i].space)
                new = [first, *given[1:]]
                new = [Token("operator", "(", body[i].space), *new, Token("operator", ")", "")] if wrap else new
                by_place[i] = new
        elif "&" in type_ or (name in words and [t.text for t in given] != [name]):
            return None
        else:
            made.append(f"{type_} = {_plain(given)};\n")
    # All at once: what is given may say the name of another parameter.
    body = [t for i, token in enumerate(body) for t in by_place.get(i, [token])]
    if len(function.parameters) >= MANY and words & set(DECLARES.findall(_plain(function.body))):
        return None  # a name of its own is another's there
    inner = "".join(made) + "".join(t.space + t.text for t in body)
    several = bool(made) or len(split(body, {";"})) > 2  # those of a loop's head stand in brackets
    if before.text == ")" or (own & words):
        inner = f"{{\n{inner}\n}}" if several or own else inner
    note = f"\n{function.comment}" if function.comment and before.text != ")" and several else ""
    head, tail = items[:at], items[end + 2 :]
    return "".join(t.space + t.text for t in head) + f"{note}\n{inner}\n" + "".join(t.space + t.text for t in tail)
