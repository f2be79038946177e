"""Box sums: which places of an axis lie in a box is one question, whichever axis and box it is asked of."""

from __future__ import annotations

import re

BOUNDS = r"{i} >= \d+ && {i} <=? [a-z_]+(?: - \d+)?"
ASKED = re.compile(
    r"\n +bool (?P<name>in\d*)\[\d\]\[\d\];\n +UNROLL for \(int (?P<l>\w+) = 0; [^\n]*\{\n +const int (?P<i>\w+) = (?P<place>[^;\n]*);\n"
    rf"(?P<set>(?: +(?P=name)\[\d\]\[(?P=l)\] = {BOUNDS.format(i='(?P=i)')};\n)+) +\}}(?=\n)"
)
CHOSEN = re.compile(
    r"\((?P<which>\w+) == 0 \? (?P<i>\w+) (?=>= )(?P<all>"
    rf"[^?:()]*(?: : (?P=which) == \d+ \? {BOUNDS.format(i='(?P=i)')})* : {BOUNDS.format(i='(?P=i)')})\)"
)
BOUND = re.compile(r">= (?P<first>\d+) && \w+ (?P<how><=?) (?P<size>[a-z_]+)(?: - (?P<less>\d+))?")
FUNCTION = """// Whether place i of an axis of n lies in a box of it.
DEVICE bool tf_in_box(int box, int i, int n) {{ return {said}; }}
"""


def boxes(text: str) -> str:
    """Device code with a function for it, if all axes are asked alike."""
    asked, chosen = list(ASKED.finditer(text)), list(CHOSEN.finditer(text))
    forms = {_form(m["set"])[0] for m in asked} | {_form(m["all"])[0] for m in chosen}
    said = _said(forms.pop()) if len(forms) == 1 else None
    first = text.find("\n__global__ ")
    if len(asked) != 1 or said is None or first < 0:
        return text
    (m,) = asked
    end, size = text.index("\n}\n", m.end()), _form(m["set"])[1]
    read = rf"\b{m['name']}\[(\w+)\]\[(\w+)\]"
    body = re.sub(read, lambda r: f"tf_in_box({r[1]}, {_place(m, r[2])}, {size})", text[m.end() : end])
    text = text[: m.start()] + body + text[end:]
    text = CHOSEN.sub(lambda m: f"tf_in_box({m['which']}, {m['i']}, {_form(m['all'])[1]})", text)
    return text[: first + 1] + FUNCTION.format(said=said) + text[first + 1 :] if "tf_in_box(" in text else text


def _place(asked: re.Match, lane: str) -> str:
    place = re.sub(rf"\b{asked['l']}\b", lane, asked["place"])
    return place.removesuffix(" + 0")


def _form(text: str) -> tuple[tuple, str]:
    """Of each box how far it begins and ends from the axis's ends; and the axis's size."""
    found = list(BOUND.finditer(text))
    ends = tuple((int(m["first"]), int(m["less"] or 0) - (m["how"] == "<=")) for m in found)
    return ends, found[0]["size"] if len({m["size"] for m in found}) == 1 else ""


def _said(ends: tuple) -> str | None:
    begins, less = (_chosen([end[k] for end in ends]) for k in (0, 1))
    if begins is None or less is None:
        return None
    return f"i >= {begins} && i < n" + (f" - {less}" if less != "0" else "")


def _chosen(values: list[int]) -> str | None:
    """By the box's number: all alike, or one of them by one more."""
    if len(set(values)) == 1:
        return str(values[0])
    if sorted(values) == [0] * (len(values) - 1) + [1]:
        return f"(box == {values.index(1)})"
    return None
