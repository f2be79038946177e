"""A declaration's last polish: what several steps left beside each other."""

from __future__ import annotations

import re


TIDY = [
    (re.compile(r"Held held;\n\s+held\.group = (\w+);"), r"Held held{-1, -1, \1};"),
    (re.compile(r"const (tf_vector<[^;=]*>) (\w+) = \*\(const \1\*\)"), r"const auto \2 = *(const \1*)"),
    (re.compile(r"\n +const bool all = true;((?:\n[^\n]*)*?store_vector_where<\w+>\()all, "), r"\1true, "),
    (re.compile(r"((known|inside)\.other = \2\.mask;)\n +(\2\.other_ends = \2\.ends;)"), r"\1 \3"),
    (re.compile(r"\n +to -= \w+ \* step;(?=\n *\})"), ""),
    (re.compile(r"\{\n +(v\[j\]) = 0;\n +if \(([^\n]*)\) \1 = ([^\n]*);\n +\}"), r"\1 = \2 ? \3 : 0.f;"),
    (
        re.compile(
            r"const int (block\d+) = blockIdx\.x;\n(\s+)if \(\1 < 1\) \{(.*?)(?<=\n) *const int (block\d+) = \1 - 1;\n(.*?)\b\4 \* 256 \+"
            r"(?!.*\b(?:\1|\4)\b)",  # jobs behind the second one look at it, too
            re.S,
        ),
        r"if (blockIdx.x == 0) {\3\5(blockIdx.x - 1) * 256 +",
    ),
    (re.compile(r"min\(\(int\)blockIdx\.x, \d+ - 1\)"), "blockIdx.x"),
    (re.compile(r"\((float|double)\)\(\(\1\)([\w.]+\[(?:[^][]|\[[^][]*\])*\])\)"), r"(\1)\2"),
    (re.compile(r"\[\(((?:[^][()]|\([^()]*\))*)\)\]"), r"[\1]"),
    (re.compile(r"\(int\)(\d+) \* "), r"\1 * "),
    (re.compile(r"(\n +)([\w.]+\[\w+\]) = 0;(?=(?:\1const int [^\n]*)*\1\2 = )"), ""),
    # written again in the same block, not where a condition holds
    (re.compile(r"\n( +)(at\.variant) = 0;(?=(?:\n(?!.*\2)\1[^\n]*)*\n\1\2 = )"), ""),
    (re.compile(r"(for \([^\n]*\)) \{\n\s+([^\n;{}]*;)\n\s*\}"), r"\1 \2"),
    (re.compile(r"(?<![\w>])\((\w+) \* 1\)"), r"\1"),
    (re.compile(r"(?<![\w>])\((\w+) \+ 0\)"), r"\1"),
    (re.compile(r"(= \w+) - 0;"), r"\1;"),
    (re.compile(r"= \(([^()]*)\);"), r"= \1;"),
    (re.compile(r"\bif \(\(([^()\n]*)\)\)"), r"if (\1)"),
    (re.compile(r"\+= \((\w+|tf_shared\[\w+\])\);"), r"+= \1;"),
    (re.compile(r"^((?:    )*) \{$", re.M), r"\1{"),
    (re.compile(r"else  \{"), "else {"),
    (re.compile(r"\n\s*\n(\s*\})"), r"\n\1"),
    (re.compile(r"^(\s*)\}\n\s+else", re.M), r"\1} else"),
]

DECLARATION = re.compile(
    r"(\s+(?:const |constexpr )?(?:int|unsigned|tf_index|float|double|long long|bool)) (\w+ = [^;{}\"]*);"
)

HALVING = re.compile(r"(\s*)(\w+) \+= __shfl_down_sync\(0xffffffffu, \2, (\d+), (\d+)\);")

ELEMENTWISE = re.compile(r"(\s+)(\w+\[[\w *+]*\] \+?= -?\w+(?:\[[\w *+]*\])?;)")


def _beside(line: str, element: re.Match) -> bool:
    """Whether elements of one array are given values one after another, and a line has room for it."""
    name = element[2].split("[")[0]
    return line.startswith(f"{element[1]}{name}[") and len(line) + len(element[2]) < 146


ANOTHER_NAME = re.compile(
    r"\n\s+(?:const int (\w+)|float \(&(\w+)\)(?:\[\w+\])+) = (blockIdx\.x|\w+(?:\[[^][]*\])+);(?=\n)"
)


def _names_used_once(text: str) -> str:
    """Another name for a block's number or a row of accumulators, where it is used once: the thing itself."""
    for match in list(ANOTHER_NAME.finditer(text)):
        name = match[1] or match[2]
        uses = re.findall(rf"\b{name}\b", re.sub(r"//[^\n]*", "", text))
        if len(uses) == 2 and (match[2] or match[3] == "blockIdx.x"):
            halves = [line.partition("//") for line in text.replace(match[0], "").split("\n")]
            text = "\n".join(re.sub(rf"\b{name}\b", match[3], code) + mark + note for code, mark, note in halves)
    for match in list(POINTER.finditer(text)):
        if len(re.findall(rf"\b{match[1]}\b", text)) == 2 and f"{match[1]}[0]" in text:
            text = text.replace(match[0], "").replace(f"{match[1]}[0]", f"{match[2]}[{match[3]}]")
    return text


POINTER = re.compile(r"\n\s+const int\* (\w+) = (\w+) \+ \(?([\w. *+]+?)\)?;(?=\n)")


def tidy(text: str) -> str:
    for pattern, by in TIDY:
        text = pattern.sub(by, text)
    text = _names_used_once(text)
    # Neighbouring declarations of one type share a line.
    lines: list[str] = []
    for line in _halvings(text.split("\n")):
        last = DECLARATION.fullmatch(lines[-1]) if lines else None
        this = DECLARATION.fullmatch(line)
        if last and this and last[1] == this[1] and len(lines[-1]) + len(this[2]) < 146:
            lines[-1] = f"{lines[-1][:-1]}, {this[2]};"
        elif (
            lines
            and (element := ELEMENTWISE.fullmatch(line))
            and ELEMENTWISE.match(lines[-1])
            and _beside(lines[-1], element)
        ):
            lines[-1] += f" {element[2]}"
        else:
            lines.append(line)
    return COMMENTED.sub(r"\3\1\2, \4;", "\n".join(lines))


COMMENTED = re.compile(r"(\n +)(int part = [^;\n]*);(\n +// [^\n]*)\n +int (turn = [^;\n]*);(?=\n)")


def _halvings(lines: list[str]) -> list[str]:
    """A sum over lanes, written out step by step, as a loop."""
    out, i = [], 0
    while i < len(lines):
        match, count = HALVING.fullmatch(lines[i]), 0
        while match and i + count < len(lines) and (next_ := HALVING.fullmatch(lines[i + count])):
            if next_[2] != match[2] or int(next_[3]) != int(match[3]) >> count:
                break
            count += 1
        if count > 1 and int(match[3]) >> count == 0:
            step = f"{match[2]} += __shfl_down_sync(0xffffffffu, {match[2]}, d, {match[4]});"
            out.append(f"{match[1]}UNROLL for (int d = {match[3]}; d > 0; d /= 2) {step}")
            i += count
        else:
            out.append(lines[i])
            i += 1
    return out
