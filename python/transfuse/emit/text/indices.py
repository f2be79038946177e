"""Plain kernels: a block's and a thread's numbers as formulas without brackets, remainders by their sign, names without gaps."""

from __future__ import annotations

import re

from transfuse.emit.text.direct import FUNCTION
from transfuse.emit.text.formulas import quotients, types_in
from transfuse.emit.text.layout import WIDTH
from transfuse.emit.text.tokens import split, tokens
from transfuse.emit.text.typed import Tree, Unread, names_in, plainly, said, tree_of, type_of, with_names

KERNEL = re.compile(r"(?m)^__global__ [^\n]*\{\n(?:(?!\}$)[^\n]*\n)+\}$")
LIST = re.compile(r"(?m)(?:^ {4}const int [^;{}\n]*;\n)+")


def indices(text: str) -> str:
    """Device code; kernels of tensor cores stay as they are."""
    text = FUNCTION.sub(lambda m: m[0] if re.search(r"\basm\b|\bBarriers?\b|PTX\(", m[0]) else _weights(m[0]), text)
    return KERNEL.sub(lambda m: m[0] if re.search(r"\basm\b|\bBarriers?\b|PTX\(", m[0]) else _kernel(m[0]), text)


LATER = re.compile(
    r"(?m)(?P<first>(?:^ {4}const int [^;{}\n]*;\n)+)"
    r"(?P<pointer>^ {4}const \w+\*(?: __restrict__)? (?P<name>\w+) = [^;\n]*;\n)(?P<then>^ {4}const int [^;{}\n]*;\n)"
)
# A warp's sum is its first thread's: thread 0 adds those of the others to its own.
WARPS = re.compile(
    r"(?P<written>\n {4}if \(threadIdx\.x % 32 == 0\) (?P<of>\w+)\[threadIdx\.x / 32\] = (?P<sum>\w+);\n {4}__syncthreads\(\);\n"
    r" {4}if \(threadIdx\.x == 0\) \{\n) {8}double (?P<total>\w+) = 0\.0;\n"
    r"(?P<loop> {8}for \(int (?P<w>\w+) = )0(?P<rest>; [^;\n]*; [^;\n]*\)) (?P=total) \+= (?P=of)\[(?P=w)\];\n"
    r"(?P<store>[^\n]*) = (?P=total);\n"
)


def _kernel(text: str) -> str:
    if (m := LATER.search(text)) and not re.search(rf"\b{m['name']}\b", m["then"]):
        text = text.replace(m[0], m["first"] + m["then"] + m["pointer"])
    for m in list(WARPS.finditer(text)):
        by = f"{m['loop']}1{m['rest']} {m['sum']} += {m['of']}[{m['w']}];\n{m['store']} = {m['sum']};\n"
        text = text.replace(m[0], m["written"] + by).replace(f"const double {m['sum']} = ", f"double {m['sum']} = ")
    for m in list(LIST.finditer(text)):
        text = text.replace(m[0], _list(m[0], text.replace(m[0], "")), 1)
    return _names(_stores(text))


WEIGHTS = re.compile(r"(?m)^(?P<head> *(?:(?:UNROLL )?for \([^()\n]*\)\s+)?)(?P<to>\w+\[\w+\]) = (?P<value>[^;\n]*);$")


def _weights(text: str) -> str:
    """Numbers that an operand's tiles take: one place in the weights, however it was counted."""
    if "// Operand tiles" not in text and " row = at % 64" not in text:
        return text
    known = types_in(text)

    def told(m: re.Match) -> str:
        try:
            value = said(plainly(quotients(tree_of(m["value"])), known, type_of(tree_of(m["to"]), known)))
        except Unread:
            return m[0]
        line = f"{re.sub(chr(92) + 's+$', ' ', m['head']) if m['head'].strip() else m['head']}{m['to']} = {value};"
        return line if len(line) <= WIDTH else f"{m['head']}{m['to']} = {value};"

    return WEIGHTS.sub(told, text)


