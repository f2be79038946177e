"""Statements for the constants of one kernel: branches never taken, loops of one turn and names nobody reads are gone."""

from __future__ import annotations

import re
from dataclasses import replace

from transfuse.emit.text.arrays import read
from transfuse.emit.text.blocks import changed, copies_gone, negated, parameter_itself, tidied, without_early_return
from transfuse.emit.text.expressions import logical, simplified
from transfuse.emit.text.layout import plain
from transfuse.emit.text.ranges import THREADS, WARPGROUP, Range, interval, parted, turns, value
from transfuse.emit.text.statements import Node, every
from transfuse.emit.text.tokens import Token, closing, split, tokens
from transfuse.emit.text.values import Function, declared, vector


def pruned(nodes: list[Node], known: dict[str, int], holds: frozenset[str] = frozenset()) -> list[Node]:
    """`holds`: conditions asked before, of which nothing has changed since."""
    known = dict(known)
    nodes = list(nodes)
    out: list[Node] = []
    for position, node in enumerate(nodes):
        if node.kind == "leaf":
            node = Node("leaf", simplified(node.items, known), note=node.note, beside=node.beside)
            texts = [t.text for t in node.items]
            if len(texts) == 4 and texts[1] in ("+=", "-=") and texts[2] == "0":
                continue
            if (match := INTO.match(plain(node.items))) and isinstance(known.get(match[2]), Range):
                known[match[1]] = known[match[2]]
            elif texts[:1] in (["constexpr"], ["const"]) and texts[1:2] in (["int"], ["bool"]):
                for name, items in declared(node.items[2:-1]):
                    found = vector(items, known)
                    found = interval(items, known) if found is None and texts[1] == "int" else found
                    known.pop(name, None)
                    if found is not None:
                        known[name] = found
                    number = _number(items, found)
                    if texts[0] == "const" and number is not None:
                        nodes[position + 1 :] = _substituted(nodes[position + 1 :], name, number)
            elif match := NAMED.match(plain(node.items)):
                known.pop(match[1], None)
            out.append(node)
            if texts == ["continue", ";"] or texts[:1] == ["return"]:
                break
        elif node.kind == "if":
            condition = logical(simplified(node.items, known), known)
            decided = 1 if plain(condition) in holds else value(condition, known)
            if decided is not None:
                chosen = pruned(node.children if decided else node.orelse, known, holds)
                while out and not chosen and out[-1].kind == "directive" and "unroll" in out[-1].items[0].text:
                    out.pop()
                out += _spliced(chosen, out, nodes[position + 1 :])
                if chosen and chosen[-1].kind == "leaf" and chosen[-1].items[0].text in ("continue", "return"):
                    break
                continue
            inside = holds | {plain(condition)} if _lasting(condition, node.children) else holds
            below, above = parted(condition, known)
            then, other = _one(pruned(node.children, below, inside)), _one(pruned(node.orelse, above, holds))
            if (
                [plain(n.items) for n in then] == ["continue;"]
                and not other
                and _lasting(condition, nodes[position + 1 :])
            ):
                holds = holds | {plain(negated(condition))}
            out.append(Node("if", condition, then or [Node("block")], other, node.note, node.flat))
        elif (
            node.kind == "loop"
            and (name := _single(node, known, nodes[position + 1 :]))
            and not _leaves(once := pruned(_nested(_substituted(node.children, name)), known, holds))
        ):
            while out and out[-1].kind == "directive" and "unroll" in out[-1].items[0].text:
                out.pop()
            out += _spliced(once, out, nodes[position + 1 :])
        elif node.kind == "loop" and _none(node, known):
            while out and out[-1].kind == "directive" and "unroll" in out[-1].items[0].text:
                out.pop()
        elif node.kind in ("loop", "definition"):
            if node.kind == "definition":
                inside = {
                    k: v
                    for k, v in known.items()
                    if k.isupper()
                    or k.startswith("sizeof")
                    or k in ("true", "false")
                    or isinstance(v, Function)
                    or (isinstance(v, Range) and v.table)
                }
                if role := re.search(r"(\w+)\([^()]*\bint t\)", plain(node.items)):
                    inside["t"] = WARPGROUP if role[1] in ("store_role", "product_role") else THREADS
                if bounds := re.search(r"__launch_bounds__\((\d+)", plain(node.items)):
                    inside["threadIdx"] = Range(0, int(bounds[1]) - 1)
            else:
                own = set(re.findall(r"\b(?:int|unsigned|auto) (\w+) =|, (\w+) =", plain(node.items)))
                inside = {k: v for k, v in known.items() if not any(k in pair for pair in own)}
                if (counted := turns(node.items, known)) and counted[0] not in changed(node.children):
                    inside[counted[0]] = counted[1]
            inner = _one(pruned(node.children, inside, holds if node.kind == "loop" else frozenset()))
            if node.kind == "definition":
                inner = parameter_itself(node.items, without_early_return(inner))
            head = {k: v for k, v in inside.items() if not isinstance(v, Range) or v.table}
            if node.kind == "loop" and node.children and not inner and plain(node.items).startswith("for (int "):
                continue  # of nothing
            out.append(Node(node.kind, simplified(node.items, head), inner, node.orelse, node.note))
        elif node.kind == "block":
            inner = tidied(copies_gone(pruned(node.children, known, holds)))
            while len(inner) == 1 and inner[0].kind == "block" and not inner[0].note:
                inner = inner[0].children
            block = Node("block", children=inner, note=node.note, flat=node.flat)
            out += _spliced([block], out, nodes[position + 1 :]) if len(nodes) > 1 else [block]
        else:
            out.append(node)
    return out


