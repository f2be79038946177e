"""Device code as tokens, with the space before each kept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*)|(?P<directive>\#(?:[^\n\\]|\\\n?)*)|(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<number>(?:0x[0-9a-fA-F]+|(?:\d+\.\d*|\.?\d+)(?:[eE][+-]?\d+)?)[uUlLfF]*)|(?P<word>[A-Za-z_]\w*)
    |(?P<operator><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|::|.)""",
    re.X,
)
SPACE = re.compile(r"\s*")
CLOSING = {"(": ")", "[": "]", "{": "}"}
DEPTH = {opening: 1 for opening in CLOSING} | {closing: -1 for closing in CLOSING.values()}  # what a token adds to it


def until_settled(pattern: re.Pattern, by, text: str) -> str:
    """The text with every match replaced, also those that a replacement makes."""
    last = ""
    while text != last:
        last, text = text, pattern.sub(by, text)
    return text


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    space: str  # before it


def tokens(text: str) -> list[Token]:
    return list(_tokens(text))


@lru_cache(1 << 14)
def _tokens(text: str) -> tuple[Token, ...]:
    """Kept: a declaration that one pass leaves as it is will be read by every later one."""
    found, at = [], 0
    while at < len(text):
        space = SPACE.match(text, at)[0]
        at += len(space)
        if at == len(text):
            break
        match = TOKEN.match(text, at)
        found.append(Token(match.lastgroup, match[0], space))
        at = match.end()
    return tuple(found)


def split(items: list[Token], by: set[str]) -> list[list[Token]]:
    """At the top level: nothing inside brackets."""
    parts, depth = [[]], 0
    for token in items:
        depth += DEPTH.get(token.text, 0)
        if depth == 0 and token.text in by and token.kind == "operator":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def closing(items: list[Token], at: int) -> int:
    depth = 0
    for i in range(at, len(items)):
        depth += DEPTH.get(items[i].text, 0)
        if depth == 0:
            return i
    raise ValueError("a bracket that is never closed")


def find(items: list[Token], text: str) -> int | None:
    depth = 0
    for i, token in enumerate(items):
        depth += DEPTH.get(token.text, 0)
        if depth == 0 and token.text == text:
            return i
    return None


def one_value(text: str) -> bool:
    """Whether no comma stands outside brackets."""
    return len(split(tokens(text), {","})) == 1