def _list(lines: str, rest: str) -> str:
    """Numbers that are declared together. rest: the kernel without them."""
    named: list[tuple[str, Tree]] = []
    try:
        for line in lines.rstrip("\n").split("\n"):
            for part in split(tokens(line.strip()[len("const int ") : -1]), {","}):
                name, _, value = "".join(t.space + t.text for t in part).strip().partition(" = ")
                named.append((name, tree_of(value)))
    except Unread:
        return lines
    made = {said(value): name for name, value in named if value.kind == "binary" and value.text == "/"}
    named = [(name, _unsigned(_remainder(value, made))) for name, value in named]
    again = True
    while again:
        again = False
        for i, (name, value) in enumerate(named):
            uses = sum(names_in(v).count(name) for _, v in named)
            outside = re.search(rf"(?<![.\w]){name}\b", rest)
            if outside or uses > 1 or (uses and not _short(value)):
                continue
            named = [(n, with_names(v, {name: value})) for n, v in named[:i] + named[i + 1 :]]
            again = True
            break
    return _declared(named)


def _short(value: Tree) -> bool:
    return len(said(value)) < 24


def _unsigned(tree: Tree) -> Tree:
    """Numbers of blocks and threads are no less than zero: their multiples and quotients need not be told so."""
    if tree.kind == "binary" and tree.text in ("/", "%", "*"):
        return Tree(tree.kind, tree.text, [_plain(_unsigned(tree.of[0])), tree.of[1]])
    if tree.kind == "binary" and tree.text == "+":
        return Tree(tree.kind, tree.text, [_unsigned(tree.of[0]), tree.of[1]])
    return _plain(tree)


def _plain(tree: Tree) -> Tree:
    if tree.kind == "cast" and tree.text == "int" and said(tree.of[0]) in ("blockIdx.x", "threadIdx.x"):
        return tree.of[0]
    return tree


def _remainder(tree: Tree, made: dict[str, str]) -> Tree:
    """a - q * b is a % b where q is a / b."""
    if tree.kind == "binary" and tree.text == "-" and tree.of[1].kind == "binary" and tree.of[1].text == "*":
        q, by = tree.of[1].of
        if q.kind == "name" and made.get(said(Tree("binary", "/", [tree.of[0], by]))) == q.text:
            return Tree("binary", "%", [tree.of[0], by])
    return tree


def _declared(named: list[tuple[str, Tree]]) -> str:
    lines: list[str] = []
    for name, value in named:
        told = f"{name} = {said(value)}"
        if lines and len(lines[-1]) + len(told) < WIDTH - 2:
            lines[-1] = f"{lines[-1][:-1]}, {told};"
        else:
            lines.append(f"    const int {told};")
    return "".join(f"{line}\n" for line in lines)


STORE = re.compile(
    r"(?m)^( *)(\w+)\[([^;=]*)\] = (\w+);$|^( *)(READ|const \w+\* __restrict__|const \w+\*) (\w+) = (\w+) \+ (.*);$"
)


def _stores(text: str) -> str:
    """Where something is stored, and where it is read from, without brackets that change nothing."""

    def told(m: re.Match) -> str:
        try:
            if m[2]:
                return f"{m[1]}{m[2]}[{said(tree_of(m[3]))}] = {m[4]};"
            return f"{m[5]}{m[6]} {m[7]} = {said(tree_of(f'{m[8]} + {m[9]}'))};"
        except Unread:
            return m[0]

    return STORE.sub(told, text)


NUMBERED = re.compile(r"(?<![.\w])([a-z]+)(\d+)\b(?!\()")
GIVEN = {"p", "n", "float", "double", "int", "uint"}  # parameters and types


def _names(text: str) -> str:
    """Names of a kind are numbered in the order they come in; one that is alone needs no number."""
    head, _, body = text.partition("{\n")
    code = re.sub(r"//[^\n]*", "", body)
    words = set(re.findall(r"(?<!\.)\b[A-Za-z_]\w*", head + code))
    kinds: dict[str, dict[str, None]] = {}
    for m in NUMBERED.finditer(code):
        kinds.setdefault(m[1], {})[m[0]] = None
    by: dict[str, str] = {}
    for kind, names in kinds.items():
        if kind in GIVEN or any(name in head for name in names):
            continue
        fresh = [kind] if len(names) == 1 else [f"{kind}{i + 1}" for i in range(len(names))]
        if len(names) == 1 and (kind in words or KEYWORD.fullmatch(kind)):
            fresh = [f"{kind}1"]
        by |= dict(zip(names, fresh))
    return head + "{\n" + re.sub(r"(?<![.\w])[a-z]+\d+\b(?!\()", lambda m: by.get(m[0], m[0]), body)


KEYWORD = re.compile("in|do|if|for|char|short|long|bool|auto|v|else|block|x|y|z")
