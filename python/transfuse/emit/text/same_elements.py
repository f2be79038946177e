"""Jobs of a kernel: those for the same elements are one, and those that take a fixed number of blocks come first."""

from __future__ import annotations

import re

TURNS = re.compile(
    r"(?m)^(?P<I> +)(?P<turns>for \(int (?P<b>block\d*) = [^\n]*; (?P=b) < |EACH\((?P<c>block\d*), )"
    r"(?:\((?P<n>\w+) \+ (?P<more>\d+)\) / (?P<by>\d+)|(?P<all>\d+))(?P<on>(?:;|\)) [^\n]*\{)\n"
    r"(?P<jobs>(?:(?P=I)    (?:else |if )[^\n]*\n(?:(?P=I)     [^\n]*\n|(?P=I)    \}[^\n]*\n)*)+)(?P=I)\}$"
)
JOB = re.compile(
    r" *(?:else )?(?:if \(block\d* < (?P<to>[^\n]*?)\) )?(?:"
    r"tf_each\([^\n{}]*, (?P<n>[\w *]+), \[&\]\(int i\) \{(?: (?P<one>[^\n{}]*;) |\n(?P<several>(?: [^\n]*;\n)+) *)\}\);"
    r"|(?P<sums>tf_sums<\d+>)\([^\n,]*, (?P<rest>[^\n]*;))"
)
NAMES = re.compile(r"\b(?:double|float|int) (\w+) = ")


def same_elements(text: str) -> str:
    """Device code. Blocks that have no job any more do nothing: the kernel's turns end before them."""
    return TURNS.sub(_one_job, text)


def _one_job(m: re.Match) -> str:
    texts = re.split(rf"\n(?={m['I']}    else )", m["jobs"].rstrip("\n"))
    jobs, block = [JOB.fullmatch(text) for text in texts], m["b"] or m["c"]
    if not all(jobs):
        return m[0]
    many = [job for job in jobs if job["n"] and not job["n"].isdigit()]
    few: dict[str, list[str] | None] = {}  # of elements that a block has, what is done for them
    count = 0
    for job in jobs:
        if job["n"] and job["n"].isdigit():
            few[job["n"]] = _both(few.get(job["n"], []), _lines(job))
            count += 1
    sums = [(job["sums"], job["rest"], _blocks(jobs, k, m["all"])) for k, job in enumerate(jobs) if job["sums"]]
    if any(int(n) > 256 or not does for n, does in few.items()) or not few or not all(n for *_, n in sums):
        return m[0]
    if len(many) != (m["all"] is None):
        return m[0]
    calls, first = [], 0  # each with the block behind its last
    for n, does in few.items():
        calls.append((f"tf_each(0, {n}, {_said(does, m['I'])}", first + 1))
        first += 1
    for sum_, rest, blocks in sums:
        calls.append((f"{sum_}({block} - {first}, {rest}", first + blocks))
        first += blocks
    calls += [(f"tf_each({block} - {first}, {job['n']}, {_said(_lines(job), m['I'])}", 0) for job in many]
    if len(calls) == 1:
        return f"{m['I']}if (blockIdx.x == 0) {calls[0][0]}"
    lines = []
    for k, (call, end) in enumerate(calls):
        asked = f"if ({block} {f'== {k}' if k < len(few) else f'< {end}'}) " if k + 1 < len(calls) else ""
        lines.append(f"{m['I']}    {'else ' if k else ''}{asked}{call}")
    less = count - len(few)
    total = f"({m['n']} + {int(m['more']) - int(m['by']) * less}) / {m['by']}" if m["n"] else str(first)
    return "\n".join([f"{m['I']}{m['turns']}{total}{m['on']}", *lines, f"{m['I']}}}"])


def _blocks(jobs: list[re.Match], k: int, total: str | None) -> int:
    """How many a job has, where all have a fixed number of them, else none."""
    ends = [job["to"] for job in jobs[:-1]] + [total or ""]
    return int(ends[k]) - (int(ends[k - 1]) if k else 0) if all(end and end.isdigit() for end in ends) else 0


def _lines(job: re.Match) -> list[str]:
    return [line.strip() for line in (job["one"] or job["several"].rstrip("\n")).split("\n")]


def _both(one: list[str] | None, other: list[str]) -> list[str] | None:
    """What two jobs do; what both compute first, by whatever names, is computed once. None where they mean other things by a name."""
    if not one:
        return None if one is None else other
    again, names = 0, {}
    for mine, theirs in zip(one, other):
        known = {**names, **dict(zip(NAMES.findall(theirs), NAMES.findall(mine)))}
        if not NAMES.search(mine) or _renamed(theirs, known) != mine:
            break
        again, names = again + 1, known
    rest = [_renamed(line, names) for line in other[again:]]
    changed = "|".join(names.values())
    if names and re.search(
        rf"\b(?:{changed}) [-+*/]?= ", "\n".join(one[again:] + rest)
    ):  # it was not all that is computed
        rest = other
    taken = {name for line in one for name in NAMES.findall(line)}
    return None if taken & {name for line in rest for name in NAMES.findall(line)} else [*one, *rest]


def _renamed(line: str, names: dict[str, str]) -> str:
    return re.sub(r"\b[a-z]\w*\b", lambda m: names.get(m[0], m[0]), line)


def _said(does: list[str], indent: str) -> str:
    if not any(NAMES.search(line) for line in does):
        return f"[&](int i) {{ {' '.join(does)} }});"
    return "\n".join(["[&](int i) {", *(f"{indent}        {line}" for line in does), f"{indent}    }});"])
