"""The transposition of raw boxes, said briefly: what a kernel's numbers decide of its loops."""

from __future__ import annotations

import re
from dataclasses import replace

from transfuse.emit.chunks import Chunk
from transfuse.emit.text.values import constants

PASSES = re.compile(
    r"#pragma unroll 1\n(?P<I> +)for \(int (?P<i>\w+) = (?P<begin>[^;\n]+); (?P=i) < (?P<end>[^;\n]+); (?P=i) \+= (?P<step>\w+)"
    r"(?:, \w+ \+= [^;,()\n]*)+\)\n(?P<body>(?:(?P=I)    [^\n]*\n)+)"
)
PLACE = r"(?:\(turn \+ f\)|f) \* TRANSPOSERS \+ t"
LAST = re.compile(rf"min\(({PLACE}), WORDS - 1\)")
BEYOND = re.compile(r"\n +if \(p >= WORDS\) continue;")
ALIAS = re.compile(rf"const int p = ({PLACE}), to = p;(.*)", re.S)
USED_ONCE = re.compile(
    rf"(?m)^(?P<I> *)(?P<loop>UNROLL for [^\n]*) \{{\n +const int p = (?P<p>{PLACE});\n +(?P<one>[^\n]*;)\n(?P=I)\}}\n"
)
BUFFERS = re.compile(r"\n *// Each warpgroup has buffers of its own\.[^\n]*(?=\n)")


def transposed(source: list[Chunk]) -> list[Chunk]:
    known = {
        n: v for n, v in constants("\n".join(c.text for c in source if not c.kernel)).items() if isinstance(v, int)
    }
    out = []
    for c in source:
        text = c.text
        if "transpose" in c.names and not c.macro:
            text = _places(_passed_once(text, known), known)
        if "product_role" in c.names and "first_slot" not in text:
            text = BUFFERS.sub("", text)
        out.append(c if text == c.text else replace(c, text=text))
    return out


def _passed_once(text: str, known: dict[str, int]) -> str:
    """Without the loop over parts of a box, where it is one part."""

    def said(m: re.Match) -> str:
        own = known | dict(_own(text, known))
        passes = [_value(f"(({m['end']}) - ({m['begin']})) / {m['step']}", own | {"piece": k}) for k in (0, 1)]
        if passes != [1, 1] or re.search(rf"\b{m['i']}\b", m["body"]):
            return m[0]
        return re.sub(r"(?m)^    ", "", m["body"])

    return PASSES.sub(said, text)


def _own(text: str, known: dict[str, int]):
    """Constants of the function itself."""
    for line in re.findall(r"constexpr int ([^;\n]*);", text):
        for name, value in re.findall(r"(\w+) = ([^,]+)", line):
            if (number := _value(value, known)) is not None:
                yield name, number


def _value(expression: str, known: dict[str, int]) -> float | None:
    words = set(re.findall(r"[A-Za-z_]\w*", expression))
    if words - set(known) or not re.fullmatch(r"[\w +*/()-]+", expression):
        return None
    return eval(expression, {}, dict(known))


def _places(text: str, known: dict[str, int]) -> str:
    """A thread's word in a turn: all have one in the last turn too, where turns and words match."""
    if (words := known.get("WORDS")) and words % known.get("TRANSPOSERS", words + 1) == 0:
        text = BEYOND.sub("", LAST.sub(r"\1", text))
    if (alias := ALIAS.search(text)) and "beside" not in text:
        text = text.replace(alias[0], f"const int p = {alias[1]};" + re.sub(r"\bto\b", "p", alias[2]))

    def said(m: re.Match) -> str:
        if len(re.findall(r"\bp\b", m["one"])) != 1:
            return m[0]
        place = m["p"] if re.search(r"\+ p\b(?! \*)", m["one"]) else f"({m['p']})"
        line = re.sub(r"\bp\b", place, m["one"])
        return f"{m['I']}{m['loop']}\n{m['I']}    {line}\n"

    return USED_ONCE.sub(said, text)
