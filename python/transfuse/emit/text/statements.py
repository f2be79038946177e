"""Statements: what a reader indents."""

from __future__ import annotations

from dataclasses import dataclass, field

from transfuse.emit.text.tokens import CLOSING, Token, closing


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
        if word == "switch":
            start = self.at
            self.at += 1
            self.group()
            return [*before, Node("loop", self.items[start : self.at], [self.block()])]
        if word in ("case", "default"):
            start = self.at
            while self.items[self.at].text != ":":
                self.at += 1
            self.at += 1
            braced = self.items[self.at].text == "{"
            head = self.items[start : self.at]
            return [*before, Node("loop", head, [self.block()]) if braced else Node("leaf", head)]
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
        end = closing(self.items, self.at)
        inner = self.items[self.at + 1 : end]
        self.at = end + 1
        return inner

    def block(self) -> Node:
        end = closing(self.items, self.at)
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
        """Up to its semicolon; a function, one within another, or a struct, up to its brace."""
        start, assigned = self.at, False
        is_enum = False
        inner = [t.text for t in self.items[start : start + 4]]
        is_lambda = inner[:1] == ["auto"] and inner[2:] == ["=", "["]
        while self.at < len(self.items):
            token = self.items[self.at]
            if token.text == "{" and (
                is_lambda or (not assigned and not is_enum and self.items[self.at - 1].text != "]")
            ):
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
                self.at = closing(self.items, self.at) + 1
                continue
            self.at += 1
            if token.text == ";":
                break
        node = Node("leaf", self.items[start : self.at])
        node.beside = start > 0 and "\n" not in self.items[start].space and self.items[start - 1].text == ";"
        node.note = self.comment()
        return node


def every(node: Node) -> list[Token]:
    found = list(node.items)
    for child in [*node.children, *node.orelse]:
        found += every(child)
    return found
