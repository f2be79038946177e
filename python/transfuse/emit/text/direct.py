"""Plain kernels: a number that has a line of its own and is read once stands where it is read."""

from __future__ import annotations

import re

from transfuse.emit.text.layout import WIDTH
from transfuse.emit.text.tokens import one_value

OWN_LINE = re.compile(r"( *)const (?:int|long long|bool) (\w+) = ([^;]*);")
DECLARED = re.compile(r" *const (?:int|long long|bool|float|double|auto) [^;]*;")
FUNCTION = re.compile(r"(?m)^(?:__global__|DEVICE|template) [^\n]*\{\n(?:[ #][^\n]*\n)+\}")
GIVEN = {"min", "max", "int", "long", "unsigned", "threadIdx", "blockIdx", "gridDim", "x", "bool", "true", "false"}


def direct(text: str) -> str:
    """Device code. Roles of tensor-core kernels stay as they are."""
    return FUNCTION.sub(
        lambda m: m[0] if re.search(r"\basm\b|\bBarriers?\b|shared_address", m[0]) else _told(m[0]), text
    )


def _told(function: str) -> str:
    lines, i = function.split("\n"), 1
    while i < len(lines):
        match = OWN_LINE.fullmatch(lines[i])
        new = _read_there(lines, i, match) if match and one_value(match[3]) else None
        lines, i = (new, max(1, i - 1)) if new else (lines, i + 1)
    return "\n".join(lines)


def _read_there(lines: list[str], i: int, match: re.Match) -> list[str] | None:
    indent, name, value = match.groups()
    uses = [(k, m) for k, line in enumerate(lines) for m in re.finditer(rf"\b{name}\b", line) if k != i]
    if len(uses) != 1 or uses[0][0] < i or "//" in lines[i]:
        return None
    k, use = uses[0]
    if re.match(r" *(?:for|while) \(", lines[k]) or not (_behind(lines, i, k, indent) or _lasting(lines, value)):
        return None
    line = lines[k]
    before, after = line[: use.start()], line[use.end() :]
    alone = re.fullmatch(r"\w+|\w+\((?:[^()]|\([^()]*\))*\)", value) or (
        re.search(r"[\[(,] ?$|= $|\? $", before)
        and re.match(r"[\]),;]| \?", after)
        and not re.search(r"\w\)$|[*&]\)\($", before)
    )
    value = value if alone else f"({value})"
    new = f"{before}{value}{after}"
    room = WIDTH if len(line) <= WIDTH else 2 * WIDTH - 24  # a line that will be broken anyway
    return [*lines[:i], *lines[i + 1 : k], new, *lines[k + 1 :]] if len(new) <= room else None


def _behind(lines: list[str], i: int, k: int, indent: str) -> bool:
    """Whether declarations alone stand between, and it is read by one or by the statement behind them."""
    between = lines[i + 1 : k]
    return all(DECLARED.fullmatch(line) for line in between) and re.match(rf"{indent}\S", lines[k]) is not None


def _lasting(lines: list[str], value: str) -> bool:
    """Whether everything that it is computed from stays as it is: constants and what the kernel was given."""
    if re.search(r"\[|->", value):
        return False
    text = "\n".join(lines[1:])
    head = lines[0]
    for name in set(re.findall(r"\b[A-Za-z_]\w*", value)) - GIVEN:
        told = re.search(rf"\b{name}\b", head)
        made = len(re.findall(rf"(?m)^ *const (?:int|long long|bool) (?:[^;]*, )?{name} = ", text))
        changed = re.search(rf"(?:\+\+|--)\s*{name}\b|\b{name}\s*(?:\+\+|--|[-+*/|&]=)|(?<!const )\bint {name}\b", text)
        set_ = len(re.findall(rf"\b{name} = ", text))
        if changed or set_ != made or made > 1 or not (told or made):
            return False
    return True
