"""Sums that a kernel forms again in each of its jobs: said once, and asked for where they are read."""

from __future__ import annotations

import re

SUM = re.compile(
    r"\n +double (?P<a>a\d*) = 0\.0;\n +for \(int (?P<r>r\d*) = 0; (?P=r) < (?P<count>\w+); \+\+(?P=r)\) (?P=a) \+= (?P<term>[^\n;]*);"
)
KERNEL = re.compile(r"\n__global__ [^\n]*\{\n(?P<first>    TF_\w+\(\);\n)(?P<body>.*?)\n\}(?=\n|\Z)", re.S)
PLACE = re.compile(r"\bi(?: % \d+)?(?=\])")
ONE_LINE = re.compile(r"\{\n +([^\n{};]*(?:\([^\n]*\))?[^\n{};]*;)\n +\}\);")


def sums_again(text: str) -> str:
    """Device code in which several jobs of a kernel read the same sums over r, at places i or i % n."""
    return KERNEL.sub(_said, text)


def _said(kernel: re.Match) -> str:
    sums = list(SUM.finditer(kernel["body"]))
    places = [PLACE.findall(m["term"]) for m in sums]
    terms = {(m["count"], PLACE.sub("i", re.sub(rf"\b{m['r']}\b", "r", m["term"]))) for m in sums}
    reads = [len(re.findall(rf"\b{m['a']}\b", kernel["body"])) for m in sums]
    if len(sums) < 2 or len(terms) > 1 or any(len(p) != 1 for p in places) or any(n != 3 for n in reads):
        return kernel[0]
    ((count, term),), body = terms, kernel["body"]
    if len(re.findall(r"\bi\b", term)) != 1 or re.search(r"\bsum\b", body):
        return kernel[0]
    for m, (place,) in zip(sums, places):
        body = re.sub(rf"\b{m['a']}\b", f"sum({place})", body.replace(m[0], "", 1))
    body = ONE_LINE.sub(r"{ \1 });", body)
    said = (
        f"    const auto sum = [&](int i) {{\n        double a = 0.0;\n"
        f"        for (int r = 0; r < {count}; ++r) a += {term};\n        return a;\n    }};\n"
    )
    return kernel[0].replace(kernel["first"] + kernel["body"], kernel["first"] + said + body)
