"""Axes that borders cut into segments: where one begins is a formula, and of the runs of chunks a thread each says what it is."""

from __future__ import annotations

import re

PRELUDE = re.compile(
    r"(?P<shared>(?:\n    __shared__ int (?:tf_\w+\[[^\]]*\](?:, )?)+;)+)\n    if \(threadIdx\.x == 0\) \{\n"
    r"(?P<set>(?: +(?:tf_\w+\[\d+\] = [^;\n]*; ?|tf_runs<[^;\n]*;)+\n)+)    \}(?=\n)"
)
EDGES = re.compile(r"(tf_\w+)\[(\d+)\] = ([^;\n]*);")
RUNS = re.compile(r"tf_runs<(\d+), (\d+)>\((tf_\w+), (tf_\w+)_begin, \4_end, \4_segment\);")
FUNCTION = re.compile(r"(?://[^\n]*\n)*template <int SEGMENTS, int CHUNK> DEVICE void tf_runs\(.*?\n\}\n", re.S)
OF_RUNS = """// An axis of n in {count} segments: where one begins. Its runs of chunks: beside every cut one chunk, between them one;
// of each the first segment it meets and how many.
DEVICE int tf_edge(int segment, int n) {{ return segment < {first} ? segment : n - {count} + segment; }}
struct Run {{ int begin, end, segment, segments; }};
template <int CHUNK> DEVICE Run tf_run_of(int run, int n) {{
    int begin = 0, end = 0, segment = 0;
    for (int r = 0; r <= run; ++r) {{
        const int until = r < {last} ? tf_edge(r / 2 + 1, n) / CHUNK * CHUNK + r % 2 * CHUNK : n;
        begin = end, end = max(end, min(until, n));
    }}
    while (segment + 1 < {count} && tf_edge(segment + 1, n) <= begin) ++segment;
    int beyond = segment;
    while (beyond < {count} && tf_edge(beyond, n) < end) ++beyond;
    return {{begin, end, segment, begin < end ? beyond - segment : 0}};
}}
"""


def cuts(text: str) -> str:
    """Device code in which no thread writes tables of edges: all axes are cut alike, near their ends."""
    preludes = list(PRELUDE.finditer(text))
    forms = {_form(list_) for m in preludes for list_ in _edges(m["set"]).values()}
    if not preludes or len(forms) != 1 or None in forms or not FUNCTION.search(text):
        return text
    ((first, count),) = forms
    out = text
    for m in reversed(preludes):
        end = text.index("\n}\n", m.end())
        new = _without_tables(m, text[m.end() : end], count)
        if new is None:
            return text
        out = out[: m.start()] + new + out[end:]
    said = OF_RUNS.format(first=first, count=count, last=2 * count - 2)
    return FUNCTION.sub(lambda _: said, out)


def _edges(set_: str) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for name, i, value in EDGES.findall(set_):
        out.setdefault(name, []).append(value)
        if int(i) + 1 != len(out[name]):
            return {name: []}
    return out


def _form(edges: list[str]) -> tuple[int, int] | None:
    """How many segments begin at their own number, and how many there are; the others are counted from the axis's end."""
    count = len(edges) - 1
    first = next((i for i, edge in enumerate(edges) if edge != str(i)), 0)
    behind = [edges[-1] if i == count else f"{edges[-1]} - {count - i}" for i in range(first, count + 1)]
    return (first, count) if first and edges[first:] == behind and re.fullmatch(r"[a-z_]+", edges[-1]) else None


def _without_tables(prelude: re.Match, body: str, count: int) -> str | None:
    sizes = {name: edges[-1] for name, edges in _edges(prelude["set"]).items()}
    runs = {run: (chunk, sizes[axis]) for _, chunk, axis, run in RUNS.findall(prelude["set"])}
    for name, size in sizes.items():
        body = _called(body, name, size)
    chosen = re.search(rf", \*(\w+) = (\w+ == 0 \? [^;]*\b(?:{'|'.join(sizes)})\b[^;]*);", body)
    if chosen:
        by = re.sub(rf"\b(?:{'|'.join(sizes)})\b", lambda m: sizes[m[0]], chosen[2])
        body = _called(body.replace(chosen[0], f", size = {by};"), chosen[1], "size")
    for run in runs:
        body = re.sub(rf"\b{run}_(begin|end)\[(\w+)\]", rf"{run}[\2].\1", body)
        body = re.sub(rf"\b{run}_segment\[2 \* (\w+) \+ 1\]", rf"{run}[\1].segments", body)
        body = re.sub(rf"\b{run}_segment\[2 \* (\w+)\]", rf"{run}[\1].segment", body)
    others = [d for d in re.findall(r"tf_\w+(?=\[)", prelude["shared"]) if not d.startswith((*runs, *sizes))]
    if others or re.search(rf"\b(?:{'|'.join(sizes)})\b|\b(?:{'|'.join(runs) or '@'})_", body):
        return None
    if not runs:
        return body if "__shared__" in body else body.replace("\n    __syncthreads();", "", 1)
    number = 2 * count - 1
    said = ", ".join(f"{run}[threadIdx.x] = tf_run_of<{chunk}>(threadIdx.x, {n})" for run, (chunk, n) in runs.items())
    return f"\n    __shared__ Run {', '.join(f'{run}[{number}]' for run in runs)};\n    if (threadIdx.x < {number}) {said};{body}"


def _called(text: str, table: str, size: str) -> str:
    """table[i] as tf_edge(i, size)."""
    while match := re.search(rf"\b{table}\[", text):
        depth, at = 1, match.end()
        while depth:
            depth += (text[at] == "[") - (text[at] == "]")
            at += 1
        text = f"{text[: match.start()]}tf_edge({text[match.end() : at - 1]}, {size}){text[at:]}"
    return text
