"""Plain kernels for a reader: what a block does for its elements, or for its sums, as one call."""

from __future__ import annotations

import re

from transfuse.emit.text.layout import WIDTH
from transfuse.emit.text.sums import BY_TERMS, THREADS
from transfuse.emit.text.tokens import until_settled

EACH = """// f(i) for the elements i < count of a block.
template <class F> DEVICE void tf_each(int block, int count, F f) { if (const int i = block * 256 + threadIdx.x; i < count) f(i); }"""
SUMS = """// Sums of `terms` terms, N of them a block: an output's are shared by 256 / N threads and added up in a fixed order.
template <int N, class Term, class Store> DEVICE void tf_sums(int block, int count, int terms, Term term, Store store) {
    __shared__ double shared[256];
    const int slices = 256 / N, slice = threadIdx.x / N, own = block * N + threadIdx.x % N, o = min(own, count - 1);
    double sum = 0.0;
#pragma unroll 4
    for (int t = slice; t < terms; t += slices) sum += term(o, t);
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int half = slices / 2; half > 0; half /= 2, __syncthreads())
        if (slice < half) shared[threadIdx.x] = sum += shared[threadIdx.x + half * N];
    if (slice == 0 && own < count) store(o, sum);
    __syncthreads();
}"""

# One statement, or a block of them, at an indent named I.
GOVERNED = r"(?:(?P<one>[^\n{}]*;)|\{\n(?P<many>(?:(?P=I)\ [^\n]*\n)+?)(?P=I)\})"
ELEMENTS = re.compile(
    rf"""
^(?P<I>\ +)const\ int\ (?:(?P<alias>block\d*)\ =\ (?P<from>block\d*\ -\ \w+),\ )?
(?P<t>\w+)\ =\ (?:\(?(?P<block>block\d*(?:\ -\ \w+)?)\)?\ \*\ {THREADS}\ \+\ )?threadIdx\.x;\n
(?P=I)if\ \((?P=t)\ <\ (?P<count>\w+)\)\ {GOVERNED}\n""",
    re.X | re.M,
)
SUM = re.compile(
    rf"""
^(?P<I>\ +)const\ int\ (?:(?P<alias>block\d*)\ =\ (?P<block>block\d*\ -\ \w+),\ )?(?P<lane>\w+)\ =\ threadIdx\.x\ %\ (?P<n>\d+),
\ (?P<slice>\w+)\ =\ threadIdx\.x\ /\ (?P=n),\ (?P<own>\w+)\ =\ (?P<of>block\d*|\(int\)blockIdx\.x)\ \*\ (?P=n)\ \+\ (?P=lane)
(?:,|;\n(?P=I)const\ int)\ (?P<o>\w+)\ =\ min\((?P=own),\ (?P<last>[^\n()]*)\)
(?P<indices>(?:(?:,|;\n(?P=I)const\ int)\ \w+\ =\ (?:tf_quotient_of\([^\n()]*\)|[^\n,;()]*))*);\n
(?P=I)const\ double\ (?P<sum>\w+)\ =\ tf_sum_slices<(?P=n)>\((?P<terms>\w+),\ tf_shared,\ \[&\]\(int\ (?P<t>\w+)\)\ \{{
(?:\ (?P<term>return\ [^\n]*;)\ \}}|\n(?P<before>(?:(?P=I)\ [^\n]*\n)+?)(?P=I)\}})\);\n
(?P=I)if\ \((?P=slice)\ ==\ 0\ &&\ (?P=own)\ <\ (?P<count>\w+)\)\ {GOVERNED}\n
(?P=I)__syncthreads\(\);\n""",
    re.X | re.M,
)
INDEX = re.compile(r"(\w+) = (\w+)(?: / (\d+)| - (\w+) \* (\d+))(?=[,;]|$)")
QUOTIENT = re.compile(
    r"[,;]\s+(?:const int )?(?P<q>\w+) = (?P<of>tf_quotient_of\((?P<o>\w+), \w+\)), (?P<r>\w+) = (?P=o) - (?P=q) \* (?P<by>\w+)"
)
ALONE = re.compile(
    r"""
^(?P<I>\ *)(?P<head>(?:else\ )?(?:if|for)\ \([^\n]*\)|else)\ \{\n
(?P=I)\ {4}(?P<call>tf_(?:each|sums)\b(?:
[^\n]*\{\n(?:(?P=I)\ {5}[^\n]*\n|(?P=I)\ {4}\},\ [^\n]*\{\n)*?(?P=I)\ {4}\}(?:,\ [^\n]*\})?\);|[^\n]*;
|[^\n]*,\n(?P=I)\ {8}\[&\][^\n]*;|[^\n]*,\n(?P=I)\ {8}\[&\][^\n]*\{\n(?:(?P=I)\ {9}[^\n]*\n)+?(?P=I)\ {8}\}\);))\n
(?P=I)\}(?P<more>\ else)?""",
    re.M | re.X,
)


