"""What a function's parameters are called."""

from __future__ import annotations

from transfuse.emit.text.tokens import Token


def named(items: list[Token]) -> str | None:
    """The name of a parameter; None where it has none."""
    for a, b, c in zip(items, items[1:], items[2:]):
        if a.text == "&" and b.kind == "word" and c.text == ")":
            return b.text
    plain = [t for t in items[: next((i for i, t in enumerate(items) if t.text == "["), len(items))]]
    words = [t for t in plain if t.kind == "word" and t.text not in ("const", "__restrict__")]
    return plain[-1].text if len(words) > 1 and plain[-1].kind == "word" else None


def name_of(parameter: str) -> str:
    """The name of a parameter that is declared by words: of `const float* x` x."""
    return parameter.split()[-1].lstrip("*&")
