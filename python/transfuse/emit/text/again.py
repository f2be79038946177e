"""Kernels that differ in a factor: said once."""

from __future__ import annotations

import re

from transfuse.emit.launches import Told

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
