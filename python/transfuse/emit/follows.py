"""Numbers that follow from sizes: a kernel is given strides and bounds beside its sizes; a long file says them where they are read."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from transfuse.emit.launches import Kernel, Program, Told
from transfuse.emit.text.signature import name_of
from transfuse.emit.text.tokens import split, tokens

FOLLOWS = re.compile(r"(?:\d+ \* )?[a-z_]+(?:(?: \* [a-z_]+)+| [+-] \d+)?|\([a-z_]+ \+ \d+\) / \d+")


# Of each kernel whole numbers that it is given and need not be: products of sizes which it is given, near to one of them, or blocks of
# it, by formulas in which @i is its parameter i.
Found = dict[str, dict[int, str]]


def found(programs: list[Program]) -> Found:
    """What two launches of a kernel give differently is no such number."""
    out: Found = {}
    for launch, extents in [(launch, dict(program.extents)) for program in programs for launch in program.launches]:
        own = _of(launch.kernel, extents)
        known = out.setdefault(launch.kernel.name, own)
        out[launch.kernel.name] = {i: formula for i, formula in own.items() if known.get(i) == formula}
    return out


def _of(kernel: Kernel, extents: dict[str, str]) -> dict[int, str]:
    whole = {i: p.value for i, p in enumerate(kernel.parameters) if p.type == "int"}
    sizes = {value: i for i, value in whole.items() if re.fullmatch(r"[a-z_]+", value)}
    out = {}
    for i, value in whole.items():
        formula = extents.get(value, value)
        words = re.findall(r"[a-z_]+", formula)
        if FOLLOWS.fullmatch(formula) and all(sizes.get(w, i) != i for w in words):
            out[i] = re.sub(r"[a-z_]+", lambda m: f"@{sizes[m[0]]}", formula)
    return out


STEPS = re.compile(r"\{([^{},]*(?:, [^{},]*){4})\}")


def strides(program: Program) -> Program:
    """A program whose tensor-core kernels say strides that are numbers, or follow from the output's sizes, where they read them."""
    launches = []
    for launch in program.launches:
        kernel = launch.kernel
        sizes = next((p for p in kernel.parameters if p.type == "Sizes"), None)
        text = kernel.text
        for p in kernel.parameters if sizes else []:
            steps = STEPS.fullmatch(p.value) if p.type == "Strides" else None
            if steps:
                text = _strides_said(text, p.name, steps[1].split(", "), _lists(sizes.value)[1])
        launches.append(replace(launch, kernel=Kernel(kernel.name, text, kernel.parameters)))
    return replace(program, launches=launches)


def _lists(value: str) -> list[list[str]]:
    return [found.split(", ") for found in re.findall(r"\{([^{}]*)\}", value)]


def _strides_said(text: str, name: str, steps: list[str], extents: list[str]) -> str:
    own = rf"\boperands\.{name}\b"
    if all(step.isdigit() for step in steps):
        numbers = dict(zip("ncdhw", steps))
        return re.sub(rf"{own}\.([ncdhw])\b", lambda m: numbers[m[1]], text)
    channels = _quotient(steps[0], steps[1])
    behind = [_product(extents[a:]) for a in (1, 2, 3)]
    if not channels or [*map(_factors, steps[1:4])] != [*map(_factors, behind)] or steps[4] != "1":
        return text
    said = text
    for begin, end, given in reversed(_calls(text, "offset_of")):
        if given[0] == f"operands.{name}":
            n, c, d, h, w = given[1:]
            place = f"((({n} * {channels} + {c}) * s.out[1] + {d}) * s.out[2] + {h}) * s.out[3] + {w}"
            said = said[:begin] + place + said[end:]
    said = re.sub(rf"{own}\.c\b", "s.out[1] * s.out[2] * s.out[3]", said)
    return text if re.search(own, said) else said


def _factors(product: str) -> list[str]:
    return sorted(product.split(" * "))


def _product(factors: list[str]) -> str:
    return " * ".join(factors)


def _quotient(product: str, by: str) -> str | None:
    """The number by which one product is another's multiple."""
    rest = product.split(" * ")
    for factor in by.split(" * "):
        if factor not in rest:
            return None
        rest.remove(factor)
    return rest[0] if len(rest) == 1 and rest[0].isdigit() else None


BODY = r"(?P<body>\n.*?\n\}(?=\n|\Z))"
HEAD = r"__global__ void __launch_bounds__\([^)]*\) "
KERNEL = re.compile(rf"(?P<head>{HEAD}(?P<name>\w+)\()(?P<given>[^)]*)\) \{{{BODY}", re.S)


