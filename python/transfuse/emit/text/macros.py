"""Macros that a function defines for itself, written out."""

from __future__ import annotations

import re

from transfuse.emit.text.tokens import Token, closing, split, tokens

MACRO = re.compile(r"#define (\w+)(?:\(([^)]*)\))? ?(.*)")


def expanded(items: list[Token]) -> list[Token]:
    """Macros that a function defines for itself, written out."""
    macros: dict[str, tuple[list[str] | None, list[Token]]] = {}
    out: list[Token] = []

    def expand(run: list[Token]) -> list[Token]:
        found, i = [], 0
        while i < len(run):
            token = run[i]
            if token.kind != "word" or token.text not in macros:
                found.append(token)
                i += 1
                continue
            names, body = macros[token.text]
            given = {}
            i += 1
            if names is not None:
                end = closing(run, i)
                given = dict(zip(names, (expand(a) for a in split(run[i + 1 : end], {","}))))
                i = end + 1
            text: list[Token] = []
            for part in body:
                if part.text in given:
                    inner = given[part.text]
                    text += [Token(inner[0].kind, inner[0].text, part.space), *inner[1:]]
                else:
                    text.append(part)
            text = expand(text)
            found += [Token(text[0].kind, text[0].text, token.space), *text[1:]]
        return found

    pending: list[Token] = []
    for token in items:
        match = MACRO.match(token.text) if token.kind == "directive" else None
        if match or token.text.startswith("#undef"):
            out += expand(pending)
            pending = []
            if match:
                names = [n.strip() for n in match[2].split(",")] if match[2] is not None else None
                macros[match[1]] = names, tokens(match[3])
        else:
            pending.append(token)
    return out + expand(pending)
