"""What blocks of several plain kernels do alike: a function that is called with their pointers and sizes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from transfuse.emit.text.beginnings import KERNEL, Kernel
from transfuse.emit.text.signature import name_of

# A branch's elements, one lambda of several lines; or its operand tiles, in braces.
EACH = re.compile(
    r"(?P<I>(?m:^) *)(?P<head>[^\n]*?)tf_each\((?P<block>block\d*(?: - \d+)?), (?P<count>\w+), \[&\]\(int i\) \{\n"
    r"(?P<body>(?:(?P=I) +[^\n]*\n)+?)(?P=I)\}\);"
)
TILES = re.compile(
    r"(?P<head>else(?: if \([^\n]*\))? )\{\n(?P<I> +)    const int (?P<alias>block\d*) = (?P<block>block\d* - \d+);\n"
    r"(?P<body>(?P=I)    (?P<note>// Operand tiles: [^\n]*)\n(?:(?P=I)    [^\n]*\n)+?)(?P=I)\}"
)
SEGMENTS = [  # of two segments, rows that lie side by side: by eight, or half of all
    (re.compile(r"segment = row / 8 % 2, within = row / 16 \* \(16 / 2\) \+ row % \(16 / 2\)"), "8"),
    (re.compile(r"segment = row / 32, within = row % 32"), "32"),
]
RUN = "segment = row / RUN % 2, within = row / (2 * RUN) * RUN + row % RUN"
LOCAL = re.compile(r"\b(?:int|float|double) (\w+)(?= = |\[)|, (\w+)(?= = )")


@dataclass
class Piece:
    kernel: Kernel
    match: re.Match
    lines: list[str]
    told: str  # what stands in <…> where it is called
    given: list[str]  # parameters of the kernel, as they come
    key: str

    @property
    def tiles(self) -> bool:
        return "note" in self.match.groupdict()


def shared_pieces(text: str) -> str:
    """Device code in which pieces that stand several times are functions."""
    while group := _worthwhile(text):
        text = _shared(text, group)
    return text


def _worthwhile(text: str) -> list[Piece] | None:
    groups: dict[tuple, list[Piece]] = {}
    for match in KERNEL.finditer(text):
        if "__CUDA_ARCH" not in match[0]:
            for piece in _pieces(Kernel(match)):
                groups.setdefault((piece.key, piece.tiles or piece.match["count"]), []).append(piece)
    return next((group for group in groups.values() if _saves(group) > 0 and _taken(group)), None)


def _saves(group: list[Piece]) -> int:
    own = len(group[0].lines) + (4 if group[0].tiles else 5)
    return sum(p.match[0].count("\n") for p in group) - own


def _pieces(kernel: Kernel):
    body = "\n".join(kernel.lines)
    for pattern in (EACH, TILES):
        for match in pattern.finditer(body):
            lines, told = _statements(match["body"], match["I"]), ""
            if pattern is TILES:
                lines, told = _by_runs(lines[1:], match["alias"])
            lines = [re.sub(r"= \(double\)\((\(float\)[^;]*)\);", r"= \1;", line) for line in lines]
            given = [w for w in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", "\n".join(lines))) if w in kernel.names]
            yield Piece(kernel, match, lines, told, given, _key(lines, given))


def _key(lines: list[str], given: list[str]) -> str:
    """What pieces that are alike have in common: parameters and names of their own are counted as they come."""
    own = dict.fromkeys(a or b for line in lines for a, b in LOCAL.findall(line))
    names = {n: f"@{i}" for i, n in enumerate(given)} | {n: f"%{i}" for i, n in enumerate(own)}
    word = re.compile(rf"(?<![.\w])(?:{'|'.join(names)})\b")
    return word.sub(lambda m: names[m[0]], re.sub(r";\n *const int ", ", ", "\n".join(lines)))


def _statements(body: str, indent: str) -> list[str]:
    return [line[len(indent) + 4 :] for line in body.rstrip("\n").split("\n")]


def _by_runs(lines: list[str], alias: str) -> tuple[list[str], str]:
    text, told = re.sub(rf"\b{alias}\b", "block", "\n".join(lines)), ""
    for pattern, run in SEGMENTS:
        if pattern.search(text):
            text, told = pattern.sub(RUN, text), run
    return text.split("\n"), told


def _type(piece: Piece, name: str) -> str:
    said = piece.kernel.parameters[piece.kernel.names.index(name)]
    return said[: -len(name)]


def _taken(group: list[Piece]) -> tuple[list[str], list[str]] | None:
    """What the function is told in <…> and takes; None where pieces take other things than pointers of different types."""
    first = group[0]
    told, taken = ["int RUN"] * any(p.told for p in group), []
    for i, name in enumerate(first.given):
        types = {_type(p, p.given[i]) for p in group}
        if len(types) == 1:
            taken.append(f"{types.pop()}{name}")
        elif all("*" in t for t in types) and len({t.startswith("const ") for t in types}) == 1:
            told.append("class " + "T" * (1 + sum(t.startswith("class") for t in told)))
            taken.append(f"{'const ' * types.pop().startswith('const ')}{told[-1].split()[1]}* {name}")
        else:
            return None
    return told, taken


def _named(text: str, first: Piece) -> str:
    """After the kernel that has it first; operand tiles by their own name."""
    kind = re.sub(r"^(?:train|eval|forward|backward)_", "", first.kernel.name)
    names = [*["operand_tiles"] * first.tiles, *(f"{kind}_{k}" for k in range(1, 100))]
    return next(n for n in names if not re.search(rf"\b{n}\b", text))


def _shared(text: str, group: list[Piece]) -> str:
    first, name = group[0], _named(text, group[0])
    told, taken = _taken(group)
    template = f"template <{', '.join(told)}> " if told else ""
    head = f"{template}DEVICE void {name}(int block, {', '.join(taken)}) {{"
    inside = [f"    {line}" for line in first.lines]
    if first.tiles:
        note = first.match["note"] + (" RUN: rows of a segment side by side." if told else "")
        function = [note, head, *inside, "}"]
    else:
        loop = f"    tf_each(block, {first.match['count']}, [&](int i) {{"
        function = [head, loop, *(f"    {line}" for line in inside), "    });", "}"]
    for kernel in {p.kernel.name: p.kernel for p in group}.values():
        new = kernel.text
        for p in group:
            if p.kernel.name == kernel.name:
                run = f"<{p.told}>" if p.told else ""
                said = f"{p.match['head']}{name}{run}({', '.join([p.match['block'], *p.given])});"
                new = new.replace(p.match[0], said if p.tiles else f"{p.match['I']}{said}", 1)
        new = re.sub(rf"(?m)^( +)([^\n]*\b{name}[^\n]*\);) else\b", r"\1\2\n\1else", new)
        text = text.replace(kernel.text, new)
    at = text.index(next(m[0] for m in KERNEL.finditer(text) if m[2] == first.kernel.name))
    return text[:at] + "\n" + "\n".join(_from_and_to(function, taken)) + "\n" + text[at:]


def _from_and_to(lines: list[str], taken: list[str]) -> list[str]:
    """Where it reads one pointer and writes another, they are called so."""
    pointers = [p for p in taken if "*" in p]
    read = [p.split()[-1] for p in pointers if p.startswith("const ")]
    written = [name_of(p) for p in pointers if not p.startswith("const ")]
    if len(read) != 1 or len(written) != 1:
        return lines
    names = {read[0]: "from", written[0]: "to"}
    return [re.sub(rf"\b(?:{'|'.join(names)})\b", lambda m: names[m[0]], line) for line in lines]
