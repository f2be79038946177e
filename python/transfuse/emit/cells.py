"""Box sums: the cells of an axis stand in a table that a thread writes; a long file says where a cell begins and ends where it is read."""

from __future__ import annotations

import re

TABLE = re.compile(
    r"\n *__shared__ int tf_cells\[\d+\];(.*?)\n *if \(threadIdx\.x == 0\) \{\s*"
    r"((?:tf_cells\[\d+\] = [^;]+;\s*)+)\}(\s*__syncthreads\(\);)?",
    re.S,
)
ROW = re.compile(r"const int (at\d*) = \(+(\w+) \* (\d)\)(?: \+ (\d+)\))?;")
MOST = 3  # cells of an axis


def plainly(text: str) -> str:
    """A kernel's text without its table of cells."""
    table = TABLE.search(text)
    if not table:
        return text
    values = re.findall(r"tf_cells\[\d+\] = ([^;]+);", table[2])
    rows = {m[1]: (m[0], m[2], int(m[3]), int(m[4] or 0)) for m in ROW.finditer(text) if f"tf_cells[{m[1]}" in text}
    begins = sorted({first for *_, first in rows.values()} | {len(values)})
    out = text.replace(table[0], table[1])
    for name, (said, which, columns, first) in rows.items():
        until = begins[begins.index(first) + 1]
        if until - first > MOST * columns:
            return text
        for column in range(columns):
            own = values[first + column : until : columns]
            out = re.sub(rf"tf_cells\[{name}{f' . {column}' if column else ''}\]", _chosen(which, own), out)
        out = out.replace(said, "")
    return text if "tf_cells" in out else _without_steps(out)


def _chosen(which: str, values: list[str]) -> str:
    if len({*values}) == 1:
        return values[0]
    *others, last = values
    return "".join(f"{which} == {i} ? {v} : " for i, v in enumerate(others)) + last


STEP = re.compile(r"const int (step\d*) = 1;")
FIRST = re.compile(r"(\w+) <= (\w+) \? \2 : \2 \+ \(\1 - \2 \+ 1 - 1\) / 1 \* 1\b")


def _without_steps(text: str) -> str:
    for name in STEP.findall(text):
        text = re.sub(rf"\b{name}\b", "1", text.replace(f"const int {name} = 1;", ""))
    text = FIRST.sub(r"max(\1, \2)", text)
    return re.sub(r"(?<=\)) / 1 \+ 1\b", " + 1", re.sub(r"(\w+) \* 1\b(?!\d)", r"\1", text))


PLACES = re.compile(
    r"\n *long long (\w+)\[\d+\];\s*#pragma unroll\s*for \(int (\w+) = [^{]*\{\s*"
    r"const int (\w+) = \((\w+) \+ \2\);\s*const int (\w+) = tf_quotient_of\(\3, per_(\w+)\);\s*"
    r"const int (\w+) = \(\3 - \(\5 \* \6\)\);\s*"
    r"\1\[\2\] = \(\((\w+) \+ \(\(long long\)\7 \* 1\)\) \+ \(\(long long\)\5 \* \6\)\);\s*\}"
)


def whole_places(text: str) -> str:
    """Of columns that lie in memory one behind the other: the place itself, where a row and a column of it were added up."""
    for match in list(PLACES.finditer(text)):
        name, lane, _, column, _, _, _, first = match.groups()
        text = re.sub(rf"\b{name}\[{lane}\]", f"{first} + {column} + {lane}", text.replace(match[0], ""))
    return text