ITSELF = re.compile(r"const int (\w+) = (\(int\)blockIdx\.x|\w+);")


def differences_gone(text: str) -> str:
    """Of a kernel's text: what is taken from itself is nothing, and the smaller of a number and itself is the number."""
    for name, whole in ITSELF.findall(text):
        text = re.sub(rf"\(?(?<![\w.]){re.escape(whole)} - {name}\b\)?", "0", text)
    text = re.sub(r"((?:[=,(]) ?)(\w+) - \2\b(?! *[*/%.\[])", r"\g<1>0", text)
    return re.sub(r"\bmin\((\w+), \1\)", r"\1", text)


def _number(items: list[Token], found) -> str | None:
    """What stands as well where the name does: a number, or nothing."""
    if len(items) == 1 and items[0].kind == "number":
        return items[0].text
    nothing = found == 0 or (isinstance(found, Range) and found.lo == found.hi == 0)
    return "0" if nothing and not isinstance(found, bool) else None


INTO = re.compile(r"const int\* (\w+) = (\w+)(?: \+ .*)?;")  # a pointer into a table


def _lasting(condition: list[Token], nodes: list[Node]) -> bool:
    """Whether a comparison of names holds wherever it is asked again among these."""
    words = {t.text for t in condition if t.kind == "word"}
    return not any(t.text in ("(", "[", ".", "=", "&&", "||") for t in condition) and not words & changed(nodes)


def _one(nodes: list[Node]) -> list[Node]:
    """What a loop or a condition governs must be one statement."""
    if sum(n.kind not in ("comment", "directive") for n in nodes) > 1:
        return [Node("block", children=nodes)]
    return nodes


