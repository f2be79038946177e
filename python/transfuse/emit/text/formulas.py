"""What is done for each element, or each term of a sum, as one formula: indices and values stand where they are read."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace

from transfuse.emit.text.layout import WIDTH
from transfuse.emit.text.tokens import split, tokens
from transfuse.emit.text.typed import Tree, Unread, names_in, plainly, said, tree_of, type_of, with_names

OPENED = re.compile(r"(?P<I> *)(?P<head>[^\n]*)\[&\]\((?P<given>[^()]*)\) \{")
BESIDE = re.compile(r"\[&\]\((?P<given>[^()]*)\) \{ (?P<body>[^{}]*;) \}")
DECLARED = re.compile(r"const (int|float|double) (.*);", re.S)
STORED = re.compile(r"(return )(.*);|((?:double )?\w+(?:\[.*?\])?) (\+?=) (.*);", re.S)
HEADS = re.compile(r"(?:(?:UNROLL )?for \([^()]*\) (?!\{))*")
NAMES = re.compile(r"\b(int|float|double|STORED)(\*?)(?: __restrict__)? (\w+)(\[)?")


@dataclass
class Statement:
    indent: str
    type: str  # of a declaration, else empty
    name: str  # what it declares or where it stores, with the sign; or "return "
    value: Tree


def formulas(text: str) -> str:
    """Device code with what stands in brackets of `tf_each` and `tf_sums` said briefly."""
    lines, known, i = text.split("\n"), {}, 0
    tables = types_in("\n".join(line for line in lines if line.startswith("__device__ const ")))
    while i < len(lines):
        line = lines[i]
        if line and not line.startswith((" ", "}", "#", "//")):
            known = {**tables, **types_in(line)}
        known["return"] = "double" if "tf_sums<" in line else None  # a term is added to a sum of it
        lines[i] = BESIDE.sub(lambda m: _beside(m, known), line)  # noqa: B023
        match = OPENED.fullmatch(line)
        if match and ("tf_each(" in line or "tf_sums<" in line or line.lstrip().startswith(("}, [&]", "[&]"))):
            end = next((k for k in range(i + 1, len(lines)) if lines[k].startswith(f"{match['I']}}}")), None)
            if end:
                lines[i + 1 : end] = _body(lines[i + 1 : end], {**known, **types_in(match["given"])})
        i += 1
    return _in_a_line("\n".join(lines))


LONG = re.compile(r"\b(\d\.\d{7,}(?:e[-+]\d+)?)(f?)(?![\w.])")


def shortest(text: str) -> str:
    """Numbers by the fewest digits that tell them from others."""

    def told(m: re.Match) -> str:
        if not m[2]:
            return repr(float(m[1]))
        single = struct.pack("f", float(m[1]))
        digits = next(d for d in range(1, 18) if struct.pack("f", float(f"{float(m[1]):.{d}g}")) == single)
        value = f"{float(m[1]):.{digits}g}"
        return (value if re.search(r"[.e]", value) else f"{value}.0") + "f"

    return LONG.sub(told, text)


def types_in(text: str) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for type_, star, name, array in NAMES.findall(text):
        found.setdefault(name, set()).add(type_ + ("*" if star or array else ""))
    return {name: next(iter(types)) for name, types in found.items() if len(types) == 1}


def _beside(match: re.Match, known: dict[str, str]) -> str:
    """A body of a few statements in one line."""
    body = [f"{part.strip()};" for part in match["body"].split(";") if part.strip()]
    new = " ".join(_body(body, {**known, **types_in(match["given"])}))
    return f"[&]({match['given']}) {{ {new} }}"


def _body(lines: list[str], known: dict[str, str]) -> list[str]:
    read = [_statements(line) for line in lines]
    known = {**known, **types_in("\n".join(lines))}
    known |= {s.name: s.type for item in read if not isinstance(item, str) for s in item if s.type}
    read = [_plain(item, known) for item in _values(read, known)]
    direct, before = _texts(_indices(read)), _texts(read)
    return direct if all(len(line) <= WIDTH for line in direct) else before


def _plain(item, known: dict[str, str]):
    if isinstance(item, str):
        return item
    return [replace(s, value=plainly(s.value, known, _becomes(s, known))) for s in item]


def _becomes(s: Statement, known: dict[str, str]) -> str | None:
    """The type that a statement makes of its value."""
    if s.type or s.name == "return ":
        return s.type or known.get("return")
    place = s.name[HEADS.match(s.name).end() :].rpartition(" ")[0].rpartition(" ")[0]
    if place.startswith("double "):
        return "double"
    try:
        return type_of(tree_of(place), known)
    except Unread:
        return None


def _statements(line: str):
    """A line's declarations or what it stores; the line itself where it says anything else."""
    code = line.strip()
    indent = line[: len(line) - len(line.lstrip())]
    head = HEADS.match(code)[0]
    code = code[len(head) :]
    try:
        if match := DECLARED.fullmatch(code):
            parts = [_text(p).partition(" = ") for p in split(tokens(match[2]), {","})]
            if head or not all(mark for _, mark, _ in parts):
                return line
            return [Statement(indent, match[1], name.strip(), tree_of(value)) for name, _, value in parts]
        if (match := STORED.fullmatch(code)) and ";" not in code[:-1]:
            name = "return " if match[1] else f"{head}{match[3]} {match[4]} "
            if not match[1] and not head:
                name = f"{_index_said(match[3])} {match[4]} "
            return [Statement(indent, "", name, tree_of(match[2] or match[5]))]
    except Unread:
        return line
    return line


