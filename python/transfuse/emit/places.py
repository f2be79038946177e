"""Tables that say where things lie, as formulas of what is looked up in them, where few words say as much."""

from __future__ import annotations

import re
from dataclasses import replace

from transfuse.emit.chunks import Chunk

TABLE = re.compile(r"(?://[^\n]*\n)*__constant__ int (\w+)\[\] = \{([-\d,\s]*)\};[^\n]*")


def formula(values: list[int], index: str) -> str | None:
    """a·(i / r) + b·(i % r) + c for values at i = 0, 1, …"""
    first = values[0]
    for r in range(1, len(values)):
        a, b = values[r] - first, values[1] - first if r > 1 else 0
        if all(v == first + i // r * a + i % r * b for i, v in enumerate(values)):
            terms = [(f"{index} / {r}" if r > 1 else index, a), (f"{index} % {r}", b)]
            said = " + ".join(text if times == 1 else f"{text} * {times}" for text, times in terms if times)
            return said + (f" + {first}" if first > 0 else f" - {-first}" if first else "") if said else str(first)
    return None


def places_said(source: list[Chunk]) -> list[Chunk]:
    """A kernel's text with its windows, and the reach of its slabs, said so."""
    for name, change in (("windows", _windows), ("slab_reaches", _reaches)):
        table = next((c for c in source if TABLE.fullmatch(c.text.strip()) and name in c.names), None)
        readers = [c for c in source if c is not table and name in c.words]
        if table is None or len(readers) != 1:
            continue
        values = [int(v) for v in TABLE.fullmatch(table.text.strip())[2].split(",")]
        text = change(readers[0].text, values)
        if text is not None and not re.search(rf"\b{name}\b", text):
            source = [replace(c, text=text) if c is readers[0] else c for c in source if c is not table]
    return source


WINDOW = re.compile(r"const int\* window = windows \+ (\w+) \* (\d+);")


def _windows(text: str, values: list[int]) -> str | None:
    match = WINDOW.search(text)
    if not match or len(values) % (each := int(match[2])):
        return None
    rows = [values[i : i + each] for i in range(0, len(values), each)]
    said = formula([row[0] for row in rows], match[1])
    if said is None or any(v != row[0] + j for row in rows for j, v in enumerate(row)):
        return None
    text = text.replace(match[0], f"const int window = {said};  // its first pixel")
    return re.sub(r"\bwindow\[(\w+)\]", r"window + \1", text)


REACH = re.compile(r"const int\* reach = slab_reaches \+ 4 \* (\w+);[^\n]*")


def _reaches(text: str, values: list[int]) -> str | None:
    match, values = REACH.search(text), values[:-4]  # behind the last slab there is none
    if not match or values[0::4] != values[1::4] or values[2::4] != values[3::4]:
        return None
    deep, high = formula(values[0::4], match[1]), formula(values[2::4], match[1])
    if deep is None or high is None:
        return None
    text = text.replace(match[0], f"const int d = {deep}, h = {high};  // its shift along d, along h")
    return re.sub(r"\breach\[([0-3])\]", lambda m: "d" if int(m[1]) < 2 else "h", text)
