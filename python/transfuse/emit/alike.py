"""Tensor-core kernels of one file: each has roles of its own, but for numbers and some statements they are one text.

The text stands once and is compiled for each kernel in a namespace of its own. Where kernels differ in numbers it says
PICK(…), one number for each of them; other lines stand between #if and #endif.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence

from transfuse.emit import tables_named
from transfuse.emit.builds import aligned
from transfuse.emit.chunks import Chunk
from transfuse.emit.text.tokens import tokens

SPACE = re.compile(r"\nnamespace (\w+)_ \{\n(.*?)\n\}\nusing \1_::\1;((?:\n#undef \w+)*)", re.S)
# Of a kernel's name, all names and the text for all of them: the text for this one.
SPACE_OF = "namespace {0}_ {{\n#define PICK({1}) {0}\n{2}#undef PICK\n}}\nusing {0}_::{0};\n"
BEGIN = re.compile(r"namespace (\w+)_ \{\n#define PICK\(([^)]*)\) \1\n")
EACH = '"".join(SPACE.format(kernel, ", ".join(KERNELS), ROLES) for kernel in KERNELS)'
NAME = "KERNEL"  # in place of the kernel's own


def is_dense(source: list[Chunk]) -> bool:
    return any("product_role" in c.names for c in source)


def read_together(sources: dict[str, list[tuple[str, list[Chunk]]]]) -> list[list[list[Chunk]]]:
    """Kernels whose text is simplified together, in all builds: every tensor-core kernel but the first is read by itself,
    since what its constants decide another's do not."""
    first = None
    together: dict[str, list[list[Chunk]]] = {}
    for list_ in sources.values():
        for name, source in list_:
            first = name if first is None and is_dense(source) else first
            together.setdefault(name if is_dense(source) and name != first else "", []).append(source)
    return list(together.values())


def one_text(text: str) -> str:
    """The text with kernels of tensor cores, each in its namespace, as one that is written for all of them."""
    spaces = [m for m in SPACE.finditer(text) if "product_role" in m[2]]
    if len(spaces) < 2:
        return text
    names = [m[1] for m in spaces]
    texts = _counted_alike([_operands_counted(re.sub(rf"\b{m[1]}\b", NAME, m[2])) for m in spaces])
    texts = tables_named.alike(texts)
    merged = _merged([text.split("\n") for text in texts], names)
    merged = re.sub(rf"\b{NAME}\b", f"PICK({', '.join(names)})", merged)
    compiled = [SPACE_OF.format(m[1], ", ".join(names), merged + "\n").rstrip("\n") + m[3] for m in spaces]
    for m in spaces[1:]:  # side by side, where the first was: they need nothing of what stood between them
        text = text.replace(m[0], "")
    return text.replace(spaces[0][0], "\n" + "\n".join(compiled))


def said_for_each(source: str) -> tuple[str, str]:
    """What Python defines of the text that several kernels have, and the source, in which an expression stands for all of them."""
    begun = BEGIN.search(source)
    if not begun:
        return "", source
    names = begun[2].split(", ")
    roles = source[begun.end() : source.index("#undef PICK", begun.end())]
    every = "".join(SPACE_OF.format(name, begun[2], roles) for name in names).rstrip("\n")
    if every not in source:
        return "", source
    why = "each compiled from ROLES in a namespace of its own, where PICK(…) chooses for it"
    defined = f'KERNELS = {json.dumps(names)}  # {why}\nSPACE = {json.dumps(SPACE_OF)}\nROLES = r"""\n{roles}"""\n'
    return defined, source.replace(every, EACH)


TOLD = re.compile(r"struct Operands \{(.*?)\};")
HEAD = re.compile(rf"__global__ void (?:__launch_bounds__\([^)]*\)) {NAME}\(([^)]*)\)")


def _counted_alike(texts: list[str]) -> list[str]:
    """Where roles of other kernels are told of operands, those of a kernel whose roles are told of none are counted behind them."""
    told = [len(re.findall(r"[ *]r\d+\b", found[1])) for text in texts if (found := TOLD.search(text))]
    out = []
    for text in texts:
        head = HEAD.search(text)
        if told and head and not TOLD.search(text):
            kernel = re.sub(r"\br(\d+)\b", lambda m: f"r{int(m[1]) + max(told)}", text[head.start() :])
            text = text[: head.start()] + kernel
        out.append(text)
    return out


def _operands_counted(text: str) -> str:
    """Operands that roles are told of are counted first, then those that the kernel itself reads."""
    told, head = TOLD.search(text), HEAD.search(text)
    if not told or not head:
        return text
    found = [n for part in (told[1], head[1]) for n in re.findall(r"[ *]r(\d+)\b", part)]
    new = {n: str(k) for k, n in enumerate(dict.fromkeys(found))}
    again = lambda m: f"{m[1]}{new.get(m[2], m[2])}"  # noqa: E731
    roles, kernel = text[: head.start()], text[head.start() :]
    roles = re.sub(
        r"(\boperands\.rs?)(\d+)\b", again, roles.replace(told[0], re.sub(r"(\brs?)(\d+)\b", again, told[0]))
    )
    return roles + re.sub(r"(\brs?)(\d+)\b", again, kernel)