def _single(node: Node, known: dict[str, int], behind: list[Node]) -> str | None:
    """The variable of a loop that runs once, from 0; what else it counts on is not read behind it."""
    items = node.items
    if [t.text for t in items[:5]][:3] != ["for", "(", "int"] or [t.text for t in items[4:7]] != ["=", "0", ";"]:
        return None
    name = items[3].text
    condition, step = split(items[7:-1], {";"})[:2]
    if [t.text for t in condition[:2]] != [name, "<"]:
        return None
    bound = value(condition[2:], known)
    step, *others = split(step, {","})
    if {part[0].text for part in others} & {t.text for n in behind for t in every(n)}:
        return None
    by = 1 if name in [t.text for t in step] and "++" in [t.text for t in step] and len(step) == 2 else None
    if [t.text for t in step[:2]] == [name, "+="]:
        by = value(step[2:], known)
    if bound is None or not by or not 0 < bound <= by:
        return None
    return name


def _none(node: Node, known: dict[str, int]) -> bool:
    """Whether a loop ends before its first turn."""
    match = re.match(r"for \(int (\w+) = (\w+); \1 < (\w+);", plain(node.items))
    first, end = (value(tokens(match[k]), known) for k in (2, 3)) if match else (None, None)
    return first is not None and end is not None and first >= end


def _nested(nodes: list[Node]) -> list[Node]:
    """A loop's body in which `if (c) continue;` governs what follows as `if (!(c)) { … }`."""
    if len(nodes) == 1 and nodes[0].kind == "block":
        return [replace(nodes[0], children=_nested(nodes[0].children))]
    for i, node in enumerate(nodes):
        if node.kind == "if" and not node.orelse and [plain(n.items) for n in node.children] == ["continue;"]:
            rest = _nested(nodes[i + 1 :])
            return [*nodes[:i], Node("if", negated(node.items), [Node("block", children=rest)], note=node.note)]
    return nodes


def _leaves(nodes: list[Node]) -> bool:
    """Whether a loop over these would be left or continued from within."""
    for node in nodes:
        if node.kind == "leaf" and node.items and node.items[0].text in ("continue", "break"):
            return True
        if node.kind in ("if", "block") and _leaves([*node.children, *node.orelse]):
            return True
    return False


def _substituted(nodes: list[Node], name: str, number: str = "0") -> list[Node]:
    out = []
    again = re.compile(rf"(?:\b(?:int|float|unsigned|REAL|double|long|tf_index) |, ){name} =")
    for i, n in enumerate(nodes):
        if again.search(plain(n.items)):  # another of that name: until the block's end, or in a loop of its own
            if n.kind == "leaf":
                return [*out, *nodes[i:]]
            out.append(n)
            continue
        inner = _substituted(n.children, name, number), _substituted(n.orelse, name, number)
        out.append(Node(n.kind, _read_as(n.items, name, number), *inner, n.note, n.flat, n.beside))
    return out


def _read_as(items: list[Token], name: str, number: str) -> list[Token]:
    members = [False, *(t.text in (".", "->") for t in items)]
    hidden = _hidden(items, name)
    named = [t.text == name and not member and i not in hidden for i, (t, member) in enumerate(zip(items, members))]
    return [Token("number", number, t.space) if n else t for t, n in zip(items, named)]


def _hidden(items: list[Token], name: str) -> set[int]:
    """Places within functions that have a parameter of that name: [](float a, float b) { … }."""
    found: set[int] = set()
    for i, token in enumerate(items):
        if token.text == "]" and i + 1 < len(items) and items[i + 1].text == "(":
            end = closing(items, i + 1)
            told = any(t.text == name and items[k - 1].kind == "word" for k, t in enumerate(items[:end]) if k > i + 2)
            if told and end + 1 < len(items) and items[end + 1].text == "{":
                found |= set(range(i, closing(items, end + 1)))
    return found


NAMED = re.compile(r"^(?:const |constexpr |static )*[A-Za-z_][\w<>, ]*?[*& ]+(\w+)(?: =|\[|;|\()")


