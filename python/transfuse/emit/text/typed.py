"""C expressions as trees with types: casts to what a value is, or becomes, anyway are gone, brackets stand where they must."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from transfuse.emit.text.tokens import Token, tokens

LEVELS = [
    ["||"],
    ["&&"],
    ["|"],
    ["^"],
    ["&"],
    ["==", "!="],
    ["<", ">", "<=", ">="],
    ["<<", ">>"],
    ["+", "-"],
    ["*", "/", "%"],
]
PRECEDENCE = {op: level for level, ops in enumerate(LEVELS) for op in ops}
UNARY, POSTFIX, CHOICE = len(LEVELS), len(LEVELS) + 1, -1
ARITHMETIC = ("+", "-", "*", "/")
RANK = {"int": 0, "STORED": 1, "float": 2, "double": 3}
TYPES = (("double",), ("float",), ("int",), ("long", "long"), ("unsigned",), ("STORED",))


class Unread(Exception):
    """A text that is no expression of those read here."""


@dataclass
class Tree:
    kind: str  # name, number, index, call, member, cast, unary, binary, choice
    text: str  # the word, the operator or the type
    of: list[Tree] = field(default_factory=list)


def tree_of(text: str) -> Tree:
    reader = _Reader([t for t in tokens(text) if t.kind != "comment"])
    found = reader.choice()
    if reader.at != len(reader.items):
        raise Unread(text)
    return found


class _Reader:
    def __init__(self, items: list[Token]):
        self.items, self.at = items, 0

    def seen(self, ahead: int = 0) -> str:
        return self.items[self.at + ahead].text if self.at + ahead < len(self.items) else ""

    def take(self, text: str) -> None:
        if self.seen() != text:
            raise Unread(text)
        self.at += 1

    def choice(self) -> Tree:
        found = self.binary(0)
        if self.seen() != "?":
            return found
        self.at += 1
        one = self.choice()
        self.take(":")
        return Tree("choice", "?", [found, one, self.choice()])

    def binary(self, level: int) -> Tree:
        if level == len(LEVELS):
            return self.unary()
        found = self.binary(level + 1)
        while self.seen() in LEVELS[level]:
            self.at += 1
            found = Tree("binary", self.items[self.at - 1].text, [found, self.binary(level + 1)])
        return found

    def cast(self) -> str | None:
        for words in TYPES:
            if self.seen() == "(" and all(self.seen(1 + i) == w for i, w in enumerate(words)):
                if self.seen(1 + len(words)) == ")":
                    self.at += 2 + len(words)
                    return " ".join(words)
        return None

    def unary(self) -> Tree:
        if type_ := self.cast():
            return Tree("cast", type_, [self.unary()])
        if self.seen() in ("-", "!", "~", "&", "*"):
            self.at += 1
            return Tree("unary", self.items[self.at - 1].text, [self.unary()])
        return self.postfix()

    def postfix(self) -> Tree:
        if self.seen() == "(":
            self.at += 1
            found = self.choice()
            self.take(")")
        elif self.at < len(self.items) and self.items[self.at].kind in ("word", "number"):
            found = Tree({"word": "name"}.get(self.items[self.at].kind, "number"), self.seen())
            self.at += 1
            if (self.seen(), self.seen(2), self.seen(3)) == ("<", ">", "(") and (self.seen(1),) in TYPES:
                found = Tree("name", f"{found.text}<{self.seen(1)}>")  # a function of a type
                self.at += 3
        else:
            raise Unread(self.seen())
        while self.seen() in ("[", "(", "."):
            mark = self.seen()
            self.at += 1
            if mark == ".":
                found = Tree("member", self.seen(), [found])
                self.at += 1
            elif mark == "[":
                found = Tree("index", "[", [found, self.choice()])
                self.take("]")
            else:
                given = []
                while self.seen() != ")":
                    given.append(self.choice())
                    if self.seen() != ")":
                        self.take(",")
                self.at += 1
                found = Tree("call", "(", [found, *given])
        return found


def _level(tree: Tree) -> int:
    if tree.kind == "binary":
        return PRECEDENCE[tree.text]
    return {"choice": CHOICE, "unary": UNARY, "cast": UNARY}.get(tree.kind, POSTFIX)


LOGICAL = ("||", "&&")


def said(tree: Tree, least: int = CHOICE) -> str:
    """The expression, in brackets where it binds less than `least`."""
    of, level = tree.of, _level(tree)
    if tree.kind in ("name", "number"):
        text = tree.text
    elif tree.kind == "index":
        text = f"{said(of[0], POSTFIX)}[{said(of[1])}]"
    elif tree.kind == "member":
        text = f"{said(of[0], POSTFIX)}.{tree.text}"
    elif tree.kind == "call":
        text = f"{said(of[0], POSTFIX)}({', '.join(said(a) for a in of[1:])})"
    elif tree.kind == "cast":
        text = f"({tree.text}){said(of[0], UNARY)}"
    elif tree.kind == "unary":
        text = f"{tree.text}{said(of[0], UNARY + (of[0].kind == 'unary'))}"
    elif tree.kind == "choice":
        text = f"{said(of[0], CHOICE + 1)} ? {said(of[1])} : {said(of[2])}"
    else:
        mixed = tree.text == "||" and of[0].text == "&&"
        text = f"{said(of[0], POSTFIX if mixed else level)} {tree.text} "
        mixed = tree.text == "||" and of[1].text == "&&"
        text += said(of[1], POSTFIX if mixed else level + 1)
    return f"({text})" if level < least else text


def type_of(tree: Tree, known: dict[str, str]) -> str | None:
    """known: of names their types, of pointers and arrays with a star behind. None where nothing is known."""
    if tree.kind == "number":
        whole = not any(c in tree.text for c in ".eE") or tree.text.startswith("0x")
        return "int" if whole else "float" if tree.text.endswith(("f", "F")) else "double"
    if tree.kind == "name":
        return known.get(tree.text)
    if tree.kind == "index":
        held = type_of(tree.of[0], known)
        return held[:-1] if held and held.endswith("*") else None
    if tree.kind == "cast":
        return tree.text
    if tree.kind == "unary" and tree.text == "-":
        return type_of(tree.of[0], known)
    if tree.kind == "call" and tree.of[0].text in ("tf_rsqrt", "tf_relu"):
        return type_of(tree.of[1], known)
    if tree.kind == "call" and tree.of[0].text in ROOTS:
        return ROOTS[tree.of[0].text]
    if tree.kind == "binary" and tree.text in ARITHMETIC:
        types = [type_of(a, known) for a in tree.of]
        if None not in types and all(t in RANK for t in types):
            found = max(types, key=RANK.get)
            return "float" if found == "STORED" else found
    if tree.kind == "binary" and tree.text == "%":
        return "int" if [type_of(a, known) for a in tree.of] == ["int", "int"] else None
    return None


def plainly(tree: Tree, known: dict[str, str], becomes: str | None = None) -> Tree:
    """Without casts that change nothing. becomes: the type that the value is made where it stands."""
    of = tree.of
    if becomes == "STORED" and (value := _rounded(tree)) is not None:  # a store rounds it
        return plainly(value, known, becomes)
    if tree.kind == "cast":
        inner = plainly(of[0], known, tree.text)
        if tree.text == "double" and inner.text == "float" and inner.kind == "cast":
            stored = type_of(inner.of[0], known) == "STORED"  # which becomes float by itself
            inner = inner.of[0] if stored else inner
        own = type_of(inner, known)
        if own == tree.text or (becomes == tree.text and own in RANK and RANK[own] < RANK.get(tree.text, -1)):
            return inner  # it is one, or becomes one by itself
        if becomes == tree.text == "float" and own == "double":
            return inner
        return Tree("cast", tree.text, [inner])
    if tree.kind == "binary" and tree.text in ARITHMETIC:
        one, other = (plainly(a, known) for a in of)
        one = _beside(one, other, known)
        return Tree("binary", tree.text, [one, _beside(other, one, known)])
    if tree.kind == "unary" and tree.text == "-":
        return replace(tree, of=[plainly(of[0], known)])
    tree = replace(tree, of=[plainly(a, known) for a in of])
    return _root(tree, known) if tree.kind == "call" and tree.of[0].text == "tf_rsqrt" else tree


def _rounded(tree: Tree) -> Tree | None:
    """Of what is rounded as in memory the value."""
    inner = tree.of[0] if tree.kind == "cast" and tree.text in ("float", "double") else tree
    return inner.of[1] if inner.kind == "call" and inner.of[0].text == "tf_round<STORED>" else None


ROOTS = {"sqrt": "double", "rsqrtf": "float"}


def _root(tree: Tree, known: dict[str, str]) -> Tree:
    """One over a root, by the function for what it is of."""
    of = type_of(tree.of[1], known)
    if of == "float":
        return Tree("call", "(", [Tree("name", "rsqrtf"), tree.of[1]])
    if of != "double":
        return tree
    return Tree("binary", "/", [Tree("number", "1.0"), Tree("call", "(", [Tree("name", "sqrt"), tree.of[1]])])


def _beside(mine: Tree, other: Tree, known: dict[str, str]) -> Tree:
    """An operand without a cast to what the operator makes of it beside the other one."""
    if mine.kind != "cast" or mine.text not in ("double", "float"):
        return mine
    own, theirs = type_of(mine.of[0], known), type_of(other, known)
    if own == "STORED" and theirs in ("float", "double"):  # which is float in every sum or product
        return mine.of[0]
    return mine.of[0] if own in RANK and theirs == mine.text and RANK[own] <= RANK[theirs] else mine


def with_names(tree: Tree, by: dict[str, Tree]) -> Tree:
    if tree.kind == "name":
        return by.get(tree.text, tree)
    if tree.kind == "call":  # a function is no value
        return replace(tree, of=[tree.of[0], *(with_names(a, by) for a in tree.of[1:])])
    return replace(tree, of=[with_names(a, by) for a in tree.of])


def names_in(tree: Tree) -> list[str]:
    return [tree.text] if tree.kind == "name" else [name for a in tree.of for name in names_in(a)]
