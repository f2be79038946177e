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
from transfuse.emit.builds.choices import in_turn
from transfuse.emit.chunks import Chunk
from transfuse.emit.text.signature import name_of
from transfuse.emit.text.tokens import tokens

SPACE = re.compile(r"\nnamespace (\w+)_ \{\n(.*?)\n\}\nusing \1_::\1;((?:\n#undef \w+)*)", re.S)
# Of a kernel's name, all names and the text for all of them: the text for this one.
SPACE_OF = "namespace {0}_ {{\n#define PICK({1}) {0}\n{2}#undef PICK\n}}\nusing {0}_::{0};\n"
# Until the file is put together the text stands once, between these lines.
FOR_EACH = re.compile(r"#pragma for_each (?P<names>[^\n]*)\n(?P<roles>.*?)#pragma for_each end\n?", re.S)
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


def one_text(text: str, order: dict[str, list[int | str]] | None = None) -> str:
    """The text with kernels of tensor cores, each in its namespace, as one that is written for all of them. order: to be told of
    each kernel which of its parameters come in turn, "0" for one that others alone read."""
    spaces = [m for m in SPACE.finditer(text) if "product_role" in m[2]]
    if len(spaces) < 2:
        return text
    names = [m[1] for m in spaces]
    texts = _counted_alike([_operands_counted(re.sub(rf"\b{m[1]}\b", NAME, m[2])) for m in spaces])
    texts = tables_named.alike(texts)
    if order is not None:
        texts, taken = one_signature([_first_role(t, text) for t in texts])
        order.update(zip(names, taken))
    merged = _merged([text.split("\n") for text in texts], names)
    merged = re.sub(rf"\b{NAME}\b", f"PICK({', '.join(names)})", merged)
    for m in spaces[1:]:  # side by side, where the first was: they need nothing of what stood between them
        text = text.replace(m[0], "")
    undefined = "".join(dict.fromkeys(line + "\n" for m in spaces for line in m[3].split("\n") if line))
    each = f"\n#pragma for_each {', '.join(names)}\n{merged}\n{undefined}#pragma for_each end"
    return text.replace(spaces[0][0], each)


def as_compiled(text: str) -> str:
    """The text for each of its kernels in turn, as the compiler sees it."""
    return FOR_EACH.sub(
        lambda m: "".join(SPACE_OF.format(name, m["names"], m["roles"]) for name in m["names"].split(", ")), text
    )


def said_for_each(source: str) -> tuple[str, str]:
    """What Python defines of the text that several kernels have, and the source, in which an expression stands for all of them."""
    begun = FOR_EACH.search(source)
    if not begun:
        return "", source
    names = begun["names"].split(", ")
    why = "each compiled from ROLES in a namespace of its own, where PICK(…) chooses for it"
    defined = f"KERNELS = {json.dumps(names)}  # {why}\nSPACE = {json.dumps(SPACE_OF)}\n"
    defined += f'ROLES = r"""\n{begun["roles"]}"""\n'
    return defined, source.replace(begun[0], EACH + "\n")


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


def _first_role(text: str, file: str) -> str:
    """Which of the product warpgroups one is, its roles counted in numbers."""
    known = re.search(r"\bSTORE_GROUPS = (\d+)\b", f"{text}\n{file}")
    return text.replace("role - STORE_GROUPS - 1", f"role - {int(known[1]) + 1}") if known else text


def one_signature(texts: list[str]) -> tuple[list[str], list[list[int | str]]]:
    """The texts with kernels, and functions of theirs, that are all told the same, though some do not read all of it; and of each kernel
    which of its own parameters come in turn. Results have one name in all of them."""
    texts = [_result_named(text) for text in texts]
    heads = [_told(HEAD.search(text)[1]) for text in texts]
    every = _union(heads)
    if every is None:
        return texts, [list(range(len(head))) for head in heads]
    out = []
    for text in texts:
        head = HEAD.search(text)
        out.append(text[: head.start(1)] + ", ".join(every) + text[head.end(1) :])
    for name in set(FUNCTIONS.findall(out[0])).intersection(*(FUNCTIONS.findall(text) for text in out[1:])):
        out = _told_alike(out, name, {name_of(p) for p in every})
    return out, [[head.index(p) if p in head else _nothing(p) for p in every] for head in heads]


STRUCT = re.compile(r"(?:const )?(?:__grid_constant__ )?([A-Z]\w*) \w+")


def _nothing(parameter: str) -> str:
    """What a kernel is given for a parameter that it does not read."""
    struct = STRUCT.fullmatch(parameter)
    return f"{struct[1]}{{}}" if struct and struct[1] != "STORED" else "0"


FUNCTIONS = re.compile(r"(?m)^(?:static __device__|DEVICE) void (\w+)\(")
RESULT = "y0"


def _told(parameters: str) -> list[str]:
    return [p.strip() for p in parameters.split(",") if p.strip()]


def _result_named(text: str) -> str:
    """The one result of a kernel, by the name that results have."""
    results = re.findall(r"(?:^|, )float\* (\w+)", HEAD.search(text)[1])
    if len(results) != 1 or re.search(rf"\b{RESULT}\b", text):
        return text
    return re.sub(rf"\b{results[0]}\b", RESULT, text)


