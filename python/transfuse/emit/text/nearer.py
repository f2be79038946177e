"""What tensor-core roles compute to be read in one place stands there: numbers of a loop, and functions that are called once."""

from __future__ import annotations

import re

from transfuse.emit.text.layout import WIDTH
from transfuse.emit.text.signature import name_of


def nearer(text: str) -> str:
    """Device code; the compiler is told the same."""
    for change in (_arrays_of_a_loop, _places_of_reads, _what_is_known_there, _conditions, _places_in_shared_memory):
        text = change(text)
    return text


ARRAYS = re.compile(
    r"(?m)^(?P<I> *)int (?P<names>\w+\[(?P<n>\w+)\](?:, \w+\[(?P=n)\])*);\n"
    r"(?P=I)UNROLL for \(int (?P<e>\w+) = 0; (?P=e) < (?P=n); (?P=e)\+\+\) \{\n"
    r" +const int (?P<first>\w+ = [^;\n]*);\s+(?P<given>\w+\[(?P=e)\] = [^;\n]*);\n(?P=I)\}\n"
)


def _arrays_of_a_loop(text: str) -> str:
    """Arrays that one loop fills and another over the same reads: numbers of the other."""
    for m in list(ARRAYS.finditer(text)):
        names = re.findall(r"(\w+)\[", m["names"])
        values = dict(re.findall(rf"(\w+)\[{m['e']}\] = ((?:[^,()]|\([^()]*\))+)", m["given"]))
        loop = re.compile(
            rf"(?m)^(?P<I> *)UNROLL for \(int {m['e']} = 0; {m['e']} < {m['n']}; {m['e']}\+\+\) \{{\n"
            r"(?P<body>(?:(?P=I) +[^\n]*\n)*)(?P=I)\}\n"
        )
        read = next((r for r in loop.finditer(text, m.end()) if any(f"{n}[" in r["body"] for n in names)), None)
        uses = [len(re.findall(rf"\b{n}\[", text)) for n in names]
        if not read or set(values) != set(names):
            continue
        if uses != [2 + len(re.findall(rf"\b{n}\[{m['e']}\]", read["body"])) for n in names]:
            continue
        body = read["body"]
        for n in names:
            body = re.sub(rf"\b{n}\[{m['e']}\]", n, body)
        told = ", ".join([m["first"], *(f"{n} = {values[n].strip()}" for n in names)])
        new = read[0].replace(read["body"], f"{read['I']}    const int {told};\n{body}")
        text = text.replace(read[0], new).replace(m[0], "")
    return text


READ = re.compile(
    r"(?m)^(?P<I> *)(?P<for>UNROLL for \([^\n]*\)) \{\n +const int (?P<p>\w+) = (?P<value>[^;\n,]*(?:\([^\n;]*\))?);\n"
    r"(?P<inner> +UNROLL for \([^\n]*\) [^\n]*;)\n(?P=I)\}\n"
)


def _places_of_reads(text: str) -> str:
    """Where an unrolled loop reads, if one loop within it reads there."""

    def said(m: re.Match) -> str:
        line = re.sub(rf"\b{m['p']}\b", m["value"], m["inner"])
        once = len(re.findall(rf"\b{m['p']}\b", m["inner"])) == 1 and f"+ {m['p']}]" in m["inner"]
        return f"{m['I']}{m['for']}\n{line}\n" if once and len(line) <= WIDTH else m[0]

    return READ.sub(said, text)


CONDITION = re.compile(
    r"(?m)^(?P<said>(?: *//[^\n]*\n)*)(?P<I> *)const auto (?P<name>\w+) = \[&\]\((?P<taken>[^\n]*)\) \{\n"
    r" +return (?P<value>[^\n;]*);\n(?P=I)\};\n"
)


def _conditions(text: str) -> str:
    """A condition that is asked once, of what is known there by the same names."""
    for m in list(CONDITION.finditer(text)):
        names = ", ".join(name_of(p) for p in m["taken"].split(", "))
        use = re.search(rf"(?m)^( *)if \({m['name']}\({names}\)\) ", text)
        if use and len(re.findall(rf"\b{m['name']}\(", text)) == 1:
            said = "".join(f"{use[1]}{line.strip()}\n" for line in m["said"].splitlines())
            text = text.replace(use[0], f"{said}{use[1]}if ({m['value']})\n{use[1]}    ").replace(m[0], "")
    return text


LAMBDA = re.compile(
    r"(?m)^(?P<said>(?: *//[^\n]*\n)*)(?P<I> *)const auto (?P<name>\w+) = \[&\]\((?P<taken>[^\n]*)\) "
    r"(?P<how>__attribute__\(\(always_inline\)\) )\{\n(?P<body>(?:(?P=I)    [^\n]*\n)+)(?P=I)\};\n"
)


def _what_is_known_there(text: str) -> str:
    """A function of a role that is given what is known by the same names where it is called stands there and reads it."""
    for m in list(LAMBDA.finditer(text)):
        taken = m["taken"].split(", ")
        names = [re.search(r"(\w+)\)?(?:\[\w+\])*$", p)[1] for p in taken]
        calls = [c for c in re.finditer(rf"\b{m['name']}\(([^()\n]*)\)", text) if c.start() > m.end()]
        given = [c[1].split(", ") for c in calls]
        known = [i for i, n in enumerate(names) if all(g[i : i + 1] == [n] for g in given)]
        if not calls or not known or any(len(g) != len(names) for g in given):
            continue
        behind = text[m.end() :]
        first = behind.rfind("\n", 0, calls[0].start() - m.end()) + 1
        deeper = re.match(r" *", behind[first:])[0]
        left = lambda list_: ", ".join(x for i, x in enumerate(list_) if i not in known)  # noqa: B023, E731
        lines = [*m["said"].splitlines(), f"{m['I']}const auto {m['name']} = [&]({left(taken)}) {m['how']}{{"]
        lines += [*m["body"].splitlines(), f"{m['I']}}};"]
        moved = "".join(f"{deeper}{line[len(m['I']) :]}\n" for line in lines)
        after = re.sub(
            rf"\b{m['name']}\(([^()\n]*)\)",
            lambda c: f"{m['name']}({left(c[1].split(', '))})",  # noqa: B023
            behind[first:],
        )
        text = text[: m.start()] + behind[:first] + moved + after
    return text


POINTER = re.compile(r"(?m)^(?P<I> +)const float\* (?P<name>\w+) = (?P<value>\(const float\*\)\([^\n;()]*\));\n")


def _places_in_shared_memory(text: str) -> str:
    """A place in shared memory that one statement of a role reads from."""
    for m in reversed(list(POINTER.finditer(text))):
        end = text.find("\n}\n", m.end())
        begin, behind = text.rfind("\n}\n", 0, m.start()), text[m.end() : end]
        reads = list(re.finditer(rf"\b{m['name']}\b(?P<by>\[| \+ )", behind))
        fixed = all(
            w in ("const", "float", "shared")
            or w.isupper()
            or re.search(rf"const int [^;\n]*\b{w} = ", text[begin : m.start()])
            for w in re.findall(r"[A-Za-z_]\w*", m["value"])
        )
        if end < 0 or not fixed or len(reads) != 1 or len(re.findall(rf"\b{m['name']}\b", behind)) != 1:
            continue
        value = f"({m['value']})[" if reads[0]["by"] == "[" else f"{m['value']} + "
        said = behind[: reads[0].start()] + value + behind[reads[0].end() :]
        line = said[said.rfind("\n", 0, reads[0].start()) + 1 :].split("\n")[0]
        if len(line) <= WIDTH:
            text = text[: m.start()] + said + text[end:]
    return text
