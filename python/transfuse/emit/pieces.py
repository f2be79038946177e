"""Texts that stand several times in what is compiled, once in the file: runs of them become named strings."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass
class Piece:
    name: str
    text: str


def pieces(builds: dict[str, list[str]]) -> tuple[list[Piece], dict[str, list[str]]]:
    """Of each build its blocks in order. Returns the named strings, and of each build the names it is joined from.

    Blocks that always follow each other are one string: a run ends where two builds (or two places of one) go on differently.
    """
    before, after = {}, {}
    for blocks in builds.values():
        for left, right in zip([None, *blocks], [*blocks, None]):
            after.setdefault(left, set()).add(right)
            before.setdefault(right, set()).add(left)
    joined: dict[str, str] = {}  # first block of a run → its text
    order: list[str] = []
    runs: dict[str, list[str]] = {}
    for key, blocks in builds.items():
        list_, i = [], 0
        while i < len(blocks):
            first, text = blocks[i], [blocks[i]]
            while i + 1 < len(blocks) and len(after[blocks[i]]) == 1 and len(before[blocks[i + 1]]) == 1:
                i += 1
                text.append(blocks[i])
            if first not in joined:
                joined[first] = "\n".join(text)
                order.append(first)
            list_.append(first)
            i += 1
        runs[key] = list_
    taken: set[str] = set()
    names = {first: _name(joined[first], taken) for first in order}
    return [Piece(names[f], joined[f]) for f in order], {key: [names[f] for f in list_] for key, list_ in runs.items()}


def _name(text: str, taken: set[str]) -> str:
    kernels = re.findall(r"__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(", text)
    functions = re.findall(r"^(?:template [^\n]*?)?(?:static|TF_FUNCTION)[^\n(=]*?(\w+)\(", text, re.M)
    if kernels:
        name = kernels[-1]
    elif "tf_load" in functions or "tf_to" in functions:
        name = "arithmetic"
    elif functions:
        name = functions[-1].removeprefix("tf_")
    elif re.match(r"\s*namespace", text):
        name = "opening"
    else:
        name = "constants"
    name = base = name.upper()
    k = 2
    while name in taken:
        name, k = f"{base}_{k}", k + 1
    taken.add(name)
    return name