def _union(lists: list[list[str]]) -> list[str] | None:
    """All parameters, those of the longest list in its order; None where one name has two types."""
    every = in_turn([max(lists, key=len), *lists])
    names = [p.split()[-1] for p in every]
    return every if len(set(names)) == len(names) else None


def _told_alike(texts: list[str], name: str, known: set[str]) -> list[str]:
    """A function that kernels call with more or less: what it lacks is added where all of them know it."""
    definition = re.compile(rf"(?m)^(?:static __device__|DEVICE) void {name}\(([^()]*)\)")
    heads = [definition.search(text) for text in texts]
    lists = [_told(head[1]) for head in heads if head]
    every = _union(lists) if len(lists) == len(texts) else None
    added = [[p for p in every if p not in list_] for list_ in lists] if every else []
    if not any(added) or any(name_of(p) not in known for list_ in added for p in list_):
        return texts
    out = []
    for text, head, own in zip(texts, heads, lists):
        calls = [m for m in re.finditer(rf"\b{name}\(([^\n]*)\); \}}", text) if m.start() > HEAD.search(text).start()]
        if len(calls) != 1 or len(re.findall(rf"\b{name}\(", text)) != 2:
            return texts
        given = dict(zip(own, _told(calls[0][1])))
        said = ", ".join(given.get(p, name_of(p)) for p in every)
        text = text[: calls[0].start(1)] + said + text[calls[0].end(1) :]
        out.append(text[: head.start(1)] + ", ".join(every) + text[head.end(1) :])
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
    order = in_turn(lists)
    whole = _unconditional(lists)
    having = lambda key: tuple(i for i, list_ in enumerate(lists) if key in list_)  # noqa: E731
    out: list[str] = []
    for (who, _), keys in itertools.groupby(order, lambda key: (having(key), key in whole)):
        keys = list(keys)
        lines = [line for key in keys for line in _beside({i: lists[i][key] for i in who}, names)]
        out += lines if len(who) == len(names) or whole.issuperset(keys) else [_condition(who, names), *lines, "#endif"]
    return "\n".join(out)


# Lines that do no harm in a kernel that needs them not.
HARMLESS = re.compile(
    r" *(?:for \(int i = 0; i < \w+; i\+\+\) \{(?: barrier_init\([^()]*\);)+ \}|const Place \w+ = place_of\(\w+, s\);)"
)


def _harmless(entry: dict[int, str], found: dict[int, list[str]]) -> bool:
    """Whether a line that some kernels have may stand in the others: none of them begins the same barriers by a line of its own."""
    line = next(iter(entry.values()))
    others = "\n".join(line for i, lines in found.items() if i not in entry for line in lines)
    begun = re.findall(r"\bbarrier_init\((b\.\w+)\[", line)
    return bool(HARMLESS.fullmatch(line)) and not any(f"barrier_init({barrier}[" in others for barrier in begun)


def _unconditional(lists: list[dict[str, list[str]]]) -> set[str]:
    """Functions and structs that some kernels alone need, and that may stand in the others as well: all they name is there."""
    every = set().union(*lists)
    common = set(lists[0]).intersection(*lists[1:])
    text = {key: "\n".join(line for list_ in lists for line in list_.get(key, ())) for key in every}
    kept = {
        key for key in every - common if re.match(r"(?://[^\n]*\n)*(?:struct|static __device__|DEVICE) ", text[key])
    }
    last = None
    while kept != last:
        last = set(kept)
        kept = {key for key in kept if set(re.findall(r"\w+", text[key])) & every <= common | kept}
    return kept


def _beside(found: dict[int, list[str]], names: list[str]) -> list[str]:
    """A declaration as the kernels that have it say it."""
    out: list[str] = []
    run: list[dict[int, str]] = []
    struct = any(re.match(r"\s*struct ", line) for lines in found.values() for line in lines[:1])
    for entry in aligned(found):
        harmless = len(entry) == len(found) or struct or _harmless(entry, found)
        line = _one(entry, len(names)) if harmless else None
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
    if len(groups) == 1 and len(groups[0][1]) == 1 and (alone := OTHERWISE.fullmatch(groups[0][1][0])):
        return [f"{alone[1]}else if ({_picked(groups[0][0], names)} && {alone[2]}) {alone[3]}"]
    out: list[str] = []
    for k, (who, lines) in enumerate(groups):
        last = k > 0 and k == len(same) - 1
        out += ["#else" if last else _condition(who, names, "el" * (k > 0)), *lines]
    return [*out, "#endif"] if out else []


OTHERWISE = re.compile(r"( *)else if \(([^|&?]*)\) (\{ .* \})")  # what a kernel without it never does


def _condition(who: Sequence[int], names: list[str], other: str = "") -> str:
    return f"#{other}if {_picked(who, names)}  // {', '.join(names[i] for i in who)}"


def _picked(who: Sequence[int], names: list[str]) -> str:
    return f"PICK({', '.join(str(int(i in who)) for i in range(len(names)))})"