def _index_said(place: str) -> str:
    return place if place.startswith("double ") else said(tree_of(place))


def _text(items) -> str:
    return "".join((" " if t.space and i else "") + t.text for i, t in enumerate(items))


def _texts(read: list) -> list[str]:
    """Declarations of one type that follow one another stand in one."""
    out: list[str] = []
    for item in read:
        if isinstance(item, str):
            out.append(item)
            continue
        for s in item:
            text = f"{s.name} = {said(s.value)}" if s.type else f"{s.name}{said(s.value)}"
            begin = f"{s.indent}const {s.type} "
            if s.type and out and out[-1].startswith(begin) and len(out[-1]) + len(text) < WIDTH - 2:
                out[-1] = f"{out[-1][:-1]}, {text};"
            else:
                out.append(f"{begin if s.type else s.indent}{text};")
    return out


def _used(read: list, name: str) -> int:
    """How often a name stands in trees; many where a text that was not read has it."""
    count = 0
    for item in read:
        if isinstance(item, str):
            count += 100 * bool(re.search(rf"\b{name}\b", item))
            continue
        for s in item:
            count += names_in(s.value).count(name)
            count += 0 if s.type else len(re.findall(rf"\b{name}\b", s.name))
    return count


def _substituted(read: list, by: dict[str, Tree], change=lambda tree: tree) -> list:
    out = []
    for item in read:
        if isinstance(item, str):
            out.append(item)
            continue
        kept = []
        for s in item:
            if s.type and s.name in by:
                continue
            name = s.name
            if not s.type and name != "return " and any(re.search(rf"\b{n}\b", name) for n in by):
                place, _, sign = name.rstrip().rpartition(" ")
                head = HEADS.match(place)[0]
                name = f"{head}{said(change(with_names(tree_of(place[len(head) :]), by)))} {sign} "
            kept.append(replace(s, name=name, value=change(with_names(s.value, by))))
        if kept:
            out.append(kept)
    return out


def _indices(read: list) -> list:
    """Quotients and remainders of the element's number, where they are read: what adds up to the number is the number."""
    by: dict[str, Tree] = {}
    for item in read:
        if isinstance(item, str) or not all(s.type == "int" for s in item):
            break
        for s in item:
            value = quotients(with_names(s.value, by))
            if len(set(names_in(value))) == 1 and _quotient(value) and _used(read, s.name) < 100:
                by[s.name] = value
    return _substituted(read, by, quotients) if by else read


def _quotient(tree: Tree):
    """i, i / a, i % b or i / a % b as (i, a, b)."""
    by = None
    if tree.kind == "binary" and tree.text == "%" and tree.of[1].kind == "number":
        tree, by = tree.of[0], int(tree.of[1].text)
    over = 1
    if tree.kind == "binary" and tree.text == "/" and tree.of[1].kind == "number":
        tree, over = tree.of[0], int(tree.of[1].text)
    return (tree.text, over, by) if tree.kind == "name" else None


