"""Device code cut down to one kernel's constants: branches they decide are gone, and what is left is printed anew.

The generators share their texts among all kernels; which way a kernel goes is said by constants above them. A reader of one
file should see that way alone. Names of constants stay where they say something; only what they decide is simplified.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*)|(?P<directive>\#(?:[^\n\\]|\\\n?)*)|(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<number>(?:0x[0-9a-fA-F]+|(?:\d+\.\d*|\.?\d+)(?:[eE][+-]?\d+)?)[uUlLfF]*)|(?P<word>[A-Za-z_]\w*)
    |(?P<operator><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|::|.)""",
    re.X,
)
CLOSING = {"(": ")", "[": "]", "{": "}"}
WIDTH = 140  # of a line; instructions spelled out may be longer
_widths = [WIDTH]


@dataclass
class Token:
    kind: str
    text: str
    space: str  # before it


def tokens(text: str) -> list[Token]:
    found, at = [], 0
    while at < len(text):
        space = re.compile(r"\s*").match(text, at)[0]
        at += len(space)
        if at == len(text):
            break
        match = TOKEN.match(text, at)
        found.append(Token(match.lastgroup, match[0], space))
        at = match.end()
    return found


# Whole numbers -------------------------------------------------------------------------------------------------------


class Unknown(Exception):
    """Not decided by the constants."""


LEVELS = [["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!="], ["<", "<=", ">", ">="], ["<<", ">>"], ["+", "-"], ["*", "/", "%"]]  # fmt: skip
APPLY = {
    "||": lambda a, b: int(a or b), "&&": lambda a, b: int(a and b), "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b, "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b), "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b), ">": lambda a, b: int(a > b), ">=": lambda a, b: int(a >= b), "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b, "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1), "%": lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1),
}  # fmt: skip


class Value:
    """A constant expression's value, or Unknown."""

    def __init__(self, items: list[Token], known: dict[str, int]):
        self.items, self.known, self.at = items, known, 0
        self.value = self.ternary()
        if self.at < len(items):
            raise Unknown

    def peek(self) -> str:
        return self.items[self.at].text if self.at < len(self.items) else ""

    def ternary(self) -> int:
        condition = self.level(0)
        if self.peek() != "?":
            return condition
        self.at += 1
        yes = self.ternary()
        if self.peek() != ":":
            raise Unknown
        self.at += 1
        no = self.ternary()
        return yes if condition else no

    def level(self, depth: int) -> int:
        if depth == len(LEVELS):
            return self.unary()
        left = self.level(depth + 1)
        while self.peek() in LEVELS[depth]:
            operator = self.peek()
            self.at += 1
            right = self.level(depth + 1)
            if operator in "/%" and right == 0:
                raise Unknown
            left = APPLY[operator](left, right)
        return left

    def unary(self) -> int:
        if self.at >= len(self.items):
            raise Unknown
        token = self.items[self.at]
        self.at += 1
        if token.text in ("-", "+", "!", "~"):
            value = self.unary()
            return {"-": -value, "+": value, "!": int(not value), "~": ~value}[token.text]
        if token.text == "(":
            if (
                self.peek() in ("int", "unsigned")
                and self.at + 1 < len(self.items)
                and self.items[self.at + 1].text == ")"
            ):
                self.at += 2
                return self.unary()
            value = self.ternary()
            if self.peek() != ")":
                raise Unknown
            self.at += 1
            return value
        if token.kind == "number" and re.fullmatch(r"(?:0x[0-9a-fA-F]+|\d+)[uUlL]*", token.text):
            return int(token.text.rstrip("uUlL"), 0)
        if token.text == "sizeof" and [t.text for t in self.items[self.at : self.at + 3]][::2] == ["(", ")"]:
            self.at += 3
            return self._known(f"sizeof {self.items[self.at - 2].text}")
        return self._known(token.text)

    def _known(self, name: str) -> int:
        if name not in self.known:
            raise Unknown
        return self.known[name]


def value(items: list[Token], known: dict[str, int]) -> int | None:
    try:
        return Value(items, known).value
    except Unknown:
        return None


SIZES = {"float": 4, "double": 8, "tf_half": 2, "tf_bfloat": 2, "STORED": 2, "int": 4, "long": 8}


