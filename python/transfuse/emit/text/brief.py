"""Plain kernels said briefly: names without numbers, values where they are used, one statement without braces."""

from __future__ import annotations

import re

from transfuse.emit.text.layout import WIDTH
from transfuse.emit.text.loops import conditions_met, lanes_by_number, rows_in_a_line
from transfuse.emit.text.same import aliases_gone, blocks_opened, stored_by_its_thread
from transfuse.emit.text.tokens import one_value, until_settled

NUMBERED = re.compile(r"(?<![.\w])([a-z]+)(\d+)\b(?!\()")
TAKEN = {
    "p",
    "n",
    "v",
    "float",
    "double",
    "int",
    "uint",
    "in",
    "do",
    "if",
    "for",
    "char",
    "short",
    "long",
    "bool",
    "auto",
}


def _names(text: str) -> str:
    """A name with a number that no other name of its kind has: the name."""
    kinds: dict[str, set[str]] = {}
    for match in NUMBERED.finditer(re.sub(r"//[^\n]*", "", text)):
        kinds.setdefault(match[1], set()).add(match[2])
    words = set(re.findall(r"\b[A-Za-z_]\w*", text))
    alone = {kind + next(iter(n)): kind for kind, n in kinds.items() if len(n) == 1 and kind not in words | TAKEN}
    return NUMBERED.sub(lambda m: alone.get(m[0], m[0]), text)


STORE = re.compile(r"const (float|double) (v\d+) = ([^;\n]*);\s+([^\n;=]*\]) = \2;")


def _values(text: str) -> str:
    """A value that is stored and nothing else is said where it is stored."""

    def said(match: re.Match) -> str:
        if len(re.findall(rf"\b{match[2]}\b", text)) > 2 or not one_value(match[3]):
            return match[0]
        value = f"(float)({match[3]})" if match[1] == "float" and "double" in match[3] else match[3]
        line = f"{match[4]} = {value};"
        return line if len(line) <= WIDTH - 16 else match[0]

    return STORE.sub(said, text)


BLOCK = re.compile(
    r"(?m)^( *)((?:\} )?(?:else )?(?:UNROLL )?(?:if|for|while) \([^\n]*\)|(?:\} )?else) \{\n *([^\n#/][^\n]*[;}])\n\1\}(?!\s*else)$"
)
NUMBER = re.compile(r"const int (block\d+) = (block\d+) - (\d+)(?:, |;\n *const int )(\w+) = \(int\)\1 \* (\d+)")
TURN = re.compile(r"for \(int (\w+) = (?:\(int\))?threadIdx\.x; \1 < 1; \1 \+= \d+\)")


def _braces(text: str) -> str:
    """Blocks of one line stand beside what governs them."""

    def said(match: re.Match) -> str:
        several = (match[3].count(";") > 1 and not re.match(r"(?:UNROLL )?for \(", match[3])) or match[3].endswith("}")
        line = f"{match[1]}{match[2]} {'{ ' if several else ''}{match[3]}{' }' if several else ''}"
        governs = re.match(r"(?:UNROLL )?(?:if|for|while) ", match[3])
        if len(line) > WIDTH or (several and governs) or (governs and match[3].startswith("if") and "else" in match[2]):
            return match[0]
        return line

    return until_settled(BLOCK, said, text)


TABLE = re.compile(
    r"( *)__shared__ int (\w+)\[(\d+)\];\n *if \(threadIdx\.x == 0\) \{((?:\s*\2\[\d+\] = -?\d+;)+)\s*\}\n"
)


def _tables(text: str) -> str:
    """Numbers that are known need no thread that writes them."""

    def said(match: re.Match) -> str:
        values = re.findall(r"= (-?\d+);", match[4])
        if len(values) != int(match[3]) or len(values) < 8:
            return match[0]
        return f"{match[1]}static const int {match[2]}[] = {{{', '.join(values)}}};\n"

    return TABLE.sub(said, text)


SAME = re.compile(
    r"(?m)^( *)if \(threadIdx\.x == 0\) \{\n((?:\1 [^\n]*\n)+)\1\}\n((?:\1__shared__ [^\n]*\n)+)\1if \(threadIdx\.x == 0\) \{\n"
)


def _first_thread(text: str) -> str:
    """What one thread writes, one after another, after all of it is declared."""
    return until_settled(SAME, r"\3\1if (threadIdx.x == 0) {\n\2", text)


NESTED = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"
CASTS = [
    (re.compile(rf"\(double\)(\(\(double\){NESTED}\))"), r"\1"),
    (re.compile(rf"\(double\)\((\w+\({NESTED}\))\)"), r"(double)\1"),
    (re.compile(r"\((double|float)\)\((?!(?:float|double|int|STORED|long long)\))(\w+(?:\[[^][]*\])?)\)"), r"(\1)\2"),
    (re.compile(rf"= \((?!\w+\))({NESTED})\);"), r"= \1;"),
    (re.compile(rf"= \(double\)\(({NESTED}\(double\){NESTED})\);"), r"= \1;"),
    (re.compile(rf"(\w)\(\(({NESTED})\)\)(?= *[-+*;),])"), r"\1(\2)"),
]


def _casts(text: str) -> str:
    """What is double already need not be made it."""
    last = ""
    while text != last:
        last = text
        for pattern, by in CASTS:
            text = pattern.sub(by, text)
    kinds = re.findall(r"\b(double|float)(\*?)(?: __restrict__)? (\w+)(?= = |\[|,|\))", text)
    for type_, pointer, name in set(kinds):
        if len({(t, p) for t, p, n in kinds if n == name}) == 1:
            text = re.sub(rf"\({type_}\)({name})(?={chr(92) + '[' if pointer else '(?![(.[])'})(?![\w])", r"\1", text)
    return text


PLAIN = [
    (re.compile(r"(\n *__syncthreads\(\);)\1+"), r"\1"),
    (re.compile(r"\b0 \* \d+ \+ (?=threadIdx)"), ""),
    (re.compile(r"float (\w+) = 0\.0f;\n *\1 = ([^;\n]*);\n( *)([^;=\n]*) = \1;"), r"\4 = \2;"),
    (re.compile(r"\(int\)(block\d*) \* "), r"\1 * "),
    (re.compile(r"\(int\)\((\d+) - 1\)"), lambda m: str(int(m[1]) - 1)),
    (re.compile(r"\(int\)\((\w+) - 1\)"), r"\1 - 1"),
    (re.compile(r"\((\w+)\)\((\(\1\)\([^()]*\))\)"), r"\2"),
]


ONE = re.compile(r"\) \{ ([^;{}\n]*;) \}(?! *[),;])")  # a statement in braces, not a lambda's


def brief(text: str) -> str:
    """A kernel of plain arithmetic."""
    text = TURN.sub("if (threadIdx.x == 0)", _tables(text))
    for match in list(NUMBER.finditer(text)):
        if len(re.findall(rf"\b{match[1]}\b", text)) == 2:
            text = text.replace(match[0], f"const int {match[4]} = ({match[2]} - {match[3]}) * {match[5]}")
    for pattern, by in PLAIN:
        text = pattern.sub(by, text)
    text = _casts(_values(_first_thread(text)))
    lines = [ONE.sub(r") \1", line) if not line.startswith("__global__") else line for line in text.split("\n")]
    text = rows_in_a_line(lanes_by_number(conditions_met("\n".join(lines))))
    return _names(blocks_opened(aliases_gone(stored_by_its_thread(_braces(text)))))