def quotients(tree: Tree) -> Tree:
    tree = replace(tree, of=[quotients(a) for a in tree.of])
    if tree.kind != "binary" or tree.text not in ("/", "-", "+"):
        return tree
    one, other = tree.of
    if tree.text == "/" and one.kind == "binary" and one.text == "/" and {one.of[1].kind, other.kind} == {"number"}:
        return Tree("binary", "/", [one.of[0], Tree("number", str(int(one.of[1].text) * int(other.text)))])
    if tree.text == "-" and other.kind == "binary" and other.text == "*" and other.of[1].kind == "number":
        over = quotients(Tree("binary", "/", [one, other.of[1]]))
        if said(over) == said(other.of[0]):
            return Tree("binary", "%", [one, other.of[1]])
    if tree.text == "+":
        return _summed(tree)
    return tree


def terms_of(tree: Tree) -> list[Tree]:
    return [*terms_of(tree.of[0]), tree.of[1]] if tree.kind == "binary" and tree.text == "+" else [tree]


def _summed(tree: Tree) -> Tree:
    """i / n * n + i % n is i, and so with a factor on both."""
    terms = terms_of(tree)
    merged = True
    while merged:
        merged = False
        for k, term in enumerate(terms):
            low, factor = _factor(term)
            at = _quotient(low)
            if not at or at[2] is None:
                continue
            name, over, by = at
            for j, upper in enumerate(terms):
                high, times = _factor(upper)
                found = _quotient(high)
                if found and found[0] == name and found[1] == over * by and times == factor * by:
                    value = Tree("name", name)
                    value = Tree("binary", "/", [value, Tree("number", str(over))]) if over > 1 else value
                    if found[2] is not None:
                        value = Tree("binary", "%", [value, Tree("number", str(found[2] * by))])
                    value = Tree("binary", "*", [value, Tree("number", str(factor))]) if factor > 1 else value
                    terms[min(j, k)] = value
                    del terms[max(j, k)]
                    merged = True
                    break
            if merged:
                break
    found = terms[0]
    for term in terms[1:]:
        found = Tree("binary", "+", [found, term])
    return found


def _factor(tree: Tree) -> tuple[Tree, int]:
    if tree.kind == "binary" and tree.text == "*" and tree.of[1].kind == "number" and tree.of[1].text.isdigit():
        return tree.of[0], int(tree.of[1].text)
    return tree, 1


def _values(read: list, known: dict[str, str]) -> list:
    """A value that is read once, behind declarations alone, stands there."""
    again = True
    while again:
        again = False
        for k, item in enumerate(read):
            for s in [] if isinstance(item, str) else item:
                new = _value_inlined(read, k, s, known) if s.type in ("float", "double") else None
                if new is not None:
                    read, again = new, True
                    break
            if again:
                break
    return read


def _value_inlined(read: list, k: int, s: Statement, known: dict[str, str]) -> list | None:
    uses = _used(read, s.name)
    own = type_of(s.value, known)
    load = s.value.kind == "index" or (s.value.kind == "cast" and s.value.of[0].kind == "index")
    if uses != 1 and not (uses == 2 and load):
        return None
    by = {s.name: s.value if own == s.type else Tree("cast", s.type, [s.value])}
    for item in read[k:]:
        if isinstance(item, str):
            return None
        if _used([item], s.name):
            if _used([item], s.name) != uses or any(t.indent != s.indent for t in item):
                return None
            break
        if not all(t.type for t in item):
            return None
    new = _substituted(read, by)
    plain = _texts([_plain(item, known) for item in new])
    return new if all(len(line) <= WIDTH - 12 for line in plain if line not in read) else None


ONE = re.compile(r" +(?!for|if|UNROLL|const|\w+ \w+ = )[^\n{}]*;")


def _in_a_line(text: str) -> str:
    """What has become one statement stands beside its brackets. Sums have two of them, of which each may have a line."""
    lines = text.split("\n")
    for i in reversed(range(len(lines) - 2)):
        opened = OPENED.fullmatch(lines[i])
        if not opened or not ONE.fullmatch(lines[i + 1]) or not lines[i + 2].startswith(f"{opened['I']}}}"):
            continue
        line = f"{lines[i]} {lines[i + 1].strip()} {lines[i + 2].strip()}"
        parts = re.sub(r"^ *(?:for|(?:else )?if) \([^\n]*?\) (?=tf_)|^ *else ", "", line).split(" }, [&]")
        if all(len(opened["I"]) + 8 + len(part) < WIDTH - 8 for part in parts):
            lines[i : i + 3] = [line]
    return "\n".join(lines)
