"""Elements as their types convert them, and tables as what they say."""

from __future__ import annotations

import re
from dataclasses import replace

from transfuse.emit.chunks import Chunk


CONVERSIONS = {"tf_to", "tf_from", "tf_load", "tf_store", "tf_half", "tf_bfloat"}

CONVERSIONS |= {"tf_half_to_float", "tf_float_to_half", "tf_float_to_bfloat", "tf_bfloat_to_float"}

UNIT = re.compile(r"[*]?[\w.]+(?:[\[(].*[\])])?", re.S)

CONVERTED = re.compile(r"\btf_(?:(load|to)<(\w+)>|(store|from))\(")


def converted(chunk: Chunk) -> Chunk:
    """Conversions that the element types do by themselves: loads, stores and assignments as they are."""
    text = re.sub(r"\btf_half\b", "STORED", chunk.text)
    return replace(chunk, text=_plain(text)) if not chunk.macro else chunk


def _plain(text: str) -> str:
    out, at = "", 0
    for match in CONVERTED.finditer(text):
        if match.start() < at:
            continue
        depth, end = 1, match.end()
        cuts = []
        while depth:
            depth += (text[end] in "([{") - (text[end] in ")]}")
            if text[end] == "," and depth == 1:
                cuts.append(end)
            end += 1
        inner = [_plain(part.strip()) for part in _cut(text[match.end() : end - 1], [c - match.end() for c in cuts])]
        simple = re.fullmatch(r"\w+", inner[0])
        element = f"*{inner[0]}" if simple else _element(inner[0])
        if match[1]:
            new = element if match[1] == "load" else inner[0]
            declared = re.search(rf"(?:\b{match[2]} |, )\w+ = (?:\({match[2]}\))?$", text[at : match.start()])
            if not (declared and text[end : end + 1] in (";", ",")) and not text[: match.start()].endswith(
                f"({match[2]})"
            ):
                new = f"({match[2]}){new}" if UNIT.fullmatch(new) else f"({match[2]})({new})"
        else:
            new = f"{element if match[3] == 'store' else inner[0]} = {inner[1]}"
        out += text[at : match.start()] + new
        at = end
    return out + text[at:]


TABLE = re.compile(r"__device__ const int ((?:tf_)?table_\d+)\[\] = \{([-\d,\s]+)\};")


def tables_as_functions(source: list[Chunk]) -> list[Chunk]:
    """Tables whose numbers go up or down in steps, over and over, become what they say."""
    found = {}
    for chunk in source:
        if (match := TABLE.fullmatch(chunk.text.strip())) and (
            text := _stepping([int(n) for n in match[2].split(",")])
        ):
            found[match[1]] = f"static __device__ __forceinline__ int {match[1]}(int i) {{ return {text}; }}"
    out = []
    for chunk in source:
        name = next(iter(chunk.names & set(found)), None)
        text = found[name] if name else _called(chunk.text, found)
        out.append(replace(chunk, text=text, function=chunk.function or name is not None))
    return out


def _stepping(numbers: list[int]) -> str | None:
    """base + step · (i / run mod turns), for twelve numbers and more."""
    run = next((i for i, n in enumerate(numbers) if n != numbers[0]), 0)
    if not run:
        return str(numbers[0])
    if len(numbers) < 12:
        return None
    base, step, count = numbers[0], numbers[run] - numbers[0], -(-len(numbers) // run)
    turns = next((k for k in range(1, count) if numbers[k * run] == base), count)
    if any(n != base + step * (i // run % turns) for i, n in enumerate(numbers)):
        return None
    place = ("i" if run == 1 else f"i / {run}") + (f" % {turns}" if turns < count else "")
    scaled = (
        place
        if abs(step) == 1
        else f"{place} * {abs(step)}"
        if turns == count and run == 1
        else f"{abs(step)} * ({place})"
    )
    return f"{base} - {scaled}" if step < 0 else f"{base} + {scaled}" if base else scaled


def _called(text: str, names: dict[str, str]) -> str:
    """Elements of tables that are functions now."""
    for name in names:
        while (at := text.find(f"{name}[")) >= 0:
            begin, depth = at + len(name), 0
            for end in range(begin, len(text)):
                depth += (text[end] == "[") - (text[end] == "]")
                if not depth:
                    break
            text = f"{text[:begin]}({text[begin + 1 : end]}){text[end + 1 :]}"
    return text


def _cut(text: str, at: list[int]) -> list[str]:
    return [text[a:b] for a, b in zip([0, *(c + 1 for c in at)], [*at, len(text)])]


def _element(pointer: str) -> str:
    """p + i as p[i]."""
    match = re.fullmatch(r"([\w.]+) \+ (.*)", pointer, re.S)
    return f"{match[1]}[{match[2]}]" if match else f"*({pointer})"