def constants(text: str) -> dict[str, int]:
    """What the text's top level says about whole numbers and sizes of types."""
    known: dict[str, int] = {"true": 1, "false": 0, **{f"sizeof {t}": s for t, s in SIZES.items() if t != "STORED"}}
    for line in text.split("\n"):
        line = re.sub(r"\s*//.*", "", line)
        if match := re.match(r"typedef (\w+)(?: long)? (\w+);", line):
            if match[1] in SIZES:
                known[f"sizeof {match[2]}"] = SIZES[match[1]]
        elif match := re.match(r"enum \{(.*)\};", line):
            known.update({name.strip(): i for i, name in enumerate(match[1].split(","))})
        elif match := re.match(r"(?:static )?constexpr (?:int|bool) (\w+ = .*);$", line):
            for name, items in _declared(tokens(match[1])):
                if (found := value(items, known)) is not None:
                    known[name] = found
    return known


def _declared(items: list[Token]) -> list[tuple[str, list[Token]]]:
    return [(part[0].text, part[2:]) for part in _split(items, {","}) if len(part) > 2 and part[1].text == "="]


def _split(items: list[Token], by: set[str]) -> list[list[Token]]:
    """At the top level: nothing inside brackets."""
    parts, depth = [[]], 0
    for token in items:
        depth += (token.text in CLOSING) - (token.text in CLOSING.values())
        if depth == 0 and token.text in by and token.kind == "operator":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


# Expressions ---------------------------------------------------------------------------------------------------------

BREAKS = {",", ";", "=", "+=", "-=", "*=", "|=", "&=", ":", "{", "}"}


def simplified(items: list[Token], known: dict[str, int]) -> list[Token]:
    """Logical operators and choices that constants decide are gone; everything else stays as it reads."""
    out: list[Token] = []
    part: list[Token] = []
    i = 0

    def flush():
        out.extend(_choice(part, known))
        part.clear()

    questions = 0
    while i < len(items):
        token = items[i]
        if token.text in CLOSING:
            end = _closing(items, i)
            inner = simplified(items[i + 1 : end], known)
            if token.text == "{":
                flush()
                out.extend([token, *inner, items[end]])
            elif token.text == "(" and _bare(part, inner, items, end):
                part.extend([Token(inner[0].kind, inner[0].text, token.space), *inner[1:]])
            else:
                part.extend([token, *inner, items[end]])
            i = end + 1
            continue
        questions += token.text == "?"
        if token.text == ":" and questions:
            questions -= 1
            part.append(token)
        elif token.text in BREAKS or token.text in ("return",):
            flush()
            questions = 0
            out.append(token)
        else:
            part.append(token)
        i += 1
    flush()
    return out


TYPES = re.compile(
    r"(?:const )?(?:unsigned |long )*(?:int|float|double|unsigned|char|bool|void|short|long|[A-Z]+|tf_\w+|u?int[24]|float[24])(?:<.*>)?(?: ?const)?[ *&]*"
)


def _bare(before: list[Token], inner: list[Token], items: list[Token], end: int) -> bool:
    """Whether parentheses stand around what needs none: not those of a call, a cast or a condition."""
    if not inner or end + 1 >= len(items) and before and before[-1].kind != "operator":
        return False
    if before and (before[-1].kind != "operator" or before[-1].text in (">", "]")):
        return False
    if len(inner) == 1 and inner[0].kind == "number":
        return not before or before[-1].text != ")" or True
    if before and before[-1].text == ")":
        return False
    if (
        before
        and before[-1].text in ("*", "&")
        and (len(before) < 2 or before[-2].kind == "operator" and before[-2].text not in (")", "]"))
    ):
        return False
    if inner[0].text == "(" and _closing(inner, 0) == len(inner) - 1:
        return True
    follows = items[end + 1] if end + 1 < len(items) else Token("operator", ";", "")
    if follows.kind != "operator" or follows.text in ("(", ".", "[", "->", "++", "--"):
        return False
    return _primary(inner)


def _primary(items: list[Token]) -> bool:
    """Casts and then a word, a number, a call or an element."""
    at = 0
    while items[at].text == "(":
        end = _closing(items, at)
        if not TYPES.fullmatch(plain(items[at + 1 : end])) or end + 1 == len(items):
            return False
        at = end + 1
    if items[at].kind not in ("word", "number") or TYPES.fullmatch(plain(items)):
        return False
    at += 1
    while at < len(items):
        if items[at].text in ("(", "["):
            at = _closing(items, at) + 1
        elif items[at].text == "." and at + 1 < len(items):
            at += 2
        else:
            return False
    return True


