"""Kernels that begin alike: what they have in common is a function, and what each does with it is its own."""

from __future__ import annotations

import itertools
import re

from transfuse.emit.text.signature import name_of

KERNEL = re.compile(r"\n__global__ void (__launch_bounds__\([^)]*\)) (\w+)\(([^)]*)\) \{\n(.*?)\n\}(?=\n|\Z)", re.S)
LEAST = 12  # lines that are worth a function
TYPED = re.compile(r"(?:const )?(int|bool|float|double) (\w+)((?:\[\w+\])*)(?= = |;)")
FURTHER = re.compile(r", (\w+) = ")


class Kernel:
    def __init__(self, match: re.Match):
        self.text, self.bounds, self.name, signature, body = match[0], match[1], match[2], match[3], match[4]
        self.parameters = [p.strip() for p in re.sub(r"\s+", " ", signature).split(",")]
        self.names = [name_of(p) for p in self.parameters]
        self.lines = body.split("\n")

    def canonical(self, count: int | None = None) -> tuple[list[str], dict[str, str]]:
        """The first lines with parameters counted as they come; and how each is counted."""
        seen: dict[str, str] = {}
        word = re.compile(rf"(?<![.\w])(?:{'|'.join(map(re.escape, self.names))})\b")
        lines = [word.sub(lambda m: seen.setdefault(m[0], f"@{len(seen)}"), line) for line in self.lines[:count]]
        return lines, seen


def shared_beginnings(text: str) -> str:
    while True:
        kernels = [Kernel(m) for m in KERNEL.finditer(text) if "__CUDA_ARCH" not in m[0]]
        found = [(cut, a, b) for a, b in itertools.combinations(kernels, 2) if (cut := _cut(a, b)) >= LEAST]
        new = _shared(text, *max(found, key=lambda f: f[0])) if found else None
        if new is None:
            return text
        text = new


def _cut(a: Kernel, b: Kernel) -> int:
    """How many lines they begin with alike; what is open behind them is closed by the last lines, and by nothing else."""
    same = 0
    for mine, other in zip(a.canonical()[0], b.canonical()[0]):
        if mine != other or mine.lstrip().startswith("return"):
            break
        same += 1
    while same and not _closes(a, b, same):
        same -= 1
    return same


def _closes(a: Kernel, b: Kernel, count: int) -> bool:
    depth = sum(map(_depth, a.lines[:count]))
    for k in (a, b):
        tail, ends = k.lines[count : len(k.lines) - depth], k.lines[len(k.lines) - depth :]
        if (
            not tail
            or tail[0].lstrip().startswith("else")
            or not _balanced(tail)
            or any(line.strip() != "}" for line in ends)
        ):
            return False
    return a.lines[count - 1].rstrip().endswith((";", "}", "{"))


def _depth(line: str) -> int:
    return line.count("{") - line.count("}")


def _balanced(lines: list[str]) -> bool:
    depths = list(itertools.accumulate(map(_depth, lines)))
    return min(depths) >= 0 and depths[-1] == 0


def _locals(lines: list[str]) -> dict[str, str]:
    """Names that are declared and still seen behind these lines, each with how a function is given it."""
    scopes: list[dict[str, str]] = [{}]
    for line in lines:
        code = re.sub(r"//.*", "", line)
        names: dict[str, str] = {}
        for match in TYPED.finditer(code):
            names[match[2]] = f"{match[1]} (&{match[2]}){match[3]}" if match[3] else f"{match[1]} {match[2]}"
            if not code.lstrip().startswith(("for", "UNROLL", "if")):
                names |= {n: f"{match[1]} {n}" for n in FURTHER.findall(code[match.end() :])}
        depth = _depth(code)
        scopes += [{} for _ in range(max(depth, 0))]
        del scopes[len(scopes) + min(depth, 0) :]
        if depth > 0 or not code.lstrip().startswith(("for", "UNROLL", "if")):
            scopes[-1] |= names
    return {name: said for scope in scopes for name, said in scope.items()}


def _shared(text: str, cut: int, a: Kernel, b: Kernel) -> str | None:
    head = a.lines[:cut]
    depth = sum(map(_depth, head))
    words = [set(re.findall(r"[A-Za-z_]\w*", "\n".join(k.lines[cut:]))) for k in (a, b)]
    own = {n: said for n, said in _locals(head).items() if n in words[0] | words[1]}
    hidden = set(re.findall(r"__shared__[^;]*?(\w+)\[", "\n".join(head))) & (words[0] | words[1])
    if hidden or set(own) & {*a.names, *b.names}:
        return None
    counted, others = a.canonical(cut)[1], {alias: name for name, alias in b.canonical(cut)[1].items()}
    told = [(p, n) for p, n in zip(a.parameters, a.names) if n in counted]
    given = {a.name: [n for _, n in told], b.name: [others[counted[n]] for _, n in told]}
    types = lambda k: [re.sub(r"\w+$", "", p) for n in given[k.name] for p, m in zip(k.parameters, k.names) if m == n]  # noqa: E731
    if types(a) != types(b):
        return None
    name = re.sub(r"^[a-z]+_|_\d+$", "", a.name)
    while re.search(rf"\b{name}\b", text):
        name += "_begun"
    indent = "    " * (depth + 1)
    function = [
        f"// What {a.name} and {b.name} have in common; `rest` is what each does with it.",
        f"template <class Rest> DEVICE void {name}({', '.join(p for p, _ in told)}, Rest rest) {{",
        *head,
        f"{indent}rest({', '.join(own)});",
        *["    " * (d + 1) + "}" for d in reversed(range(depth))],
        "}",
    ]
    for k in (a, b):
        tail = [
            line.replace("    ", "", depth - 1) if line.startswith(indent) else line
            for line in k.lines[cut : len(k.lines) - depth]
        ]
        call = f"    {name}({', '.join(given[k.name])}, [&]({', '.join(own.values())}) {{"
        kernel = f"\n__global__ void {k.bounds} {k.name}({', '.join(k.parameters)}) {{\n" + "\n".join(
            [call, *tail, "    });", "}"]
        )
        text = text.replace(k.text, ("\n" + "\n".join(function) + "\n" if k is a else "") + kernel)
    return text
