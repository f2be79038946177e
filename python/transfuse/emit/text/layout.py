"""Printing: four spaces a level, lines broken behind commas and before operators where they are too long."""

from __future__ import annotations

import re
import textwrap
from contextlib import contextmanager

from transfuse.emit.text.statements import Node
from transfuse.emit.text.tokens import Token

WIDTH = 150  # of a line
ASM_WIDTH = 165  # where an instruction is spelled out
FLAT = 110  # where a loop or a condition has its statements beside it
ENDLESS = 100000  # lines are broken later, when it is known what they say
_widths = [WIDTH]


@contextmanager
def wide(width: int):
    _widths.append(width)
    yield
    _widths.pop()


def plain(items: list[Token]) -> str:
    """On one line, unless a comment stands in between."""
    out = ""
    for i, token in enumerate(items):
        space = token.space if i else ""
        if "\n" in space:
            space = re.sub(r"\s*\n\s*", " ", space)
        if i and items[i - 1].kind in ("comment", "directive"):
            space = "\n"
        if token.kind == "directive" and i:
            space = "\n"
        out += (" " if len(space) > 1 and "\n" not in space else space) + token.text
    return out


def printed(nodes: list[Node], depth: int = 0) -> list[str]:
    out: list[str] = []
    for before, node in zip([None, *nodes], nodes):
        lines = _node(node, depth)
        if (
            node.beside
            and before is not None
            and before.kind == "leaf"
            and not before.note
            and len(lines) == 1
            and len(out[-1]) + len(lines[0].strip()) < _widths[-1]
        ):
            lines = [f"{out.pop()} {lines[0].strip()}"]
        out += lines
    return _unrolled(out)


def _unrolled(lines: list[str]) -> list[str]:
    """`#pragma unroll` as a word before its loop."""
    out: list[str] = []
    for line in lines:
        if out and out[-1].strip() == "#pragma unroll" and line.lstrip().startswith("for "):
            indent = line[: len(line) - len(line.lstrip())]
            out[-1] = f"{indent}UNROLL {line.lstrip()}"
        else:
            out.append(line)
    return out


def _node(node: Node, depth: int) -> list[str]:
    indent = "    " * depth
    note = f"  {node.note}" if node.note else ""
    if node.kind == "comment":
        return [indent + node.items[0].text]
    if node.kind == "directive":
        return [node.items[0].text]
    if node.kind == "leaf":
        return wrapped(indent, plain(node.items), note)
    if node.kind == "block":
        return _braced(indent, node, depth, note)
    if node.kind == "definition":
        tail = ";" if node.orelse else ""
        body = _braced(indent + plain(node.items) + " ", node.children[0], depth, note, tail, "(" in plain(node.items))
        return body if note and len(body) == 1 else [*wrapped(indent, body[0].strip(), ""), *body[1:]]
    if node.kind == "loop":
        return _guarded(indent + plain(node.items), node.children, depth, note)
    out = _guarded(f"{indent}if {'constexpr ' if node.flat else ''}({plain(node.items)})", node.children, depth, note)
    if node.orelse:
        other = _else(node.orelse, depth)
        if out[-1].strip() == "}" and len(node.children) == 1:
            out[-1] = f"{out[-1]} {other[0].lstrip()}"
            return out + other[1:]
        return out + other
    return out


def _else(nodes: list[Node], depth: int) -> list[str]:
    indent = "    " * depth
    if len(nodes) == 1 and nodes[0].kind == "if":
        inner = _node(nodes[0], depth)
        return [f"{indent}else {inner[0].lstrip()}", *inner[1:]]
    return _guarded(f"{indent}else", nodes, depth, "")


def _guarded(head: str, nodes: list[Node], depth: int, note: str) -> list[str]:
    """What a condition or a loop governs: on its line where there is room."""
    nodes = [n for n in nodes if not (n.kind == "leaf" and not n.items)]
    if (
        len(nodes) == 1
        and nodes[0].kind == "block"
        and len(nodes[0].children) == 1
        and nodes[0].children[0].kind == "leaf"
        and not nodes[0].note
        and not nodes[0].children[0].note
    ):
        nodes = nodes[0].children
    if len(nodes) == 1 and nodes[0].kind == "block" and not nodes[0].note:
        inner = [n for n in nodes[0].children if not (n.kind == "directive" and "unroll" in n.items[0].text)]
        loop = head.lstrip().startswith(("for", "while"))
        if len(inner) == 1 and (inner[0].kind == "loop" or (loop and inner[0].kind == "if" and not inner[0].orelse)):
            nodes = nodes[0].children  # needs no braces
    if len(nodes) == 1 and nodes[0].kind == "block":
        return _braced(head + " ", nodes[0], depth, note)
    if len(nodes) == 1 and nodes[0].kind == "leaf":
        text = plain(nodes[0].items)
        behind = note or (f"  {nodes[0].note}" if nodes[0].note else "")
        if "\n" not in text and len(head) + len(text) + 1 <= _widths[-1]:
            return [f"{head} {text}{behind}"]
    inner = printed(nodes, depth + 1)
    loop = head.lstrip().startswith(("for", "while"))
    if loop and len(inner) == 1 and not note and len(head) + len(inner[0].strip()) < WIDTH - 8:  # a nest of loops
        return [f"{head} {inner[0].strip()}"]
    return [head + note, *inner]