def jobs(text: str) -> str:
    """Device code whose kernels are called as above; sums only where all of them are."""
    new = SUM.sub(_sum, text)
    if "tf_sum_slices<" in new.replace(BY_TERMS, ""):
        new = text
    new = ELEMENTS.sub(_elements, new) if "tf_sums<" in new or len(ELEMENTS.findall(new)) > 1 else new
    if "tf_sums<" in new:
        many = SUMS.replace("unroll 4", "unroll 8")  # of slots and terms a thread has more, which may all be under way
        new = new.replace(BY_TERMS, many if ", term = " in new else SUMS)
        own = "    __shared__ double tf_shared[256];\n"
        new = new if "tf_shared" in new.replace(own, "") else new.replace(own, "")
    new = _unbraced(new)
    if "tf_each(" in new:
        first = re.search(
            r"(?m)^(?:// [^\n]*\n)*template <int N, class Term, class Store>|^\n?(?:__global__|namespace )", new
        )
        new = f"{new[: first.start()]}{EACH}\n{new[first.start() :]}"
    return _taps_at_once(_slots_outside(new))


SLOTS_WITHIN = re.compile(
    r"""
^(?P<unroll>\#pragma\ unroll[^\n]*\n)?(?P<I>\ +)(?P<loop>for\ \([^\n]*\))\ \{\n
(?P<indices>(?:(?P=I)\ {4}const\ int\ [^\n]*;\n)*)
(?P=I)\ {4}double\ (?P<sum>\w+)\ =\ 0\.0;\n
(?P=I)\ {4}(?P<slots>for\ \(int\ (?P<r>\w+)\ =\ 0;\ (?P=r)\ <\ [a-z]\w*;\ \+\+(?P=r)\))\ (?P=sum)\ \+=\ (?P<slot>[^;\n]*);\n
(?P=I)\ {4}(?P<all>\w+)\ \+=\ (?P=sum)\ \*\ (?P<factor>[^;\n]*);\n
(?P=I)\}\n""",
    re.X | re.M,
)


def _slots_outside(text: str) -> str:
    """Sums of products with sums over slots, whose number only the call tells: slot by slot, for loads in a loop of their own within
    each term would wait for one another."""

    def said(m: re.Match) -> str:
        before = text[: m.start()]
        if before.rfind(f" double {m['all']} = 0.0;") <= before.rfind(
            f" float {m['all']} "
        ):  # which would round more often
            return m[0]
        own = (name := re.match(r"(\w+)\[", m["slot"])) and before.rfind(f"double* {name[1]},")
        I, slot = m["I"], m["slot"] if own and own > before.rfind("__global__") else f"(double)({m['slot']})"
        head, term = f"{I}{m['slots']}\n{m['unroll'] or ''}{I}    {m['loop']}", f"{m['all']} += {slot} * {m['factor']};"
        if not m["indices"]:
            return f"{head} {term}\n" if len(f"{I}    {m['loop']} {term}") <= WIDTH else f"{head}\n{I}        {term}\n"
        indices = re.sub(r"(?m)^(?=.)", "    ", m["indices"])
        return f"{head} {{\n{indices}{I}        {term}\n{I}    }}\n"

    return SLOTS_WITHIN.sub(said, text)


