"""Plain kernels for a reader: sums over slices by a function, values that are used once where they are used."""

from __future__ import annotations

import re

from transfuse.emit.text.tokens import one_value

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
    double* const mine = shared + slice * outputs + lane;
    *mine = sum;
    for (__syncthreads(); half > 0; half /= 2, __syncthreads())
        if (slice < half) *mine = sum += mine[half * outputs];
    return sum;
}"""


def summed(text: str) -> str:
    """Trees over slices as calls."""
    given = r"\g<sum>, tf_shared, \g<slice>, \g<lane>, \g<most>, \g<outputs>"
    return TREE.sub(rf"\g<indent>\g<sum> = tf_sum_slices({given});", text)


TERMS = re.compile(
    r"""
(?P<indent>[ ]*)double\ (?P<sum>\w+)\ =\ 0\.0;\n
\#pragma\ unroll\ 4\n
(?P=indent)for\ \(int\ (?P<t>\w+)\ =\ (?P<slice>\w+);\ (?P=t)\ <\ (?P<count>\w+);\ (?P=t)\ \+=\ (?P<step>\d+)\)\ (?:
(?P=sum)\ \+=\ (?P<term>[^\n]*);\n|\{\n(?P<before>(?:(?P=indent)\ [^\n]*\n)*)
(?P=indent)\ \ \ \ (?P=sum)\ \+=\ (?P<last>[^\n]*);\n(?P=indent)\}\n)
(?P=indent)(?P=sum)\ =\ tf_sum_slices\((?P=sum),\ tf_shared,\ (?P=slice),\ \w+,\ \d+,\ (?P<outputs>\d+)\);""",
    re.X,
)
THREADS = 256  # of a block
BY_TERMS = """// The sum of `count` terms: every output's are shared by the block's threads, OUTPUTS apart, and added up in a fixed order.
template <int OUTPUTS, class Term> DEVICE double tf_sum_slices(int count, double* shared, Term term) {
    const int slices = 256 / OUTPUTS, slice = threadIdx.x / OUTPUTS;
    double sum = 0.0;
#pragma unroll 4
    for (int t = slice; t < count; t += slices) sum += term(t);
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int half = slices / 2; half > 0; half /= 2, __syncthreads())
        if (slice < half) shared[threadIdx.x] = sum += shared[threadIdx.x + half * OUTPUTS];
    return sum;
}"""


def by_terms(text: str) -> str:
    """Device code in which sums over slices are told their terms; as it was where one of them is another sum."""

    def said(m: re.Match) -> str:
        if int(m["step"]) * int(m["outputs"]) != THREADS:
            return m[0]
        head = f"{m['indent']}const double {m['sum']} = tf_sum_slices<{m['outputs']}>({m['count']}, tf_shared, [&](int {m['t']}) {{"
        if m["term"]:
            return f"{head} return {m['term']}; }});"
        return f"{head}\n{m['before']}{m['indent']}    return {m['last']};\n{m['indent']}}});"

    new = TERMS.sub(said, text)
    return text if re.search(r"= tf_sum_slices\(", new) else new.replace(FUNCTION, BY_TERMS)


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
            and one_value(match[4])
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


def _cast(type_: str, expression: str) -> str:
    """The value as what it was declared to be."""
    if expression.startswith(f"({type_})") and re.fullmatch(
        r"\(\w+\)(?:\w+(?:\[[^][]*\]|\([^()]*\))?|\([^()]*\))", expression
    ):
        return expression
    return f"({type_}){expression}" if re.fullmatch(r"\w+(?:\[[^][]*\])?", expression) else f"({type_})({expression})"
