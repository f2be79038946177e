"""A long file's functions in fewer lines: what is computed to be read stands where it is read, if that takes a line less."""

from __future__ import annotations

import re

from transfuse.emit.text.fewer_names import one_instruction, one_line_functions
from transfuse.emit.text.layout import lines_of
from transfuse.emit.text.same_elements import same_elements
from transfuse.emit.text.tokens import split, tokens, until_settled
from transfuse.emit.text.typed import Tree, Unread, said, tree_of, with_names

FUNCTION = re.compile(r"(?m)^(?:__global__|DEVICE|template|static __device__) [^\n]*\{\n(?:[ #][^\n]*\n)+\}")
DECLARED = re.compile(r"(?P<I> *)const (?P<type>int|bool) (?P<list>\w+ = [^;{}]*);")
OPERATORS = {"min", "max"}  # what may be called


def fewer(text: str) -> str:
    """Device code, its lines not yet broken."""
    text = same_elements(one_line_functions(one_instruction(text)))
    return FUNCTION.sub(lambda m: _shortest(braces(m[0])), text)


def _shortest(text: str) -> str:
    lines, again = lines_of(text), True
    while again:
        again = False
        for new in _ways(text.split("\n")):
            if (count := lines_of(new)) < lines:
                text, lines, again = new, count, True
                break
    return text


def _ways(lines: list[str]):
    """The function without one declaration, or without those of one line; with those that follow one another in one."""
    for i, line in enumerate(lines):
        if match := DECLARED.fullmatch(line):
            names = dict(_named(match["list"]))
            for wanted in [list(names), *([name] for name in names)] if len(names) > 1 else [list(names)]:
                if new := _read_there(lines, i, match, wanted):
                    yield braces("\n".join(new))
                    yield from _together(new, max(i - 1, 1))
            yield from _together(lines, i)


def _together(lines: list[str], i: int):
    """Two and more declarations of a type that follow one another from line i on, in one."""
    first = DECLARED.fullmatch(lines[i])
    for k in range(i + 1, len(lines)):
        next_ = DECLARED.fullmatch(lines[k])
        if not first or not next_ or next_.group("I", "type") != first.group("I", "type"):
            return
        lists = [DECLARED.fullmatch(line)["list"] for line in lines[i : k + 1]]
        yield "\n".join([*lines[:i], f"{first['I']}const {first['type']} {', '.join(lists)};", *lines[k + 1 :]])


def _named(list_: str) -> list[tuple[str, str]]:
    parts = ["".join(t.space + t.text for t in part).strip() for part in split(tokens(list_), {","})]
    return [(name, value) for name, mark, value in (part.partition(" = ") for part in parts) if mark]


def _read_there(lines: list[str], i: int, match: re.Match, wanted: list[str]) -> list[str] | None:
    """Without the names wanted, each of them in place of its value: whole numbers of what stays as it is."""
    end = next(k for k in range(i + 1, len(lines)) if not re.match(rf"{match['I']}|#", lines[k]))
    scope, by = lines[i + 1 : end], {}
    kept: list[str] = []
    if _of_one_kernel(scope):
        return None
    for name, value in _named(match["list"]):
        try:
            tree = with_names(tree_of(value), by)
        except Unread:
            return None
        reads = len(re.findall(rf"\b{name}\b", "\n".join([match["list"], *scope]))) - 1
        if name in wanted and (reads == 1 or tree.kind == "name") and _lasting(lines, scope, tree, name):
            by[name] = tree
        else:
            kept.append(f"{name} = {said(tree)}")
    if not by:
        return None
    new = []
    for line in scope:
        for name, tree in by.items():
            line = re.sub(rf"\b{name}\b", lambda m, line=line, tree=tree: _within(line, m, tree), line)
        new.append(line)
    own = [f"{match['I']}const {match['type']} {', '.join(kept)};"] if kept else []
    return [*lines[:i], *own, *new, *lines[end:]]


def _of_one_kernel(scope: list[str]) -> bool:
    """Whether what the preprocessor leaves to some kernels ends within: others have the name from elsewhere."""
    depth = 0
    for line in scope:
        depth += line.startswith("#if") - line.startswith("#endif")
        if depth < 0 or (depth == 0 and line.startswith("#el")):
            return True
    return False


def _within(line: str, use: re.Match, tree: Tree) -> str:
    """The value, in brackets where what stands beside it would bind its parts."""
    text, (before, after) = said(tree), (line[: use.start()], line[use.end() :])
    begins = re.search(r"(?:[\[,] ?|= |&& |\|\| |(?<![*\w])\(|\w\()$", before)
    sum_ = begins and re.match(r"[\]),;]| [-+<>=!?&|]", after)
    product = begins or (before.endswith(" + ") and tree.kind == "binary" and tree.text in "*/%")
    alone = tree.kind in ("name", "number", "call") or (tree.kind == "binary" and tree.text in "+-" and sum_)
    alone = alone or (tree.kind == "binary" and tree.text in "*/%" and product and not after.startswith(("[", ".")))
    return text if alone or (begins and re.match(r"[\]),;]", after)) else f"({text})"


def _lasting(lines: list[str], scope: list[str], tree: Tree, own: str) -> bool:
    """Whether the value is one of whole numbers that nothing changes, and none of their names is another's where it is read."""
    if tree.kind in ("index", "member", "cast", "unary", "choice") or (
        tree.kind == "number" and not tree.text.isdigit()
    ):
        return False
    if tree.kind == "call" and tree.of[0].text not in OPERATORS:
        return False
    if tree.kind != "name":
        return all(_lasting(lines, scope, part, own) for part in tree.of[tree.kind == "call" :])
    if tree.text.isupper():
        return True
    name, inner = tree.text, "\n".join(scope)
    declared = r"(?:^|[ (])int (?:[^;()]*, )?"
    changed = rf"(?:\+\+|--){name}\b|\b{name}(?:\+\+|--| [-+*/%|&^]?= )"
    again = [re.search(rf"{declared}{n}(?: = |,|\))", inner) for n in (name, own)]
    whole = re.search(rf"(?m){declared}{name}\b", "\n".join(lines))
    return bool(whole) and not any(again) and not re.search(changed, inner)


BRACES = re.compile(
    r"(?m)^(?P<I> *)(?P<head>(?:UNROLL )?(?:for|if) \([^\n]*\)) \{\n"
    r"(?P<one>(?P=I)    (?!const|\})[^\n]*(?:\{\n(?:(?P=I)     [^\n]*\n)*(?P=I)    \}|(?<!\{)(?:\n(?P=I)     [^\n]*)*)\n)(?P=I)\}(?! else)$"
)


def braces(text: str) -> str:
    """What is one statement needs none."""

    def bare(m: re.Match) -> str:
        return f"{m['I']}{m['head']}\n{m['one'].rstrip()}" if _is_one(m["one"]) else m[0]

    return until_settled(BRACES, bare, text)


def _is_one(text: str) -> bool:
    """Whether it is one statement: several may stand on a line."""
    code = re.sub(r"//[^\n]*", "", text).strip()
    depth, ends = 0, []
    for i, c in enumerate(code):
        depth += (c in "([{") - (c in ")]}")
        if depth == 0 and c in ";}" and not re.match(r"\s*(?:else\b|[;,)])", code[i + 1 :]):
            ends.append(i)
    return ends == [len(code) - 1]
