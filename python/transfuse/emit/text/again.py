"""Sums that a kernel forms again in each of its jobs, or several kernels form: said once, and asked for where they are read."""

from __future__ import annotations

import re

from transfuse.emit.launches import Told
from transfuse.emit.text.layout import WIDTH

SUM = re.compile(
    r"\n +double (?P<a>a\d*) = 0\.0;\n +for \(int (?P<r>r\d*) = 0; (?P=r) < (?P<count>\w+); \+\+(?P=r)\) (?P=a) \+= (?P<term>[^\n;]*);"
)
KERNEL = re.compile(r"\n__global__ [^\n]*\{\n(?P<first>    TF_\w+\(\);\n)(?P<body>.*?)\n\}(?=\n|\Z)", re.S)
PLACE = re.compile(r"\bi(?: % \d+)?(?=\])")
ONE_LINE = re.compile(r"\{\n +([^\n{};]*(?:\([^\n]*\))?[^\n{};]*;)\n +\}\);")


FIRST_TERM = re.compile(
    r"\{\n +const double (?P<v>v\d*) = (?P<value>[\w\[\]]+ \* \w+);\n +(?P<to>\w+\[i\]) = (?P=v)(?= [-+] (?:(?!\b(?P=v)\b)[^\n;])*;)"
)


def sums_again(text: str) -> str:
    """Device code in which several jobs of a kernel read the same sums over r, at places i or i % n."""
    return KERNEL.sub(_said, text)


def _said(kernel: re.Match) -> str:
    sums = list(SUM.finditer(kernel["body"]))
    places = [PLACE.findall(m["term"]) for m in sums]
    terms = {(m["count"], PLACE.sub("i", re.sub(rf"\b{m['r']}\b", "r", m["term"]))) for m in sums}
    reads = [len(re.findall(rf"\b{m['a']}\b", kernel["body"])) for m in sums]
    if len(sums) < 2 or len(terms) > 1 or any(len(p) != 1 for p in places) or any(n != 3 for n in reads):
        return kernel[0]
    ((count, term),), body = terms, kernel["body"]
    if len(re.findall(r"\bi\b", term)) != 1 or re.search(r"\bsum\b", body):
        return kernel[0]
    for m, (place,) in zip(sums, places):
        body = re.sub(rf"\b{m['a']}\b", f"sum({place})", body.replace(m[0], "", 1))
    body = ONE_LINE.sub(r"{ \1 });", FIRST_TERM.sub(r"{\n    \g<to> = \g<value>", body))
    said = (
        f"    const auto sum = [&](int i) {{\n        double a = 0.0;\n"
        f"        for (int r = 0; r < {count}; ++r) a += {term};\n        return a;\n    }};\n"
    )
    return kernel[0].replace(kernel["first"] + kernel["body"], kernel["first"] + said + body)


TAPS = re.compile(
    r" +double a = 0\.0;\n(?P<loops>(?: +UNROLL for \(int r\d* = [^\n]*\n)+) +const double m = (?P<m>[^\n;]*);\n"
    r"(?P<reads>(?: +const float [^\n;]*;\n)?) +a \+= tf_taken\(m != 0, (?P<value>[^\n]*)\) \* m;\n"
    r"(?: +\}\n)+(?P<I> +)(?P<to>\w+)\[i\] = a;\n"
)
READ = re.compile(r"(?<=\[)[^\[\]]*\br\d*\b[^\[\]]*(?=\])")


def taps_again(text: str) -> str:
    """Device code in which several kernels make weights of other taps, by one matrix, of other numbers at the same places."""
    found = list(TAPS.finditer(text))
    places = [READ.findall(m["reads"] + m["value"]) for m in found]
    if len(found) < 2 or len({(re.sub(r" +", " ", m["loops"]), m["m"]) for m in found}) > 1:
        return text
    if any(len(p) != 1 for p in places) or len({p[0] for p in places}) > 1:
        return text
    place, loops = places[0][0], found[0]["loops"].split("\n")[:-1]
    for m in found:
        value = m["value"]
        for name, said in re.findall(r"(\w+) = ((?:[^,()]|\([^()]*\))+)(?=[,;])", m["reads"]):
            said = f"(float){said}" if re.fullmatch(r"\w+\[[^\[\]]*\]", said) else said
            value = re.sub(rf"\b{name}\b", lambda _, said=said: said, value)
        call = f"{m['I']}{m['to']}[i] = tf_taps(i, [&](int at) {{ return {value.replace(place, 'at')}; }});\n"
        text = text.replace(m[0], call)
    deep = [f"{'    ' * (k + 1)}{line.strip()}" for k, line in enumerate(loops)]
    inner = "    " * (len(loops) + 1)
    said = [
        "// A weight's element i by other taps: the matrices' products, of which some are zero, with its own.",
        "template <class W> DEVICE double tf_taps(int i, W weight) {",
        "    double a = 0.0;",
        *deep,
        f"{inner}const double m = {found[0]['m']};",
        f"{inner}a += tf_taken(m != 0, weight({place})) * m;",
        f"{inner[4:]}}}",
        "    return a;",
        "}",
    ]
    first = text.rfind("\n__global__", 0, text.index("tf_taps("))
    text = text[:first] + "\n" + "\n".join(said) + text[first:]
    return re.sub(r"\n([^\n]*\{)\n +([^\n]*tf_taps\([^\n]*)\n +(\}\);)", _on_one_line, text)