def _merged(texts: list[list[str]], names: list[str]) -> str:
    """Declaration by declaration, in the order of the first that has each; those that the same kernels have, together."""
    lists = [_declarations(lines) for lines in texts]
    order: list[str] = []
    for list_ in lists:
        last = -1
        for key in list_:
            if key not in order:
                order.insert(last + 1, key)
            last = order.index(key)
    having = lambda key: tuple(i for i, list_ in enumerate(lists) if key in list_)  # noqa: E731
    out: list[str] = []
    for who, keys in itertools.groupby(order, having):
        lines = [line for key in keys for line in _beside({i: lists[i][key] for i in who}, names)]
        out += lines if len(who) == len(names) else [_condition(who, names), *lines, "#endif"]
    return "\n".join(out)


def _beside(found: dict[int, list[str]], names: list[str]) -> list[str]:
    """A declaration as the kernels that have it say it."""
    out: list[str] = []
    run: list[dict[int, str]] = []
    for entry in aligned(found):
        line = _one(entry, len(names)) if len(entry) == len(found) else None
        if line is None:
            run.append(entry)
            continue
        out += [*_branches(run, list(found), names), line]
        run = []
    return [*out, *_branches(run, list(found), names)]


def _declarations(lines: list[str]) -> dict[str, list[str]]:
    """Of each name what is declared by it, with the comment above."""
    out: dict[str, list[str]] = {}
    part: list[str] = []
    depth = 0
    for line in lines:
        part.append(line)
        code = re.sub(r'//.*|"(?:\\.|[^"\\])*"', "", line)
        depth += 0 if code.startswith("#") else sum(c in "([{" for c in code) - sum(c in ")]}" for c in code)
        if depth == 0 and code.rstrip().endswith((";", "}")):
            out.setdefault(_named("\n".join(part)), []).extend(part)
            part = []
    if part:
        out.setdefault("", []).extend(part)
    return out


def _named(text: str) -> str:
    code = re.sub(r"//.*", "", text)
    match = re.search(
        r"\b(?:struct|enum) (\w+)|\b(\w+)\(|\b(\w+)(?:\[\w*\])* =|typedef [^;]*?(\w+);",
        re.sub(r"__launch_bounds__\([^)]*\)", "", code),
    )
    return next((g for g in match.groups() if g), "") if match else code


def _one(entry: dict[int, str], count: int) -> str | None:
    """Lines that differ in numbers as one with choices in it; None where that cannot be."""
    lines = list(entry.values())
    if len(set(lines)) == 1 or lines[0].lstrip().startswith("//"):
        return lines[0]
    rows = [tokens(line) for line in lines]
    if lines[0].lstrip().startswith("#") or len({len(row) for row in rows}) > 1:
        return None
    out = ""
    for column in zip(*rows):
        texts = [t.text for t in column]
        if len(set(texts)) > 1 and not all(t.kind == "number" for t in column):
            return None
        by = dict(zip(entry, texts))
        each = ", ".join(by.get(i, texts[0]) for i in range(count))
        out += column[0].space + (texts[0] if len(set(texts)) == 1 else f"PICK({each})")
    return out


def _chosen(by: dict[int, tuple[str, ...]], count: int) -> list[str] | None:
    """Statements that give one thing different values as one with a choice in it."""
    rows = {i: tokens(" ".join(line.strip() for line in lines)) for i, lines in by.items()}
    texts = [[t.text for t in row] for row in rows.values()]
    same = next((k for k in range(min(map(len, texts))) if len({t[k] for t in texts}) > 1), 0)
    before = 1 + max((k for k in range(same) if texts[0][k] in ("=", "return")), default=-1)
    if not before or any(t.count(";") != texts[0][:before].count(";") + 1 or t[-1] != ";" for t in texts):
        return None
    values = {i: row[before:-1] for i, row in rows.items()}
    if not all(map(_expression, values.values())):
        return None
    said = {i: "".join(t.space + t.text for t in value).strip() for i, value in values.items()}
    most = max(by, key=lambda i: len(by[i]))
    *lines, last = by[most]
    if not last.endswith(f"{said[most]};"):
        return None
    return [*lines, f"{last.removesuffix(f'{said[most]};')}PICK({', '.join(said.get(i, '0') for i in range(count))});"]


def _expression(items: list) -> bool:
    """Whether these are one value: no statement ends within them, and no comma stands outside brackets."""
    depth = 0
    for token in items:
        depth += (token.text in "([{") - (token.text in ")]}")
        if depth < 0 or token.text in (";", "{", "}") or (token.text == "," and not depth):
            return False
    return bool(items) and depth == 0


def _branches(run: list[dict[int, str]], having: list[int], names: list[str]) -> list[str]:
    """Lines that kernels do not share, each for those that say them."""
    same: dict[tuple, list[int]] = {}
    for i in having if run else []:
        same.setdefault(tuple(entry[i] for entry in run if i in entry), []).append(i)
    groups = [(who, lines) for lines, who in same.items() if lines]
    if len(groups) > 1 and all(same):
        if found := _chosen({i: lines for who, lines in groups for i in who}, len(names)):
            return found
    out: list[str] = []
    for k, (who, lines) in enumerate(groups):
        last = k > 0 and k == len(same) - 1
        out += ["#else" if last else _condition(who, names, "el" * (k > 0)), *lines]
    return [*out, "#endif"] if out else []


def _condition(who: Sequence[int], names: list[str], other: str = "") -> str:
    return f"#{other}if PICK({', '.join(str(int(i in who)) for i in range(len(names)))})  // {', '.join(names[i] for i in who)}"