def _closing(items: list[Token], at: int) -> int:
    depth = 0
    for i in range(at, len(items)):
        depth += (items[i].text in CLOSING) - (items[i].text in CLOSING.values())
        if depth == 0:
            return i
    raise ValueError("a bracket that is never closed")


def _choice(items: list[Token], known: dict[str, int]) -> list[Token]:
    cut = _find(items, "?")
    if cut is None:
        return _arithmetic(_logical(items, known), known)
    depth = 0
    for end in range(cut + 1, len(items)):
        if _depth(items, cut, end) == 0:
            depth += items[end].text == "?"
            if items[end].text == ":":
                if depth == 0:
                    break
                depth -= 1
    else:
        return items
    condition = _logical(items[:cut], known)
    decided = value(condition, known)
    yes, no = items[cut + 1 : end], items[end + 1 :]
    if decided is not None:
        chosen = _choice(yes if decided else no, known)
        if chosen and items:
            chosen = [Token(chosen[0].kind, chosen[0].text, items[0].space), *chosen[1:]]
        return chosen
    return [*condition, items[cut], *_choice(yes, known), items[end], *_choice(no, known)]


def _depth(items: list[Token], start: int, end: int) -> int:
    return sum((t.text in CLOSING) - (t.text in CLOSING.values()) for t in items[start:end])


def _find(items: list[Token], text: str) -> int | None:
    depth = 0
    for i, token in enumerate(items):
        depth += (token.text in CLOSING) - (token.text in CLOSING.values())
        if depth == 0 and token.text == text:
            return i
    return None


def _logical(items: list[Token], known: dict[str, int]) -> list[Token]:
    for operator, deciding in (("||", 1), ("&&", 0)):
        parts = _split(items, {operator})
        if len(parts) == 1:
            continue
        kept = []
        for part in parts:
            part = _logical(part, known)
            decided = value(part, known)
            if decided is None:
                kept.append(part)
            elif bool(decided) == bool(deciding):
                return [Token("number", str(deciding), items[0].space)]
        if not kept:
            return [Token("number", str(1 - deciding), items[0].space)]
        out = list(kept[0])
        if out:
            out[0] = Token(out[0].kind, out[0].text, items[0].space)
        for part in kept[1:]:
            out += [Token("operator", operator, " "), *part]
        return out
    return items


ADDED, LOWER = {"+", "-"}, {"<", ">", "<=", ">=", "==", "!=", "<<", ">>", "&", "|", "^", "&&", "||", "?", ":"}


def _arithmetic(items: list[Token], known: dict[str, int]) -> list[Token]:
    """Sums without zeros, products without ones."""
    if not items or not any(t.text in ("+", "-", "*", "/", "%") for t in items):
        return items
    parts, signs = _pieces(items, LOWER)
    if len(parts) > 1:
        out: list[Token] = []
        for sign, part in zip([None, *signs], parts):
            out += ([sign] if sign else []) + _arithmetic(part, known)
        return out
    terms, signs = _pieces(items, ADDED)
    if any(not term or term[0].text in ("*", "&", "!", "~") for term in terms) or signs and not terms[0]:
        return items
    kept: list[tuple[Token | None, list[Token]]] = []
    for sign, term in zip([None, *signs], terms):
        term = _product(term, known)
        if value(term, known) != 0:
            kept.append((sign, term))
    if len(kept) == len(terms) and all(a is b[1] for a, b in zip(terms, kept)):
        return items
    if not kept:
        return [Token("number", "0", items[0].space)]
    if kept[0][0] is not None and kept[0][0].text == "-":
        return items
    out = [Token(kept[0][1][0].kind, kept[0][1][0].text, items[0].space), *kept[0][1][1:]]
    for sign, term in kept[1:]:
        out += [Token("operator", sign.text, " "), Token(term[0].kind, term[0].text, " "), *term[1:]]
    return out


