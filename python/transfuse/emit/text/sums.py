"""Plain kernels for a reader: sums over slices by a function, values that are used once where they are used."""

from __future__ import annotations

import re

TREE = re.compile(
    r"""
(?P<indent>\n\ +)const\ int\ (?P<at>\w+)\ =\ (?P<slice>\w+)\ \*\ (?P<outputs>\d+)\ \+\ (?P<lane>\w+);
\s+tf_shared\[(?P=at)\]\ =\ \(double\)(?P<sum>\w+);
\s+__syncthreads\(\);
\s+for\ \(int\ (?P<half>\w+)\ =\ (?P<most>\d+);\ (?P=half)\ >\ 0;\ (?P=half)\ /=\ 2\)\ \{
\s+if\ \((?P=slice)\ <\ (?P=half)\)\ \{
\s+const\ int\ (?P<other>\w+)\ =\ (?P=at)\ \+\ (?P=half)\ \*\ (?P=outputs);
\s+(?P=sum)\ \+=\ tf_shared\[(?P=other)\];
\s+tf_shared\[(?P=at)\]\ =\ \(double\)(?P=sum);
\s+\}
\s+__syncthreads\(\);
\s+\}""",
    re.X,
)
FUNCTION = """// The sums of all slices of an output, added up in a fixed order.
template <class R> DEVICE R tf_sum_slices(R sum, double* shared, int slice, int lane, int half, int outputs) {
    const int at = slice * outputs + lane;
    shared[at] = (double)sum;
    __syncthreads();
    for (; half > 0; half /= 2) {
        if (slice < half) {
            sum += shared[at + half * outputs];
            shared[at] = (double)sum;
        }
        __syncthreads();
    }
    return sum;
}"""


def summed(text: str) -> str:
    """Trees over slices as calls."""
    given = r"\g<sum>, tf_shared, \g<slice>, \g<lane>, \g<most>, \g<outputs>"
    return TREE.sub(rf"\g<indent>\g<sum> = tf_sum_slices({given});", text)


VALUE = re.compile(r"( +)const (float|double) (v\d+) = ([^;]*);")


def inlined(text: str) -> str:
    """A value that is used once, in the statement behind it, stands there."""
    lines = text.split("\n")
    i = 0
    while i + 1 < len(lines):
        match = VALUE.fullmatch(lines[i])
        following = lines[i + 1]
        if (
            match
            and _declares_one(match[4])
            and len(re.findall(rf"\b{match[3]}\b", text)) == 2
            and len(re.findall(rf"\b{match[3]}\b", following)) == 1
            and following.startswith(match[1])
            and following[len(match[1])] != " "
            and re.match(r" *(?:const (?:float|double) |\w+(?:\[[^;]*\])? \+?= )", following)
            and not re.search(rf"\[[^\]]*\b{match[3]}\b[^\]]*\]", following)
        ):
            new = re.sub(rf"(?:\({match[2]}\))?\b{match[3]}\b", lambda _: _cast(match[2], match[4]), following)  # noqa: B023
            if len(new) <= 138:
                lines[i : i + 2] = [new]
                text = "\n".join(lines)
                i = max(0, i - 1)
                continue
        i += 1
    return text


def _declares_one(expression: str) -> bool:
    """Whether no comma stands outside brackets: one name and its value."""
    depth = 0
    for c in expression:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            return False
    return True


def _cast(type_: str, expression: str) -> str:
    """The value as what it was declared to be."""
    if expression.startswith(f"({type_})") and re.fullmatch(
        r"\(\w+\)(?:\w+(?:\[[^][]*\]|\([^()]*\))?|\([^()]*\))", expression
    ):
        return expression
    return f"({type_}){expression}" if re.fullmatch(r"\w+(?:\[[^][]*\])?", expression) else f"({type_})({expression})"