def said(text: str, known: Found, told: Told) -> str:
    """Device code in which kernels are not given these numbers."""
    for kernel in list(KERNEL.finditer(text)):
        name, follows = kernel["name"], known.get(kernel["name"])
        if follows is None or "wgmma" in kernel["body"]:
            continue
        names, given = _parameters(kernel, told)
        body, gone = kernel["body"], set()
        for i, formula in follows.items():
            read = {int(n) for n in re.findall(r"@(\d+)", formula)}
            if i in names and read <= set(names) - set(follows):
                value = re.sub(r"@(\d+)", lambda m: names[int(m[1])], formula)  # noqa: B023
                said, reads = re.subn(rf"(?<![.\w]){names[i]}\b", f"({value})", body)
                if " / " in value:  # where jobs of a kernel begin and end
                    said, bounds = re.subn(rf"(\bblock\d* [<-] ){names[i]}\b", rf"\g<1>{value}", body)
                    if bounds < reads:
                        continue
                body = said
                gone.add(i)
        kept = ", ".join(p for i, p in given.items() if i not in gone)
        told.unread[name] = told.unread.get(name, set()) | gone
        text = text.replace(kernel[0], f"{kernel['head']}{kept}) {{{body}")
    return _plain(_functions(text))


def _parameters(kernel: re.Match, told: Told) -> tuple[dict[int, str], dict[int, str]]:
    """Of the parameters that a kernel has left their names, and what declares them."""
    given = [p.strip() for p in kernel["given"].split(",")]
    gone = told.unread.get(kernel["name"], set())
    places = [i for i in range(len(given) + len(gone)) if i not in gone]
    return {i: name_of(p) for i, p in zip(places, given)}, dict(zip(places, given))


GIVEN = r"(?P<given>(?:[^()]|\([^()]*\))*)"
FUNCTION = re.compile(rf"(?P<head>\n(?:template <[^>]*> )?DEVICE void (?P<name>\w+)\(){GIVEN}\) \{{{BODY}", re.S)


def _functions(text: str) -> str:
    """What every call of a function says of other numbers it gives: said in the function."""
    for function in list(FUNCTION.finditer(text)):
        name, given = function["name"], [p.strip() for p in function["given"].split(",")]
        calls = [c for c in _calls(text, name) if c[0] != function.start("name")]
        names = [name_of(p) for p in given]
        if not calls or any(len(c[2]) != len(given) for c in calls):
            continue
        values = [[_of_names(c[2][i], dict(zip(c[2], names))) for c in calls] for i in range(len(given))]
        gone = {i: own[0] for i, own in enumerate(values) if own[0] and len(set(own)) == 1}
        if not gone:
            continue
        body = function["body"]
        for i, value in gone.items():
            body = re.sub(rf"(?<![.\w]){names[i]}\b", value, body)
        for begin, end, arguments in reversed(calls):
            kept = ", ".join(a for i, a in enumerate(arguments) if i not in gone)
            text = f"{text[:begin]}{name}({kept}){text[end:]}"
        kept = ", ".join(p for i, p in enumerate(given) if i not in gone)
        text = text.replace(function[0], f"{function['head']}{kept}) {{{body}")
    return text


def _of_names(value: str, names: dict[str, str]) -> str | None:
    """A formula in brackets, in the names that the function has for what it is given; None where it has not."""
    words = set(re.findall(r"[a-z_]\w*", value))
    if not re.fullmatch(r"\([\w *+-]+\)", value) or not words <= set(names):
        return None
    return re.sub(r"[a-z_]\w*", lambda m: names[m[0]], value)


def _calls(text: str, name: str):
    """Where each begins and ends, and what it gives."""
    out = []
    for match in re.finditer(rf"\b{name}\(", text):
        depth, at = 1, match.end()
        while depth:
            depth += (text[at] in "([{") - (text[at] in ")]}")
            at += 1
        parts = split(tokens(text[match.end() : at - 1]), {","})
        out.append((match.start(), at, ["".join(t.space + t.text for t in p).strip() for p in parts]))
    return out


TERM = r"(?:\w+(?: \* (?:\w+|\([\w *]+\)))?)"
SUM = re.compile(rf"(?<=[(\[]){TERM}(?: \+ {TERM})+(?=[)\]])|(?<= = ){TERM}(?: \+ {TERM})+(?=;)")


def places_in_turn(text: str) -> str:
    """Places by strides, q * (3 * h * w) + c * (h * w) + i * w + j, axis by axis: ((q * 3 + c) * h + i) * w + j."""
    return SUM.sub(lambda m: _in_turn(m[0]) or m[0], text)


def _in_turn(sum_: str) -> str | None:
    terms = []
    for term in sum_.split(" + "):
        index, _, stride = term.partition(" * ")
        terms.append((stride.strip("()").split(" * ") if stride else [], index))
    terms.sort(key=lambda t: -len(t[0]))
    strides = [stride for stride, _ in terms]
    if "(" not in sum_ or any(len(a) == len(b) or a[len(a) - len(b) :] != b for a, b in pairwise(strides)):
        return None
    out = ""
    for (stride, index), (further, _) in zip(terms, [*terms[1:], ([], "")]):
        own = stride[: len(stride) - len(further)]
        out = f"{out} + {index}" if out else index
        if own:
            out = f"({out}) * {' * '.join(own)}" if " + " in out else f"{out} * {' * '.join(own)}"
    return out


def _plain(text: str) -> str:
    text = re.sub(r"<= \((\w+) - 1\)", r"< \1", places_in_turn(text))
    return re.sub(
        r"((?:[<>]=?|[=!]=|=|,) )\(((?:\d+ \* )?\w+ [+-] \d+|\d+(?: \* \w+)+)\)(?=[;,)]| (?:&&|[|]{2}|[?:]))",
        r"\1\2",
        text,
    )