def _spliced(chosen: list[Node], before: list[Node], behind: list[Node]) -> list[Node]:
    """A block that lost its `if`: its statements, where none of its names is one of the neighbours'. What loops before it call
    their own is seen within them alone."""
    if len(chosen) != 1 or chosen[0].kind != "block":
        return chosen
    words = {t.text for node in behind for t in every(node) if t.kind == "word"}
    for node in before:
        words |= {t.text for t in every(node) if t.kind == "word"} - (_within(node) if node.kind == "loop" else set())
    return chosen if set().union(*map(_own, chosen[0].children)) & words else chosen[0].children


def _own(node: Node) -> set[str]:
    """What a statement declares."""
    match = NAMED.match(plain(node.items)) if node.kind == "leaf" else None
    return {match[1], *re.findall(r", \*?(\w+) =", plain(node.items))} if match else set()


def _within(node: Node) -> set[str]:
    """What is declared in what a statement governs."""
    inner = [*node.children, *node.orelse]
    return set().union(*map(_own, inner), *map(_within, inner))


def _counts(nodes: list[Node]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in nodes:
        before = ""
        for token in every(node):
            if before not in (".", "->"):  # members have names of their own
                counts[token.text] = counts.get(token.text, 0) + 1
            before = token.text
    return counts


def without_unused(nodes: list[Node]) -> list[Node]:
    """Local constants that nothing reads any more are gone."""
    while True:
        counts = _counts(nodes)
        kept = _dropped(read(nodes, counts), counts, 0)
        if kept == nodes:
            return kept
        nodes = kept


TYPED = re.compile(
    r"(?:const |constexpr )*(?:int|unsigned|bool|float|double|REAL|Place|long long|unsigned long long)(?: ?\*)?"
)

WORDS_OF_A_TYPE = 6  # const constexpr unsigned long long *
ASKED = re.compile(r"Pump (\w+)\(")  # weights that are streamed; of a kernel that keeps them nobody asks
PURE = re.compile(r"\b(?:place_of|tf_pivot|tf_exp|tf_log|__longlong_as_double|__int_as_float)\(")


def _declaring(node: Node, counts: dict[str, int]) -> list[Node]:
    """A declaration without the names that are used nowhere."""
    longest = min(len(node.items), WORDS_OF_A_TYPE)
    begin = next((i for i in range(longest, 0, -1) if TYPED.fullmatch(plain(node.items[:i]))), 0)
    if not begin or begin + 1 >= len(node.items) or node.items[begin].kind != "word":
        return [node]
    parts = split(node.items[begin:-1], {","})
    used = [
        p
        for p in parts
        if counts[p[0].text] > 1
        or re.search(r"\w\(|\+\+|--|\{", PURE.sub("", plain(p)))
        or len(p) < 3
        or p[1].text != "="
    ]
    if len(used) == len(parts):
        return [node]
    if not used:
        return []
    items = list(node.items[:begin])
    for i, part in enumerate(used):
        items += (
            [Token(part[0].kind, part[0].text, " "), *part[1:]]
            if not i
            else [Token("operator", ",", ""), Token(part[0].kind, part[0].text, " "), *part[1:]]
        )
    return [Node("leaf", [*items, node.items[-1]], note=node.note, beside=node.beside)]


def _dropped(nodes: list[Node], counts: dict[str, int], depth: int, members: bool = False) -> list[Node]:
    """members: what is declared here others may read, who have one of the struct."""
    out = []
    if depth > 1 and all(n.kind != "definition" for n in nodes):
        counts = _counts(nodes)  # another block may have names like these
    for node in nodes:
        if node.kind == "leaf":
            text = plain(node.items)
            if text.startswith("(void)") or ((match := ASKED.match(text)) and counts[match[1]] == 1):
                continue
            out += [node] if not depth or members else _declaring(node, counts)
            continue
        struct = any(t.text == "struct" for t in node.items) if node.kind == "definition" else members
        out.append(
            Node(
                node.kind,
                node.items,
                _dropped(node.children, counts, depth + 1, struct),
                _dropped(node.orelse, counts, depth + 1),
                node.note,
                node.flat,
                node.beside,
            )
        )
    return out
