"""Jobs of a kernel for elements: those for the same elements are one, and those that take one block come first."""

from __future__ import annotations

import re

JOB = re.compile(
    r" *(?:else )?(?:if \(block\d* < [^\n]*?\) )?tf_each\([^\n{}]*, (?P<n>[\w *]+), \[&\]\(int i\) \{ (?P<does>[^\n{}]*;) \}\);"
)
JOBS = re.compile(
    r"(?m)^(?P<I> +)(?P<turns>for \(int (?P<b>block\d*) = [^\n]*; (?P=b) < |EACH\((?P<c>block\d*), )"
    r"\((?P<n>\w+) \+ (?P<more>\d+)\) / (?P<by>\d+)(?P<on>(?:;|\)) [^\n]*\{)\n(?P<jobs>(?:(?P=I)    (?:else |if )[^\n]*;\n)+)(?P=I)\}$"
)


def same_elements(text: str) -> str:
    """Device code. Blocks that have no job any more do nothing: the kernel's turns end before them."""
    return JOBS.sub(_one_job, text)


def _one_job(m: re.Match) -> str:
    jobs, block = [JOB.fullmatch(line) for line in m["jobs"].rstrip("\n").split("\n")], m["b"] or m["c"]
    many = [(job["n"], job["does"]) for job in jobs if job and not job["n"].isdigit()]
    few: dict[str, str] = {}
    for job in jobs:
        if job and job["n"].isdigit():
            few[job["n"]] = f"{few.get(job['n'], '')} {job['does']}".strip()
    if not all(jobs) or len(many) != 1 or any(int(n) > 256 for n in few):
        return m[0]
    lines = []
    for k, (n, does) in enumerate([*few.items(), *many]):
        if does.count("sum(i)") > 1 and not re.search(r"\ba\b", does):
            does = f"const double a = sum(i); {does.replace('sum(i)', 'a')}"
        asked = "" if k == len(few) else f"if ({block} == {k}) "
        at = 0 if asked else f"{block} - {k}" if k else block
        lines.append(f"{m['I']}    {'else ' if k else ''}{asked}tf_each({at}, {n}, [&](int i) {{ {does} }});")
    more = int(m["more"]) - int(m["by"]) * (len(jobs) - 1 - len(few))
    turns = f"{m['I']}{m['turns']}({m['n']} + {more}) / {m['by']}{m['on']}"
    return "\n".join([turns, *lines, f"{m['I']}}}"])