def _product(items: list[Token], known: dict[str, int]) -> list[Token]:
    factors, signs = _pieces(items, {"*", "/", "%"})
    if len(factors) < 2 or not all(factors) or any(f[0].text in ("-", "&") for f in factors):
        return items
    out: list[tuple[str, list[Token]]] = []
    changed = False
    for sign, factor in zip(["*", *(s.text for s in signs)], factors):
        found = value(factor, known)
        if (sign == "%" and found == 1) or (sign == "*" and found == 0):
            out, changed = [("*", [Token("number", "0", "")])], True
        elif found == 1 and sign in "*/":
            changed = True
        else:
            if out and value(out[0][1], known) == 0 and sign == "*" and len(out) == 1:
                continue
            out.append((sign, factor))
    if not changed:
        return items
    if not out:
        return [Token("number", "1", items[0].space)]
    if out[0][0] != "*":
        return items
    first = out[0][1]
    if len(out) == 1 and value(first, known) == 0:
        return [Token("number", "0", items[0].space)]
    result = [Token(first[0].kind, first[0].text, items[0].space), *first[1:]]
    for sign, factor in out[1:]:
        result += [Token("operator", sign, " "), Token(factor[0].kind, factor[0].text, " "), *factor[1:]]
    return result


def _pieces(items: list[Token], by: set[str]) -> tuple[list[list[Token]], list[Token]]:
    parts, signs, depth = [[]], [], 0
    for token in items:
        depth += (token.text in CLOSING) - (token.text in CLOSING.values())
        if depth == 0 and token.text in by and token.kind == "operator":
            parts.append([])
            signs.append(token)
        else:
            parts[-1].append(token)
    return parts, signs


# Statements ----------------------------------------------------------------------------------------------------------


@dataclass
class Node:
    kind: str  # leaf, comment, directive, block, if, loop, definition
    items: list[Token] = field(default_factory=list)  # text of a leaf; condition, head
    children: list[Node] = field(default_factory=list)
    orelse: list[Node] = field(default_factory=list)
    note: str = ""  # a comment on the same line
    flat: bool = False  # stood on one line
    beside: bool = False  # stood on the line of the statement before


class Parser:
    def __init__(self, items: list[Token]):
        self.items, self.at = items, 0

    def body(self) -> list[Node]:
        found = []
        while self.at < len(self.items) and self.items[self.at].text != "}":
            found += self.statement()
        return found

    def statement(self) -> list[Node]:
        """One statement, and the comments and directives before it."""
        before: list[Node] = []
        while self.items[self.at].kind in ("comment", "directive"):
            token = self.items[self.at]
            before.append(Node(token.kind, [token]))
            self.at += 1
            if self.at == len(self.items) or self.items[self.at].text == "}":
                return before
        word = self.items[self.at].text
        if word == "{":
            return [*before, self.block()]
        if word == "if":
            self.at += 1
            constexpr = self.items[self.at].text == "constexpr"
            self.at += constexpr
            condition = self.group()
            note = self.comment()
            then = self.statement()
            orelse = []
            if self.at < len(self.items) and self.items[self.at].text == "else":
                self.at += 1
                note = note or self.comment()
                orelse = self.statement()
            node = Node("if", condition, then, orelse, note)
            node.flat = constexpr
            return [*before, node]
        if word in ("for", "while"):
            start = self.at
            self.at += 1
            self.group()
            head = self.items[start : self.at]
            note = self.comment()
            return [*before, Node("loop", head, self.statement(), note=note)]
        return [*before, self.simple()]

    def comment(self) -> str:
        """One that stands behind what was read, on its line."""
        if self.at < len(self.items):
            token = self.items[self.at]
            if token.kind == "comment" and "\n" not in token.space:
                self.at += 1
                return token.text
        return ""

    def group(self) -> list[Token]:
        end = _closing(self.items, self.at)
        inner = self.items[self.at + 1 : end]
        self.at = end + 1
        return inner

    def block(self) -> Node:
        end = _closing(self.items, self.at)
        flat = not any("\n" in t.space for t in self.items[self.at + 1 : end + 1])
        self.at += 1
        note = self.comment()
        children = self.body()
        self.at = end + 1
        node = Node("block", children=children, flat=flat)
        if note:
            node.children.insert(0, Node("comment", [Token("comment", note, "\n")]))
        node.note = self.comment()
        return node

    def simple(self) -> Node:
        """Up to its semicolon; a function or struct, up to its brace."""
        start, assigned = self.at, False
        is_enum = False
        while self.at < len(self.items):
            token = self.items[self.at]
            if token.text == "{" and not assigned and not is_enum and self.items[self.at - 1].text != "]":
                head = self.items[start : self.at]
                if not any(t.text == "return" for t in head) and (
                    head
                    and (
                        head[-1].text in (")", "const")
                        or head[0].text in ("struct", "template", "namespace")
                        or any(t.text == "struct" for t in head)
                    )
                ):
                    inner = self.block()
                    node = Node("definition", head, [inner])
                    if self.at < len(self.items) and self.items[self.at].text == ";":
                        self.at += 1
                        node.orelse = [Node("leaf")]  # a semicolon follows
                    node.note = inner.note or self.comment()
                    inner.note = ""
                    return node
            is_enum = is_enum or token.text == "enum"
            assigned = assigned or token.text == "="
            if token.text in CLOSING:
                self.at = _closing(self.items, self.at) + 1
                continue
            self.at += 1
            if token.text == ";":
                break
        node = Node("leaf", self.items[start : self.at])
        node.beside = start > 0 and "\n" not in self.items[start].space and self.items[start - 1].text == ";"
        node.note = self.comment()
        return node


