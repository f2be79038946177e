"""Numbers that were divided and put together again, and kernels that differ in a factor: said once."""

from __future__ import annotations

import re

from transfuse.emit.launches import Told
from transfuse.emit.text.layout import WIDTH

PARTS = re.compile(
    r"(?P<q>\w+) = (?P<a>\w+) / (?P<n>\d+), (?P<r>\w+) = (?P=a) - (?P=q) \* (?P=n)(?=[,;])",
)


ANY_KERNEL = re.compile(r"\n__global__ [^\n]*\{\n.*?\n\}(?=\n|\Z)", re.S)


def numbers_again(text: str) -> str:
    """Device code in which a number is read whole that was divided into quotient and remainder and put together again."""
    return ANY_KERNEL.sub(lambda kernel: _whole(kernel[0]), text)


def _whole(kernel: str) -> str:
    for m in list(PARTS.finditer(kernel)):
        q, r, n = m["q"], m["r"], int(m["n"])
        said = kernel.replace(f"({q} * {n} + {r})", m["a"])
        for by, times in re.findall(rf"\b{q} \* (\d+) \+ {r} \* (\d+)\b", said):
            if int(by) == n * int(times):
                said = said.replace(f"{q} * {by} + {r} * {times}", f"{m['a']} * {times}")
        if len(re.findall(rf"\b(?:{q}|{r})\b", said)) == 3:  # the declaration alone
            kernel = TOGETHER.sub(_together, re.sub(rf", {re.escape(m[0])}(?=[,;])", "", said))
    return kernel


TOGETHER = re.compile(r"(?m)^( *const int [^\n;]*);\n *const int ([^\n;]*;)$")


def _together(m: re.Match) -> str:
    line = f"{m[1]}, {m[2]}"
    return line if len(line) <= WIDTH else m[0]


STORES = re.compile(
    r"\n__global__ (?P<void>void __launch_bounds__\([^)]*\)) (?P<name>\w+)\((?P<given>[^)]*)\) (?P<body>\{\n.*?\n\})(?=\n|\Z)",
    re.S,
)
FACTOR = "double scale"
RESULT = re.compile(r"(?:^|(?<=, ))(double|float)\*(?= \w+)")


def factors_told(text: str, told: Told) -> str:
    """Device code in which kernels that differ in a factor of what they store, and in how wide it is, are one: it is told 1.0 for the one
    that has none."""
    kernels = list(STORES.finditer(text))
    for plain in kernels:
        for scaled in kernels:
            without = re.sub(r" \* scale(?=;)", "", scaled["body"])
            if scaled["void"] != plain["void"] or without != plain["body"] or scaled["body"].count(" * scale;") != 1:
                continue
            wide, narrow = RESULT.findall(plain["given"]), RESULT.findall(scaled["given"])
            given = RESULT.sub("S*", scaled["given"])
            if len(wide) != 1 or len(narrow) != 1 or given != f"{RESULT.sub('S*', plain['given'])}, {FACTOR}":
                continue
            count = plain["given"].count(",") + 1
            told.instead[plain["name"]] = f"{plain['name']}<{wide[0]}>", [*range(count), "1.0"]
            told.instead[scaled["name"]] = f"{plain['name']}<{narrow[0]}>", [*range(count + 1)]
            one = f"\ntemplate <class S> __global__ {plain['void']} {plain['name']}({given}) {scaled['body']}"
            return factors_told(text.replace(plain[0], one).replace(scaled[0], ""), told)
    return text
