"""A long file has fewer names: instructions that follow one another are one, functions of one statement stand where they are called."""

from __future__ import annotations

import re

from transfuse.emit.text.layout import lines_of
from transfuse.emit.text.tokens import split, tokens, until_settled

INSTRUCTIONS = re.compile(r'(?m)^( *)PTX\("([^"\n]*;)"\);\n\1PTX\("([^"\n]*;)"\);$')


def one_instruction(text: str) -> str:
    """Instructions of no operands that follow one another."""
    return until_settled(INSTRUCTIONS, r'\1PTX("\2\\n\\t\3");', text)


SHORT = re.compile(
    r"(?m)^(?://[^\n]*\n)*DEVICE void (?P<name>\w+)\((?P<taken>[^\n]*)\) \{\n    (?P<does>(?!PTX|asm)[^\n]*;)\n\}\n"
)


CHANGES = re.compile(r"\+\+|--|[<>=?&|^]")


def one_line_functions(text: str) -> str:
    """What is one statement stands where it is called, if that takes fewer lines."""
    for m in list(SHORT.finditer(text)):
        names = [re.search(r"(\w+)\)?(?:\[\w+\])?$", part)[1] for part in m["taken"].split(", ")]
        calls = list(re.finditer(rf"(?m)^(?P<I> *)(?P<head>[^\n]*?)\b{m['name']}\((?P<given>[^\n]*)\);$", text))
        if len(calls) != len(re.findall(rf"\b{m['name']}\(", text)) - 1:
            continue
        if any(re.search(rf"\b{name} ?(?:\+\+|--|[-+*/|&]?=(?!=))|(?:\+\+|--){name}\b", m["does"]) for name in names):
            continue
        own, new = set(re.findall(r"\bint (\w+) = ", m["does"])), text
        for call in calls:
            given = ["".join(t.space + t.text for t in part).strip() for part in split(tokens(call["given"]), {","})]
            if (
                len(given) != len(names)
                or own & set(re.findall(r"\w+", call["given"]))
                or CHANGES.search(call["given"])
            ):
                break
            by, line = dict(zip(names, given)), m["does"]
            for name, value in by.items():
                line = re.sub(rf"\b{name}\b", lambda u, line=line, value=value: _argument(line, u, value), line)
            new = new.replace(call[0], f"{call['I']}{call['head']}{line}")
        else:
            new = new.replace(m[0], "")
            text = new if lines_of(new) < lines_of(text) else text
    return text


def _argument(line: str, use: re.Match, value: str) -> str:
    inside = line[: use.start()].endswith("(") and re.match(r"\)| \+ ", line[use.end() :])
    return value if re.fullmatch(r"\w+", value) or inside else f"({value})"