def pruned(nodes: list[Node], known: dict[str, int]) -> list[Node]:
    known = dict(known)
    out: list[Node] = []
    for position, node in enumerate(nodes):
        if node.kind == "leaf":
            node = Node("leaf", simplified(node.items, known), note=node.note, beside=node.beside)
            texts = [t.text for t in node.items]
            if texts[:1] in (["constexpr"], ["const"]) and texts[1:2] in (["int"], ["bool"]):
                for name, items in _declared(node.items[2:-1]):
                    found = value(items, known)
                    known.pop(name, None)
                    if found is not None:
                        known[name] = found
            elif match := NAMED.match(plain(node.items)):
                known.pop(match[1], None)
            out.append(node)
            if texts in (["continue", ";"], ["return", ";"]):
                break
        elif node.kind == "if":
            condition = _logical(simplified(node.items, known), known)
            decided = value(condition, known)
            if decided is not None:
                chosen = pruned(node.children if decided else node.orelse, known)
                rest = nodes[:position] + nodes[position + 1 :]
                while out and not chosen and out[-1].kind == "directive" and "unroll" in out[-1].items[0].text:
                    out.pop()
                out += _spliced(chosen, rest)
                if (
                    decided
                    and chosen
                    and chosen[-1].kind == "leaf"
                    and [t.text for t in chosen[-1].items] in (["continue", ";"], ["return", ";"])
                ):
                    break
                continue
            then, other = _one(pruned(node.children, known)), _one(pruned(node.orelse, known))
            out.append(Node("if", condition, then or [Node("block")], other, node.note, node.flat))
        elif (
            node.kind == "loop"
            and (name := _single(node, known))
            and not _leaves(once := pruned(_substituted(node.children, name), known))
        ):
            while out and out[-1].kind == "directive" and "unroll" in out[-1].items[0].text:
                out.pop()
            out += _spliced(once, nodes[:position] + nodes[position + 1 :])
        elif node.kind in ("loop", "definition"):
            if node.kind == "definition":
                inside = {
                    k: v for k, v in known.items() if k.isupper() or k.startswith("sizeof") or k in ("true", "false")
                }
            else:
                own = set(re.findall(r"\b(?:int|unsigned|auto) (\w+) =|, (\w+) =", plain(node.items)))
                inside = {k: v for k, v in known.items() if not any(k in pair for pair in own)}
            inner = _one(pruned(node.children, inside))
            out.append(Node(node.kind, simplified(node.items, inside), inner, node.orelse, node.note))
        elif node.kind == "block":
            out.append(Node("block", children=pruned(node.children, known), note=node.note, flat=node.flat))
        else:
            out.append(node)
    return out


def _one(nodes: list[Node]) -> list[Node]:
    """What a loop or a condition governs must be one statement."""
    if sum(n.kind not in ("comment", "directive") for n in nodes) > 1:
        return [Node("block", children=nodes)]
    return nodes


def _single(node: Node, known: dict[str, int]) -> str | None:
    """The variable of a loop that runs once, from 0."""
    items = node.items
    if [t.text for t in items[:5]][:3] != ["for", "(", "int"] or [t.text for t in items[4:7]] != ["=", "0", ";"]:
        return None
    name = items[3].text
    condition, step = _split(items[7:-1], {";"})[:2]
    if [t.text for t in condition[:2]] != [name, "<"]:
        return None
    bound = value(condition[2:], known)
    by = 1 if name in [t.text for t in step] and "++" in [t.text for t in step] and len(step) == 2 else None
    if [t.text for t in step[:2]] == [name, "+="]:
        by = value(step[2:], known)
    if bound is None or not by or not 0 < bound <= by:
        return None
    return name


