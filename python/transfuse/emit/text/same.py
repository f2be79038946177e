"""Plain kernels without second names: another's name, shared arrays apart from one another, blocks that hold nothing apart."""

from __future__ import annotations

import re

DECLARATION = re.compile(r"(?m)^( *)const int ((?:\w+ = [^;{}\n]*));\n")
SINGLE = re.compile(r"(\w+) = ([A-Za-z_]\w*)")


def aliases_gone(text: str) -> str:
    """Statements that say no more than another name of the kernel's constants: their block reads the constants themselves."""
    for line in list(DECLARATION.finditer(text)):
        aliases = [SINGLE.fullmatch(part) for part in re.split(r", (?=\w+ = )", line[2])]
        if not all(aliases) or not all(_constant(a[2], text) or a[2] in {b[1] for b in aliases} for a in aliases):
            continue
        begin = text.index(line[0])
        block = re.compile(rf"(?:{line[1]}[^\n]*\n|\n)*").match(text, begin + len(line[0]))
        if any(re.search(rf"[\w>*&] {a[1]}(?: = |\[|;)", block[0]) for a in aliases):
            continue
        inside = block[0]
        for alias in reversed(aliases):
            inside = _renamed(inside, alias[1], alias[2])
        text = text[:begin] + inside + text[block.end() :]
    return _asked_once(text)


def _constant(name: str, text: str) -> bool:
    """Whether it is a constant of the kernel."""
    said = re.search(rf"\bconst int (?:[^;{{}}\n]*, )?{name} = ", text)
    return bool(said) and not re.search(
        rf"(?:\+\+|--){name}\b|\b{name} (?:[-+*/]?=)(?!=) (?!.*const)", text[said.end() :]
    )


def _renamed(text: str, name: str, by: str) -> str:
    halves = [line.partition("//") for line in text.split("\n")]
    return "\n".join(re.sub(rf"(?<![.\w]){name}\b", by, code) + mark + note for code, mark, note in halves)


def _asked_once(text: str) -> str:
    """Conditions that must all hold, each once."""

    def once(m: re.Match) -> str:
        parts = m[2].split(" && ")
        if len(set(parts)) == len(parts) or "||" in m[2]:
            return m[0]
        return f"{m[1]}({' && '.join(dict.fromkeys(parts))})"

    return re.sub(r"\b(if )\(((?:[^()\n]|\([^()\n]*\))*)\)", once, text)


BARE = re.compile(r"(?m)^(?P<I> *)\{\n(?P<body>(?:(?P=I)    [^\n]*\n)+)(?P=I)\}\n")
NAMED = re.compile(r"(?m)^    (?:const )?[A-Za-z_][\w:<>]*(?: [a-z]+)*[*&]*(?: const)? [*&]*(\w+)(?= = |\[|;)([^\n]*)")


def blocks_opened(text: str) -> str:
    """A block whose names nobody else has needs no braces."""

    def opened(m: re.Match) -> str:
        body = re.sub(rf"(?m)^{m['I']}", "", m["body"])
        own = [
            name
            for first, more in NAMED.findall(body)
            for name in [first, *re.findall(r", (\w+)(?= = |\[|[,;])", more)]
        ]
        rest = text.replace(m[0], "")
        if any(re.search(rf"\b{name}\b", rest) for name in own):
            return m[0]
        return re.sub(r"(?m)^    ", "", m["body"])

    return BARE.sub(opened, text)


FIRST = re.compile(r"(?m)^(?P<I> *)if \(threadIdx\.x == 0\) (?P<one>[^\n{}]*;|\{ [^\n{}]* \})\n")


def shared_together(text: str) -> str:
    """Arrays of whole numbers that one thread fills: declared together, then filled."""
    runs = re.compile(
        r"(?m)(?:^    __shared__ int [^;\n]*;\n(?:    if \(threadIdx\.x == 0\) (?:[^\n{}]*;|\{ [^\n{}]* \})\n)?){2,}"
    )

    def said(m: re.Match) -> str:
        declared = re.findall(r"__shared__ int ([^;\n]*);", m[0])
        steps = [re.sub(r"^\{ | \}$", "", one["one"]) for one in FIRST.finditer(m[0])]
        lines, room = [f"    __shared__ int {declared[0]}"], 148
        for name in declared[1:]:
            if len(lines[-1]) + len(name) < room:
                lines[-1] += f", {name}"
            else:
                lines.append(f"    __shared__ int {name}")
        out = "".join(f"{line};\n" for line in lines)
        if len(steps) > 1:
            return out + "".join(["    if (threadIdx.x == 0) {\n", *(f"        {s}\n" for s in steps), "    }\n"])
        return out + (f"    if (threadIdx.x == 0) {{ {steps[0]} }}\n" if steps else "")

    return runs.sub(said, text)


ONE_SUM = re.compile(
    r"(?P<I>(?m:^) *)if \(threadIdx\.x == 0\) \{\n(?P<sum>(?:(?P=I)    [^\n]*\n)+?)(?P=I)    (?P<array>\w+)\[0\] = (?P<total>\w+);\n"
    r"(?P=I)\}\n(?P=I)__syncthreads\(\);\n(?P<place>(?P=I)const long long \w+ = [^\n]*;\n)"
    r"(?P=I)if \(threadIdx\.x == 0\) (?P<to>\w+\[[^\n]*\]) = (?P=array)\[0\];\n"
)


def stored_by_its_thread(text: str) -> str:
    """One sum that a thread adds up and stores itself: nobody else reads it."""
    match = ONE_SUM.search(text)
    if not match or len(re.findall(rf"\b{match['array']}\b", text)) != 3:
        return text
    I = match["I"]
    said = (
        f"{match['place']}{I}if (threadIdx.x == 0) {{\n{match['sum']}{I}    {match['to']} = {match['total']};\n{I}}}\n"
    )
    text = text.replace(match[0], said)
    return re.sub(rf"(__shared__ double [^;\n]*), {match['array']}\[1\](?=[,;])", r"\1", text)