def _on_one_line(match: re.Match) -> str:
    line = f"\n{match[1]} {match[2]} {match[3]}"
    return line if len(line) < WIDTH else match[0]


TWICE = re.compile(
    r"\{\n +const double (?P<v>v\d*) = (?P<value>[^\n;]*);\n +(?P<one>\w+)\[(?P<at>\w+)\] = (?P=v);\n"
    r" +(?P<two>\w+)\[(?P=at)\] = (?P=v);\n +\}"
)


def stored_twice(text: str) -> str:
    """Device code in which one statement gives a value to two arrays: the one of double first, whose value is the whole."""

    def said(match: re.Match) -> str:
        head = text[text.rindex("\n__global__", 0, match.start()) :].split("{", 1)[0]
        one, two = (match["one"], match["two"]) if f"double* {match['two']}" in head else (match["two"], match["one"])
        if f"double* {two}" not in head:
            return match[0]
        return f"{{ {one}[{match['at']}] = {two}[{match['at']}] = {match['value']}; }}"

    return TWICE.sub(said, text)


PARTS = re.compile(
    r"(?P<q>\w+) = (?P<a>\w+) / (?P<n>\d+), (?P<r>\w+) = (?P=a) - (?P=q) \* (?P=n)(?=[,;])",
)


ANY_KERNEL = re.compile(r"\n__global__ [^\n]*\{\n.*?\n\}(?=\n|\Z)", re.S)


def numbers_again(text: str) -> str:
    """Device code in which a number is read whole that was divided into quotient and remainder and put together again."""
    return ANY_KERNEL.sub(lambda kernel: _whole(kernel[0]), text)


def _whole(kernel: str) -> str:
    for m in list(PARTS.finditer(kernel)):
        q, r, n = m["q"], m["r"], int(m["n"])
        said = kernel.replace(f"({q} * {n} + {r})", m["a"])
        for by, times in re.findall(rf"\b{q} \* (\d+) \+ {r} \* (\d+)\b", said):
            if int(by) == n * int(times):
                said = said.replace(f"{q} * {by} + {r} * {times}", f"{m['a']} * {times}")
        if len(re.findall(rf"\b(?:{q}|{r})\b", said)) == 3:  # the declaration alone
            kernel = TOGETHER.sub(_together, re.sub(rf", {re.escape(m[0])}(?=[,;])", "", said))
    return kernel


TOGETHER = re.compile(r"(?m)^( *const int [^\n;]*);\n *const int ([^\n;]*;)$")


def _together(m: re.Match) -> str:
    line = f"{m[1]}, {m[2]}"
    return line if len(line) <= WIDTH else m[0]


STORES = re.compile(
    r"\n__global__ (?P<void>void __launch_bounds__\([^)]*\)) (?P<name>\w+)\((?P<given>[^)]*)\) (?P<body>\{\n.*?\n\})(?=\n|\Z)",
    re.S,
)
FACTOR = "double scale"
RESULT = re.compile(r"(?:^|(?<=, ))(double|float)\*(?= \w+)")


def factors_told(text: str, told: Told) -> str:
    """Device code in which kernels that differ in a factor of what they store, and in how wide it is, are one: it is told 1.0 for the one
    that has none."""
    kernels = list(STORES.finditer(text))
    for plain in kernels:
        for scaled in kernels:
            without = re.sub(r" \* scale(?=;)", "", scaled["body"])
            if scaled["void"] != plain["void"] or without != plain["body"] or scaled["body"].count(" * scale;") != 1:
                continue
            wide, narrow = RESULT.findall(plain["given"]), RESULT.findall(scaled["given"])
            given = RESULT.sub("S*", scaled["given"])
            if len(wide) != 1 or len(narrow) != 1 or given != f"{RESULT.sub('S*', plain['given'])}, {FACTOR}":
                continue
            count = plain["given"].count(",") + 1
            told.instead[plain["name"]] = f"{plain['name']}<{wide[0]}>", [*range(count), "1.0"]
            told.instead[scaled["name"]] = f"{plain['name']}<{narrow[0]}>", [*range(count + 1)]
            one = f"\ntemplate <class S> __global__ {plain['void']} {plain['name']}({given}) {scaled['body']}"
            return factors_told(text.replace(plain[0], one).replace(scaled[0], ""), told)
    return text