def _braced(head: str, block: Node, depth: int, note: str, tail: str = "", one: bool = False) -> list[str]:
    """Few short statements stand beside the head; one: that of a function."""
    indent = "    " * depth
    note = note or (f"  {block.note}" if block.note else "")
    if not block.children:
        return [f"{head}{{}}{tail}{note}"]
    leaves = all(c.kind == "leaf" and not c.note for c in block.children)
    if leaves and len(block.children) < 4:
        text = " ".join(plain(c.items) for c in block.children)
        beside = len(block.children) > 1 and all(c.beside for c in block.children[1:])
        room = ASM_WIDTH if "asm" in text else WIDTH if one or block.flat or beside else FLAT
        if len(head) + len(text) + 4 <= room and "\n" not in text:
            return [f"{head}{{ {text} }}{tail}{note}"]
    inner = printed(block.children, depth + 1)
    if one and len(inner) == 1 and "//" not in inner[0] and len(head) + len(inner[0].strip()) + 4 <= WIDTH:
        return [f"{head}{{ {inner[0].strip()} }}{tail}{note}"]
    return [f"{head}{{{note}", *inner, f"{indent}}}{tail}"]


def wrapped(indent: str, text: str, note: str) -> list[str]:
    """Broken behind commas and operators where it is too long for a line; between numbers of a list if that takes fewer lines."""
    lines = min((_broken(indent, text, lists) for lists in (False, True)), key=len)
    lines[-1] += note
    return lines


def _broken(indent: str, text: str, lists: bool) -> list[str]:
    lines: list[str] = []
    for line in text.split("\n"):
        line = (indent if not line.startswith("#") else "") + line.strip()
        while len(line) > _widths[-1]:
            cut = _break(line, _widths[-1], lists)
            if cut is None:
                break
            lines.append(line[:cut].rstrip())
            line = f"{indent}    {line[cut:].lstrip()}"
        lines.append(line)
    return lines


