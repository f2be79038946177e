"""One text for several arithmetics: what differs between them is a choice the compiler makes.

Lines that differ in numbers alone say PICK(…) there; others stand between #if and #endif.
"""

from __future__ import annotations

import difflib
import re
from itertools import pairwise

from transfuse.emit.text.tokens import Token, tokens

FLAGS = {"fp32": "", "wide": "WIDE", "strict": "STRICT", "half": "HALF"}  # what the compiler is told


def merged(texts: dict[str, str]) -> str:
    """Of each build its text; the first is what is compiled where no flag is given."""
    if len(texts) == 1:
        return _grouped(next(iter(texts.values())))
    entries = [_everywhere(entry, texts) for entry in aligned({key: text.split("\n") for key, text in texts.items()})]
    lines = [_one(list(entry.values())) if len(entry) == len(texts) else None for entry in entries]
    out: list[str] = []
    run: list[dict[str, str]] = []
    for entry, line, after in zip(entries, lines, [*lines[1:], ""]):
        if line is None or (after is None and line.lstrip().startswith("#pragma")):  # it stands with the loop behind it
            run.append(entry)
            continue
        out += [*_branches(run, list(texts)), line]
        run = []
    text = _grouped("\n".join([*out, *_branches(run, list(texts))]))
    return f"{_definition(list(texts))}\n{text}" if "PICK(" in text else text


def _definition(keys: list[str]) -> str:
    """What is stored has two bytes in the build for 16 bits alone."""
    names = ", ".join(FLAGS[k].lower() or "tf32" for k in keys)
    last = "(sizeof(STORED) == 4 ? tf32 : half)" if "half" in keys else "tf32"
    cases = [
        f"#{'el' if i else ''}if defined({FLAGS[k]})\n#define PICK({names}) {FLAGS[k].lower()}"
        for i, k in enumerate(k for k in keys[1:] if k != "half")
    ]
    otherwise = f"#define PICK({names}) {last}"
    return "\n".join([*cases, "#else", otherwise, "#endif"]) if cases else otherwise


# A constant, a table of numbers, or a function of a number: what needs nothing else.
NAMED = re.compile(
    r"constexpr int (\w+) = -?\d+;|__constant__ int (\w+)\[\d*\] = \{[-\d, ]*\};(?: *//.*)?"
    r"|DEVICE int (\w+)\(int (\w+)\) \{ return (?:[-+*/%(), \d]|\b(?:\4|min|max)\b)*; \}"
)


def _everywhere(entry: dict[str, str], texts: dict[str, str]) -> dict[str, str]:
    """A header, or a declaration that the other builds have no word of, may stand in all of them."""
    line, others = next(iter(entry.values())), [text for key, text in texts.items() if key not in entry]
    found = NAMED.fullmatch(line)
    name = next(filter(None, found.groups())) if found else None
    unread = name and not any(re.search(rf"\b{name}\b", text) for text in others)
    return {key: entry.get(key, line) for key in texts} if unread or line.startswith("#include ") else entry


def _skeleton(line: str) -> str:
    return re.sub(r"\b\d+(?:ull|ll|u)?\b", "#", line).replace("float", "STORED")


def aligned(lines: dict[str, list[str]]) -> list[dict[str, str]]:
    """Lines of all builds in one order, those beside each other that are alike."""
    entries: list[dict[str, str]] = []
    for key, mine in lines.items():
        if not entries:
            entries = [{key: line} for line in mine]
            continue
        theirs = [_skeleton(next(iter(entry.values()))) for entry in entries]
        found = []
        match = difflib.SequenceMatcher(None, theirs, [_skeleton(line) for line in mine], autojunk=False)
        for _, a, b, c, d in match.get_opcodes():
            same = theirs[a:b] == [_skeleton(line) for line in mine[c:d]]
            found += entries[a:b] if not same else [{**e, key: line} for e, line in zip(entries[a:b], mine[c:d])]
            found += [{key: line} for line in mine[c:d]] if not same else []
        entries = found
    return entries


def _one(lines: list[str]) -> str | None:
    """Lines that differ in numbers as one with choices in it; None where that cannot be."""
    if len(set(lines)) == 1 or lines[0].lstrip().startswith("//"):
        return lines[0]
    if lines[0].lstrip().startswith("#"):
        return None
    rows = [tokens(line) for line in lines]
    if len({len(row) for row in rows}) > 1:
        return None
    out = ""
    for column in zip(*rows):
        texts = [t.text for t in column]
        out += column[0].space + (texts[0] if len(set(texts)) == 1 else _picked(column))
    return None if "\0" in out else out


def _picked(column: tuple[Token, ...]) -> str:
    texts = [t.text for t in column]
    if set(texts) == {"float", "STORED"}:  # what is stored is float there
        return "STORED"
    return f"PICK({', '.join(texts)})" if all(t.kind == "number" for t in column) else "\0"


def _branches(run: list[dict[str, str]], keys: list[str]) -> list[str]:
    if not run:
        return []
    texts = {key: [entry[key] for entry in run if key in entry] for key in keys}
    _joined(texts, keys)
    groups: dict[tuple, list[str]] = {}
    for key in reversed(keys):
        groups.setdefault(tuple(texts[key]), []).append(key)
    plain = tuple(texts[keys[0]])
    others = {lines: group for lines, group in groups.items() if lines != plain}
    out: list[str] = []
    for lines, group in others.items():
        if lines:
            out += [f"#{'el' if out else ''}if {' || '.join(f'defined({FLAGS[k]})' for k in group)}", *lines]
    if plain:
        absent = " && ".join(f"!defined({FLAGS[k]})" for k in others.get((), []))
        out += [f"#{'el' if out else ''}if {absent}" if absent else "#else", *plain]
    return [*out, "#endif"]