def _leaves(nodes: list[Node]) -> bool:
    """Whether a loop over these would be left or continued from within."""
    for node in nodes:
        if node.kind == "leaf" and node.items and node.items[0].text in ("continue", "break"):
            return True
        if node.kind in ("if", "block") and _leaves([*node.children, *node.orelse]):
            return True
    return False


def _substituted(nodes: list[Node], name: str) -> list[Node]:
    zero = lambda items: [Token("number", "0", t.space) if t.text == name else t for t in items]  # noqa: E731
    out = []
    for n in nodes:
        if re.search(rf"\b(?:int|float|unsigned|REAL) {name} =", plain(n.items)):  # another of that name
            out.append(n)
            continue
        inner = _substituted(n.children, name), _substituted(n.orelse, name)
        out.append(Node(n.kind, zero(n.items), *inner, n.note, n.flat, n.beside))
    return out


NAMED = re.compile(r"^(?:const |constexpr |static )*[A-Za-z_][\w<>, ]*?[*& ]+(\w+)(?: =|\[|;|\()")


def _spliced(chosen: list[Node], rest: list[Node]) -> list[Node]:
    """A block that lost its `if`: its statements, where none of its names is one of the neighbours'."""
    if len(chosen) != 1 or chosen[0].kind != "block":
        return chosen
    own = set()
    for node in chosen[0].children:
        if node.kind == "leaf" and (match := NAMED.match(plain(node.items))):
            own.add(match[1])
            own |= set(re.findall(r", \*?(\w+) =", plain(node.items)))
    words = {t.text for node in rest for t in _all(node) if t.kind == "word"}
    return chosen if own & words else chosen[0].children


def _all(node: Node):
    yield from node.items
    for child in [*node.children, *node.orelse]:
        yield from _all(child)


# Printing ------------------------------------------------------------------------------------------------------------


def plain(items: list[Token]) -> str:
    """On one line, unless a comment stands in between."""
    out = ""
    for i, token in enumerate(items):
        space = re.sub(r"\s*\n\s*", " ", token.space) if i else ""
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
        body = _braced(indent + plain(node.items) + " ", node.children[0], depth, note, tail)
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
    if len(nodes) == 1 and nodes[0].kind == "block":
        return _braced(head + " ", nodes[0], depth, note)
    if len(nodes) == 1 and nodes[0].kind == "leaf":
        text = plain(nodes[0].items)
        behind = note or (f"  {nodes[0].note}" if nodes[0].note else "")
        if "\n" not in text and len(head) + len(text) + 1 <= _widths[-1]:
            return [f"{head} {text}{behind}"]
    inner = printed(nodes, depth + 1)
    return [head + note, *inner]


def _braced(head: str, block: Node, depth: int, note: str, tail: str = "") -> list[str]:
    indent = "    " * depth
    note = note or (f"  {block.note}" if block.note else "")
    if not block.children:
        return [f"{head}{{}}{tail}{note}"]
    if block.flat and all(c.kind == "leaf" and not c.note for c in block.children) and len(block.children) < 4:
        text = " ".join(plain(c.items) for c in block.children)
        if len(head) + len(text) + 4 <= _widths[-1] and "\n" not in text:
            return [f"{head}{{ {text} }}{tail}{note}"]
    return [f"{head}{{{note}", *printed(block.children, depth + 1), f"{indent}}}{tail}"]


def wrapped(indent: str, text: str, note: str) -> list[str]:
    """Broken behind commas and operators where it is too long for a line."""
    lines: list[str] = []
    for line in text.split("\n"):
        line = (indent if not line.startswith("#") else "") + line.strip()
        while len(line) > _widths[-1]:
            cut = _break(line, _widths[-1])
            if cut is None:
                break
            lines.append(line[:cut].rstrip())
            line = f"{indent}    {line[cut:].lstrip()}"
        lines.append(line)
    lines[-1] += note
    return lines