def _break(line: str, width: int, lists: bool) -> int | None:
    """Where to break: the least nested comma or operator in the last part of the line, outside strings. lists: commas of one that
    stands in no other brackets are as good as those around it."""
    best, depth, quoted, opened = None, 0, False, []
    for i, c in enumerate(line[:width]):
        if c == '"' and line[i - 1] != "\\":
            quoted = not quoted
        if quoted:
            continue
        depth += (c in "([{") - (c in ")]}")
        opened = [*opened, c] if c in "([{" else opened[:-1] if c in ")]}" else opened
        rest = line[i + 1 :]
        if i > len(line) - len(line.lstrip()) + 24 and (
            (c == "," and rest.startswith(" "))
            or (c == " " and re.match(r"(?:\|\||&&|\?|:|\+) ", rest))
            or (c == ";" and rest.startswith(" "))
        ):
            score = (0 if lists and opened == ["{"] else -depth, i)
            if best is None or (score[0] >= best[0] if i > width // 2 or best[1] < width // 2 else False):
                best = score
    return best[1] + 1 if best else None


HEAD = re.compile(r"\s*(?:UNROLL )?(?:else )?(?:if|for|while) (?:constexpr )?\(")


def folded(text: str) -> str:
    """Lines of usual width: what a condition or a loop governs goes below it, then lines are broken where they may be."""
    out: list[str] = []
    for line in _filled(text.split("\n")):
        code, mark, note = line.partition("  // ")
        if len(line) <= WIDTH or line.lstrip().startswith(("//", "#")):
            out.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        if mark and len(code) <= WIDTH:
            out += [*_above(indent, note), code]
            continue
        if "asm" in line:
            cut = line.find('" :') + 1
            out += [line[:cut], f"{indent}    {line[cut:].lstrip()}"] if cut and len(line) > ASM_WIDTH else [line]
            continue
        while len(code) > WIDTH and (head := HEAD.match(code)) and not code.rstrip().endswith(("{", "}")):
            end = _closed(code, head.end() - 1)
            if end is None or code[end:].strip() in ("{", ""):
                break
            beside = f"{code[:end]}{mark}{note}"
            if mark and len(code) + len(note) > WIDTH and len(beside) <= WIDTH:  # what the loop is for
                out.append(beside)
                mark = note = ""
            else:
                out += wrapped(indent, code[:end].strip(), "")
            code, indent = f"{indent}    {code[end:].lstrip()}", indent + "    "
        if mark and len(code) <= WIDTH < len(code) + len(mark) + len(note):
            out, mark = [*out, *_above(indent, note)], ""
        lines = wrapped(indent, code.strip(), f"{mark}{note}" if mark else "")
        if mark and len(lines[-1]) > WIDTH:
            lines = [*_above(indent, note), *wrapped(indent, code.strip(), "")]
        out += lines
    return "\n".join(out)


def _above(indent: str, note: str) -> list[str]:
    """What was said beside a line, where there is no room for it."""
    mark = f"{indent}// "
    return textwrap.wrap(f"{note[:1].upper()}{note[1:]}", WIDTH, initial_indent=mark, subsequent_indent=mark)


PROSE = re.compile(r"( *)// ([\w`].*)")


def _filled(lines: list[str]) -> list[str]:
    """Sentences above a function fill their lines."""
    out, indent, words = [], "", ""
    for line in [*lines, ""]:
        match = PROSE.fullmatch(line)
        if match and words and match[1] == indent:
            words += f" {match[2]}"
            continue
        if words:
            mark = f"{indent}// "
            out += textwrap.wrap(words, WIDTH, initial_indent=mark, subsequent_indent=mark, break_on_hyphens=False)
        indent, words = (match[1], match[2]) if match else ("", "")
        out += [] if match else [line]
    return out[:-1]


def _closed(text: str, at: int) -> int | None:
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if not depth:
            return i + 1
    return None


NEST = re.compile(
    r"""
^(?P<I>\ *)(?P<head>(?:UNROLL\ )?for\ \([^\n{}]*\))\n(?P=I)\ {4}(?P<inner>(?:UNROLL\ )?for\ \([^\n{}]*\)\ \{)\n
(?P<body>(?:(?P=I)\ {5}[^\n]*\n|\#[^\n]*\n)+?)(?P=I)\ {4}\}$""",
    re.M | re.X,
)
OPEN = re.compile(
    r"""
^(?P<I>\ *)(?P<head>(?:UNROLL\ )?for\ \([^\n{}]*\))\n(?P=I)\ {4}(?P<inner>(?:UNROLL\ )?for\ \([^\n{}]*\))\n
(?P<body>(?:(?P=I)\ {8}[^\n]*\n)+)""",
    re.M | re.X,
)
GOVERNED = re.compile(
    r"^(?P<head>(?P<I> *)(?:if|(?:UNROLL )?for) \([^\n]*\)"
    r"|(?P<J> *)if \([^\n]*\n(?:(?P=J)    (?:&&|\|\|)[^\n]*\n)*(?P=J)    (?:&&|\|\|)[^\n]*\))\n"
    r"(?:(?P=I)|(?P=J))    (?P<one>(?!&&|\|\|)[^\n]*;)$",
    re.M,
)
OPERANDS = re.compile(r"^(?P<text> +[^\n]*\")\n +(?P<operands>: [^\n]*\);)$", re.M)
ABOVE = re.compile(r"^(?P<note>(?: *//.*\n)+)(?P<code>(?!#).*)$", re.M)


def beside(text: str) -> str:
    """Printed code in which a loop within a loop, or one statement, stands on the line of what governs it, operands of an instruction on
    that of its text, and a short comment on that of what it is about, where there is room."""

    def nested(m: re.Match) -> str:
        head, end = f"{m['I']}{m['head']} {m['inner']}", f"{m['I']}}}" if m["inner"].endswith("{") else ""
        body = re.sub(rf"(?m)^{m['I']}    ", m["I"], m["body"])
        return f"{head}\n{body}{end}" if len(head) <= WIDTH else m[0]

    def governed(m: re.Match) -> str:
        text = f"{m['head']} {m['one']}"
        whole = m["one"].count("{") == m["one"].count("}") and "//" not in text
        return text if whole and len(text.split("\n")[-1]) <= WIDTH else m[0]

    def told(m: re.Match) -> str:
        line = f"{m['text']} {m['operands']}"
        return line if len(line) <= WIDTH else m[0]

    def noted(m: re.Match) -> str:
        line = f"{m['code']}  {m['note'].strip()}"
        return m[0] if "\n" in line or "//" in m["code"] or len(line) > WIDTH else line

    return ABOVE.sub(noted, OPERANDS.sub(told, GOVERNED.sub(governed, OPEN.sub(nested, NEST.sub(nested, text)))))


def lines_of(text: str) -> int:
    """How many lines code takes in the end."""
    return beside(folded(text)).count("\n")