def _joined(texts: dict[str, list[str]], keys: list[str]) -> None:
    """Builds whose lines differ in numbers alone say them as one, though another build says something else."""
    if len(keys) < 3:
        return
    for i, key in enumerate(keys):
        alike = [
            k for k in keys[i:] if texts[k] and [_skeleton(t) for t in texts[k]] == [_skeleton(t) for t in texts[key]]
        ]
        if len(alike) < 2 or len(alike) == len(keys) or all(texts[k] == texts[key] for k in alike):
            continue
        rows = [[texts[k if k in alike else key][n] for k in keys] for n in range(len(texts[key]))]
        lines = [_one(row) for row in rows]
        if None not in lines:
            for k in alike:
                texts[k] = list(lines)


CONSTANT = re.compile(r"constexpr int (\w+ = (?:-?\d+|-?PICK\([-\d, ]*\)));")


def _grouped(text: str) -> str:
    """Neighbouring constants share lines."""
    out: list[str] = []
    for line in text.split("\n"):
        match = CONSTANT.fullmatch(line)
        if match and out and out[-1].startswith("constexpr int ") and len(out[-1]) + len(match[1]) < 147:
            if CONSTANT.match(out[-1].split(",")[0].rstrip(";") + ";") or "PICK" in out[-1]:
                out[-1] = f"{out[-1][:-1]}, {match[1]};"
                continue
        out.append(line)
    return "\n".join(out)


SHORTEST = 8  # lines that are worth a name


def shared(text: str) -> tuple[dict[str, str], list[str]]:
    """Runs of lines that stand in the text several times, named; and what the text is joined from: names and pieces of it."""
    pieces: list[list[str] | str] = [text.split("\n")]
    named: dict[str, str] = {}
    while (run := _repeated([p for p in pieces if isinstance(p, list)])) is not None:
        name = _name(run, named)
        named[name] = "\n".join(run)
        pieces = [part for piece in pieces for part in (_cut(piece, run, name) if isinstance(piece, list) else [piece])]
    return named, [piece if isinstance(piece, str) else "\n".join(piece) for piece in pieces]


def _repeated(pieces: list[list[str]]) -> list[str] | None:
    """The run of whole declarations that saves most lines if it stands once."""
    places: dict[tuple, list[tuple[int, int]]] = {}
    for p, lines in enumerate(pieces):
        for i in range(len(lines) - SHORTEST + 1):
            if lines[i] and not lines[i].startswith((" ", "}", "#el", "#endif")):
                places.setdefault(tuple(lines[i : i + SHORTEST]), []).append((p, i))
    runs: set[tuple] = set()
    for found in places.values():
        for (p, i), (q, j) in pairwise(found):
            length, most = 0, j - i if p == q else len(pieces[p])
            while (
                length < most
                and i + length < len(pieces[p])
                and j + length < len(pieces[q])
                and pieces[p][i + length] == pieces[q][j + length]
            ):
                length += 1
            run = _whole(pieces[p][i : i + length])
            if len(run) >= SHORTEST:
                runs.add(tuple(run))
    text = "\n\0\n".join("\n".join(lines) for lines in pieces)
    saved = {run: len(run) * (text.count("\n".join(run)) - 1) for run in runs}
    return list(max(sorted(runs), key=saved.get)) if runs else None


def _whole(lines: list[str]) -> list[str]:
    """Up to the last line at which no brace and no condition is open."""
    depth, ends, asked = 0, 0, []  # asked: the depth at conditions that are open
    for i, line in enumerate(lines):
        if line.startswith("#if"):
            asked.append(depth)
        elif line.startswith("#el") and asked:
            depth = asked[-1]
        elif line.startswith("#endif") and asked:
            asked.pop()
        elif not line.startswith("#"):
            depth += line.count("{") - line.count("}")
        if depth < 0:
            break
        if depth == 0 and not asked and line.endswith((";", "}", "#endif")):
            ends = i + 1
    return lines[:ends]


def _cut(lines: list[str], run: list[str], name: str) -> list[list[str] | str]:
    out: list[list[str] | str] = []
    begin = i = 0
    while i + len(run) <= len(lines):
        if lines[i : i + len(run)] == run:
            out += [lines[begin:i], name]
            begin = i = i + len(run)
        else:
            i += 1
    return [*out, lines[begin:]]


def _name(run: list[str], taken: dict[str, str]) -> str:
    text = "\n".join(run)
    found = re.findall(r"^(?:template [^\n]*?)?(?:static|TF_\w+|struct)[^\n(={]*?(\w+) ?[({]", text, re.M)
    otherwise = (
        "CONSTANTS" if all(line.startswith("constexpr") for line in run) else "PRODUCTS" if " += " in text else "COMMON"
    )
    name = base = "ROLES" if "product_role" in found else found[-1].upper() if found else otherwise
    count = 2
    while name in taken:
        name, count = f"{base}_{count}", count + 1
    return name