def _taps_at_once(text: str) -> str:
    """Sums over taps with factors from tables: their loops are unrolled, so that all loads are under way together."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if "tf_taken(m" not in line or " += " not in line:
            continue
        while (above := lines[i - 1].lstrip()).startswith(("const ", "for (int r")):
            i -= 1
            if above.startswith("for"):
                lines[i] = lines[i].replace("for", "UNROLL for", 1)
    return "\n".join(lines)


def _lambda(types: dict[str, tuple[str, str]], one: str | None, many: str | None, indent: str) -> str:
    """types: of each argument its type and the name it would best have."""
    body = one or many
    for name, (_, better) in types.items():
        if not re.search(rf"\b{better}\b", body):
            body, types = re.sub(rf"\b{name}\b", better, body), {**types, name: (types[name][0], better)}
        else:
            types = {**types, name: (types[name][0], name)}
    one, many = (body, None) if one else (None, body)
    given = ", ".join(f"{type_} {name}" for type_, name in types.values())
    return f"[&]({given}) {{ {one} }}" if one else f"[&]({given}) {{\n{many}{indent}}}"


def _elements(m: re.Match) -> str:
    block, body = m["from"] or m["block"] or "0", m["one"] or m["many"]
    head, of = f"{m['I']}tf_each({block}, {m['count']}, ", {m["t"]: ("int", "i")}
    if re.search(r"\b(?:return|continue|break)\b", body):
        return m[0]
    if m["alias"] and (m["block"] != m["alias"] or re.search(rf"\b{m['alias']}\b", body)):
        return m[0]
    line = f"{head}{_lambda(of, m['one'], m['many'], m['I'])});\n"
    if m["one"] and len(line) > WIDTH:
        line = head + _lambda(of, None, f"{m['I']}    {m['one']}\n", m["I"]) + ");\n"
    return line


def _sum(m: re.Match) -> str:
    o, block = m["o"], m["block"] or m["of"]
    known: dict[str, str] = {}
    if quotient := QUOTIENT.fullmatch(m["indices"]):
        return _sum_of_rows(m, quotient)
    for name, of, by, quotient, times in INDEX.findall(m["indices"]):
        if of != o or (quotient and known.get(quotient) != f"{o} / {times}"):
            return m[0]
        known[name] = f"{o} / {by}" if by else f"{o} % {times}"
    last = str(int(m["count"]) - 1) if m["count"].isdigit() else f"{m['count']} - 1"
    if len(known) != m["indices"].count(" = ") or (m["alias"] and m["of"] != m["alias"]) or m["last"] != last:
        return m[0]
    terms, given = _slots_as_terms(m["terms"], m["t"], m["before"])
    term, store = (_indexed(t, o, known) if t else t for t in (m["term"], m["one"]))
    before, many = (_indexed(t, o, known) if t else t for t in (given, m["many"]))
    every = "".join(t for t in (term, store, before, many) if t)
    if re.search(rf"\b(?:{m['lane']}|{m['slice']}|{m['own']})\b", every):
        return m[0]
    first = _lambda({o: ("int", "o"), m["t"]: ("int", "t")}, term, before, m["I"])
    last = _lambda({o: ("int", "o"), m["sum"]: ("double", "sum")}, store, many, m["I"])
    head = f"{m['I']}tf_sums<{m['n']}>({block}, {m['count']}, {terms}, "
    line = f"{head}{first}, {last});\n"
    if "\n" in line[:-1] and term and not store:
        line = f"{head}{first},\n{m['I']}    {last.replace(chr(10) + m['I'], chr(10) + m['I'] + '    ')});\n"
    if "\n" not in line[:-1] and len(line) > WIDTH:
        line = f"{head}{first},\n{m['I']}    {last});\n"
    return line


def _sum_of_rows(m: re.Match, index: re.Match) -> str:
    """Of outputs that lie in rows of a length only the call tells; where a sum is stored, row and column are the output's number."""
    o, q, r, by = m["o"], index["q"], index["r"], index["by"]
    store = re.sub(rf"\b{q} \* {by} \+ {r}\b(?! [*/%])", o, m["one"] or "")
    if (
        index["o"] != o
        or not m["term"]
        or not store
        or re.search(rf"\b(?:{q}|{r}|{m['lane']}|{m['slice']}|{m['own']})\b", store)
    ):
        return m[0]
    I = f"{m['I']}    "
    term = f"{I}const int {q} = {index['of']}, {r} = {o} - {q} * {by};\n{I}{m['term']}\n"
    first = _lambda({o: ("int", "o"), m["t"]: ("int", "t")}, None, term, m["I"])
    last = _lambda({o: ("int", "o"), m["sum"]: ("double", "sum")}, store, None, m["I"])
    return f"{m['I']}tf_sums<{m['n']}>({m['block'] or m['of']}, {m['count']}, {m['terms']}, {first}, {last});\n"