def _break(line: str, width: int) -> int | None:
    """Where to break: the least nested comma or operator in the last part of the line, outside strings."""
    best, depth, quoted = None, 0, False
    for i, c in enumerate(line[:width]):
        if c == '"' and line[i - 1] != "\\":
            quoted = not quoted
        if quoted:
            continue
        depth += (c in "([{") - (c in ")]}")
        rest = line[i + 1 :]
        if i > len(line) - len(line.lstrip()) + 24 and (
            (c == "," and rest.startswith(" "))
            or (c == " " and re.match(r"(?:\|\||&&|\?|:|\+) ", rest))
            or (c == ";" and rest.startswith(" "))
        ):
            score = (-depth, i)
            if best is None or (score[0] >= best[0] if i > width // 2 or best[1] < width // 2 else False):
                best = score
    return best[1] + 1 if best else None


MACRO = re.compile(r"#define (\w+)(?:\(([^)]*)\))? ?(.*)")


def expanded(items: list[Token]) -> list[Token]:
    """Macros that a function defines for itself, written out."""
    macros: dict[str, tuple[list[str] | None, list[Token]]] = {}
    out: list[Token] = []

    def expand(run: list[Token]) -> list[Token]:
        found, i = [], 0
        while i < len(run):
            token = run[i]
            if token.kind != "word" or token.text not in macros:
                found.append(token)
                i += 1
                continue
            names, body = macros[token.text]
            given = {}
            i += 1
            if names is not None:
                end = _closing(run, i)
                given = dict(zip(names, (expand(a) for a in _split(run[i + 1 : end], {","}))))
                i = end + 1
            text: list[Token] = []
            for part in body:
                if part.text in given:
                    inner = given[part.text]
                    text += [Token(inner[0].kind, inner[0].text, part.space), *inner[1:]]
                else:
                    text.append(part)
            text = expand(text)
            found += [Token(text[0].kind, text[0].text, token.space), *text[1:]]
        return found

    pending: list[Token] = []
    for token in items:
        match = MACRO.match(token.text) if token.kind == "directive" else None
        if match or token.text.startswith("#undef"):
            out += expand(pending)
            pending = []
            if match:
                names = [n.strip() for n in match[2].split(",")] if match[2] is not None else None
                macros[match[1]] = names, tokens(match[3])
        else:
            pending.append(token)
    return out + expand(pending)


def without_unused(nodes: list[Node]) -> list[Node]:
    """Local constants that nothing reads any more are gone."""
    while True:
        counts: dict[str, int] = {}
        for node in nodes:
            for token in _all(node):
                counts[token.text] = counts.get(token.text, 0) + 1
        kept = _dropped(nodes, counts, 0)
        if kept == nodes:
            return kept
        nodes = kept


TYPED = re.compile(
    r"(?:const |constexpr )*(?:int|unsigned|bool|float|double|REAL|long long|unsigned long long)(?: ?\*)?"
)


def _declaring(node: Node, counts: dict[str, int]) -> list[Node]:
    """A declaration without the names that are used nowhere."""
    equals = _find(node.items, "=")
    if equals is None or equals < 2 or not TYPED.fullmatch(plain(node.items[: equals - 1])):
        return [node]
    parts = _split(node.items[equals - 1 : -1], {","})
    used = [
        p
        for p in parts
        if counts[p[0].text] > 1 or re.search(r"\w\(|\+\+|--|\{", plain(p)) or len(p) < 3 or p[1].text != "="
    ]
    if len(used) == len(parts):
        return [node]
    if not used:
        return []
    items = list(node.items[: equals - 1])
    for i, part in enumerate(used):
        items += (
            [Token(part[0].kind, part[0].text, " "), *part[1:]]
            if not i
            else [Token("operator", ",", ""), Token(part[0].kind, part[0].text, " "), *part[1:]]
        )
    return [Node("leaf", [*items, node.items[-1]], note=node.note, beside=node.beside)]


def _dropped(nodes: list[Node], counts: dict[str, int], depth: int) -> list[Node]:
    out = []
    for node in nodes:
        if node.kind == "leaf":
            text = plain(node.items)
            if text.startswith("(void)"):
                continue
            out += [node] if not depth else _declaring(node, counts)
            continue
        out.append(
            Node(
                node.kind,
                node.items,
                _dropped(node.children, counts, depth + 1),
                _dropped(node.orelse, counts, depth + 1),
                node.note,
                node.flat,
                node.beside,
            )  # fmt: skip
        )
    return out


def specialised(text: str, known: dict[str, int]) -> str:
    """A top-level declaration for these constants."""
    nodes = pruned(Parser(expanded(tokens(text))).body(), known)
    long = 400 if "wgmma.mma_async" in text else 220 if "asm" in text and text.count("\n") < 8 else WIDTH
    _widths.append(long)
    lines = printed(without_unused(nodes))
    _widths.pop()
    return "\n".join(lines)
