"""Rows that a block adds up: what is asked of them twice is asked once, and a warp's sum stands where it is taken."""

from __future__ import annotations

import re
import textwrap

# A loop that runs as long as there are rows needs nobody to ask whether there are any.
ASKED = re.compile(
    r"(?m)^(?P<I> *)if \((?P<n>\w+) > 0\)\n"
    r"(?P<loop>(?P=I)    for \(int (?P<t>\w+) = 0; (?P=t) < (?P=n); [^\n]*\{\n(?:(?P=I)     [^\n]*\n)*(?P=I)    \})$"
)
# Where there were none, zeros are added up.
CHOSEN = re.compile(
    r"(?m)^(?P<I> *)const double (?P<total>\w+) = (?P<n>\w+) > 0 \? tf_warp_sum\((?P<sum>\w+)\) : 0\.0;\n"
)
SUM = re.compile(
    r"(?m)^(?://[^\n]*\n)*DEVICE double tf_warp_sum\(double v\) \{\n +(for [^\n]*) v \+= ([^\n]*\bv\b[^\n]*);\n +return v;\n\}\n"
)


def streams(text: str) -> str:
    """Device code; the sum over a warp is a function where several kernels take it."""
    text = ASKED.sub(lambda m: textwrap.indent(textwrap.dedent(m["loop"]), m["I"]), text)
    function, taken = SUM.search(text), list(CHOSEN.finditer(text))
    if not function or len(taken) != 1 or len(re.findall(r"\btf_warp_sum\b", text)) != 2:
        return text
    m = taken[0]
    kernel = text[text.rfind("\n}\n", 0, m.start()) : m.start()]
    if not re.search(rf"(?m)^{m['I']}double {m['sum']} = 0\.0;$", kernel):
        return text
    by = re.sub(r"\bv\b", m["sum"], function[2])
    note = "  // in a fixed order: lane 0 has it"
    text = text.replace(function[0], "").replace(m[0], f"{m['I']}{function[1]} {m['sum']} += {by};{note}\n")
    return re.sub(rf"\b{m['total']}\b", m["sum"], text)
