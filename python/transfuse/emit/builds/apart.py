"""What some builds alone say: lines between #if and #endif, or line by line in a macro that is empty in the others."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable

from transfuse.emit.text.tokens import DEPTH, Token, tokens

FLAGS = {"fp32": "", "wide": "ANY_WIDTH", "strict": "STRICT", "half": "HALF"}  # what the compiler is told

Run = list[dict[str, str]]  # of each place the lines of the builds that have one there


def name(key: str) -> str:
    """What a build is called in a file; the first one has no flag."""
    return FLAGS[key].lower() or "tf32"


def conditions(texts: dict[str, list[str]]) -> list[str]:
    """The lines of each build between #if and #endif, those of the first behind #else."""
    keys = list(texts)
    groups: dict[tuple, list[str]] = {}
    for key in reversed(keys):
        groups.setdefault(tuple(texts[key]), []).append(key)
    plain = tuple(texts[keys[0]])
    others = {lines: group for lines, group in groups.items() if lines != plain}
    out: list[str] = []
    for lines, group in others.items():
        if lines:
            out += [f"#{'el' if out else ''}if {' || '.join(f'defined({FLAGS[k]})' for k in group)}", *lines]
    if plain:
        absent = " && ".join(f"!defined({FLAGS[k]})" for k in others.get((), []))
        out += [f"#{'el' if out else ''}if {absent}" if absent else "#else", *plain]
    return [*out, "#endif"]


MACRO = re.compile(r"\b(IN|NOT)_([A-Z]\w*)\(")


def line_by_line(run: Run, keys: list[str], one: Callable[[dict[str, str]], str | None]) -> list[str] | None:
    """Each line by itself, in a macro of the builds that say it. one: the lines of several builds as one, where that can be. None where a
    line is one of the preprocessor's, or no macro is for its builds."""
    out: list[str] = []
    for entry in run:
        line = one(entry)
        said = {line: [*entry]} if line is not None else {}
        for key, text in entry.items() if line is None else ():
            said.setdefault(text, []).append(key)
        for text, having in said.items():
            macro = _macro(having, keys)
            code, mark, note = text.partition("  //")
            if macro is None or text.startswith("#") or not _closed(tokens(code)):
                return None
            bare = code.lstrip()
            if bare.startswith("//"):
                out.append(text)
            else:
                out.append(f"{code[: len(code) - len(bare)]}{macro}({bare}){mark}{note}")
    return out


ALIKE = 0.6  # of two lines' words, for what differs between them to stand within one
FEW = 3  # places where they differ


def within(entry: dict[str, str], keys: list[str]) -> str | None:
    """Lines that are mostly alike as one, in which each of two says what is its own in its macro."""
    groups: dict[str, list[str]] = {}
    for key, text in entry.items():
        groups.setdefault(text, []).append(key)
    macros = [_macro(having, keys) for having in groups.values()]
    if len(groups) != 2 or len(entry) != len(keys) or None in macros or any(t.startswith("#") for t in groups):
        return None
    rows = [tokens(text) for text in groups]
    words = [[t.text for t in row] for row in rows]
    most = 2 * min(map(len, words)) / sum(map(len, words))
    if most < ALIKE or any(t.kind == "comment" for row in rows for t in row):
        return None
    match = difflib.SequenceMatcher(None, *words, autojunk=False)
    opcodes = match.get_opcodes()
    if match.ratio() < ALIKE or sum(kind != "equal" for kind, *_ in opcodes) > FEW:
        return None
    out = ""
    for kind, a, b, c, d in opcodes:
        own = rows[0][a:b], rows[1][c:d]
        if kind == "equal":
            out += "".join(t.space + t.text for t in own[0])
        elif len(own[0]) == len(own[1]) == 1 and all(row[0].kind == "number" for row in own):
            numbers = {key: row[0].text for row, having in zip(own, groups.values()) for key in having}
            out += f"{own[0][0].space}PICK({', '.join(numbers[key] for key in keys)})"
        elif all(map(_closed, own)) and not out.endswith((".", "->", "::")):
            begin, said, end = _spelled(*own)
            for text in (begin, *(f"{macro}({text})" for macro, text in zip(macros, said) if text), end):
                out = out.rstrip() + " " * (bool(text) and not out.endswith(("(", "["))) + text
        else:
            return None
    return re.match(" *", next(iter(groups)))[0] + out.strip()


INSIDE = re.compile(r"[\w%]")  # of a word in an instruction's text


def _spelled(mine: list[Token], theirs: list[Token]) -> tuple[str, list[str], str]:
    """What each says, and of two strings what they begin and end with alike."""
    texts = ["".join(t.space + t.text for t in row).strip() for row in (mine, theirs)]
    if [t.kind for t in (*mine, *theirs)] != ["string"] * 2:
        return "", texts, ""
    first, second = (text[1:-1] for text in texts)
    least, same, behind = min(len(first), len(second)), 0, 0
    while same < least and first[same] == second[same]:
        same += 1
    while same and (INSIDE.match(first[same - 1]) or first[same - 1] == "\\"):
        same -= 1
    while behind < least - same and first[-1 - behind] == second[-1 - behind]:
        behind += 1
    while behind and INSIDE.match(first[len(first) - behind]):
        behind -= 1
    begin, end = (f'"{text}"' if text else "" for text in (first[:same], first[len(first) - behind :]))
    said = [f'"{text[same : len(text) - behind]}"' if len(text) > same + behind else "" for text in (first, second)]
    return begin, said, end


def _closed(row: list[Token]) -> bool:
    """Whether no bracket is open in it."""
    depth = least = 0
    for token in row:
        depth += DEPTH.get(token.text, 0)
        least = min(least, depth)
    return depth == least == 0


def _macro(having: list[str], keys: list[str]) -> str | None:
    absent = [key for key in keys if key not in having]
    if len(having) == 1:
        return f"IN_{name(having[0]).upper()}"
    return f"NOT_{name(absent[0]).upper()}" if len(absent) == 1 else None


def definitions(text: str, keys: list[str], picked: str) -> list[str]:
    """The macros that a text of these builds uses. picked: what PICK(…) is where the compiler is given no flag but those of its own."""
    known = {f"{word}_{name(key).upper()}" for key in keys for word in ("IN", "NOT")}
    macros = sorted({m[0][:-1] for m in MACRO.finditer(text)} & known)
    names = ", ".join(name(k) for k in keys)
    own = {k: f"#define PICK({names}) ({name(k)})" for k in keys[1:] if k != "half"} if picked else {}

    def case(key: str) -> list[str]:
        takes = lambda macro: (macro.partition("_")[2] == name(key).upper()) == macro.startswith("IN_")  # noqa: E731
        said = [f"#define {macro}(...)" + " __VA_ARGS__" * takes(macro) for macro in macros]
        return [own.get(key, picked), *said] if own else said

    asked = [key for key in keys[1:] if case(key) != case(keys[0])]
    cases = [line for i, k in enumerate(asked) for line in (f"#{'el' if i else ''}if defined({FLAGS[k]})", *case(k))]
    head = [picked] if picked and not own else []
    return [*head, *cases, "#else", *case(keys[0]), "#endif"] if cases else head