SLOTS = re.compile(
    r"""
(?P<I>\ +)double\ (?P<sum>\w+)\ =\ 0\.0;\n
(?P=I)for\ \(int\ (?P<r>\w+)\ =\ 0;\ (?P=r)\ <\ (?P<slots>[a-z]\w*);\ \+\+(?P=r)\)\ (?P=sum)\ \+=\ (?P<slot>[^;\n]*);\n
(?P=I)return\ (?P=sum)\ \*\ (?P<factor>[^;\n]*);\n""",
    re.X,
)


def _slots_as_terms(terms: str, t: str, before: str | None) -> tuple[str, str | None]:
    """Of a product with a sum over slots, whose number only the call tells: every slot's product is a term, for loads in a loop of
    its own within each term would wait for one another."""
    m = SLOTS.fullmatch(before or "")
    if not m or not terms.isdigit() or re.search(rf"\b{m['r']}\b", m["factor"]):
        return terms, before
    own = lambda text: re.sub(rf"\b{t}\b", "term", text)  # noqa: E731
    indices = f"{m['I']}const int {m['r']} = {t} / {terms}, term = {t} % {terms};\n"
    return f"{terms} * {m['slots']}", f"{indices}{m['I']}return {own(m['slot'])} * {own(m['factor'])};\n"


def _indexed(text: str, o: str, known: dict[str, str]) -> str:
    """With what indices of an output stand for in their places."""
    for name, by in known.items():
        if " / " in by:
            rest = next((n for n, r in known.items() if r == f"{o} % {by.split(' / ')[1]}"), None)
            text = re.sub(rf"\b{name} \* {by.split(' / ')[1]} \+ {rest}\b(?! [*/%])", o, text) if rest else text
    for name, by in known.items():
        text = re.sub(rf"(?<=[*/%] )\b{name}\b", f"({by})", text)
        text = re.sub(rf"\b{name}\b", by, text)
    return text


def _unbraced(text: str) -> str:
    """A call that stands alone needs no braces."""

    def said(m: re.Match) -> str:
        call = re.sub(rf"\n{m['I']}    ", f"\n{m['I']}", m["call"])
        line = f"{m['I']}{m['head']} {call}"
        if len(line.split("\n")[0]) > WIDTH:
            line = f"{m['I']}{m['head']}\n{m['I']}    {m['call']}"
        return line + (f"\n{m['I']}else" if m["more"] else "")

    return until_settled(ALONE, said, text)
