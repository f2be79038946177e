"""Host code of a file whose train and eval mode do much alike: one function for both, in which a launch of both stands once.

Programs of two modes are stated apart: their sizes have other names, and their regions of the workspace another order. What both launch
tells which regions serve the same purpose; the others of eval mode lie where train mode has regions of their size.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace

from transfuse.emit import host
from transfuse.emit.launches import Program, Told

AT = re.compile(r"\bat_\d+\b")


@dataclass
class Mode:
    """A part in one mode, as host.function is told of it."""

    name: str
    leaves: int
    condition: str
    program: Program


def function(train: Mode, other: Mode, symbols: list[str], clusters: bool, otherwise: int, told: Told) -> str | None:
    """None where the modes have no launch in common, or other conditions."""
    condition = train.condition.replace(f"(leaf, {train.leaves})", "(leaf, out - leaf)")
    if not condition or other.condition.replace(f"(leaf, {other.leaves})", "(leaf, out - leaf)") != condition:
        return None
    launches = [*train.program.launches, *other.program.launches]
    program = replace(train.program, extents=_extents(train.program, other.program), launches=launches)
    names = _names(program, other.program)
    hopper = "arch == 90" in condition
    mine = host.calls(train.program, clusters, hopper, told)
    theirs = [_renamed(call, names) for call in host.calls(other.program, clusters, hopper, told)]
    said = lambda p: [_renamed(text, names) for text in (*p.largest, *p.beyond)]  # noqa: E731
    places = _places(train.program, other.program, names, mine, theirs)
    if places is None or said(train.program) != said(other.program) or train.program.optional or other.program.optional:
        return None
    calls = _merged(mine, [AT.sub(lambda m: places[m[0]], call) for call in theirs])
    outputs = [len(mode.program.outputs) for mode in (train, other)]
    given = "void* const* leaf, const long long* size, cudaStream_t stream, int arch, int asks"
    lines = [
        f"#define CALL {given}",
        "static long long compute(bool training, CALL) {",
        f"    void* const* const out = leaf + (training ? {train.leaves} : {other.leaves});",
        *host.only(symbols, condition, program, otherwise, calls, f"out[training ? {outputs[0]} : {outputs[1]}]"),
        "}",
        *(
            f'extern "C" long long {mode.name}(CALL) {{ return compute({word}, leaf, size, stream, arch, asks); }}'
            for mode, word in ((train, "true"), (other, "false"))
        ),
    ]
    return "\n".join(lines)


def _names(program: Program, other: Program) -> dict[str, str]:
    """Of the other program's sizes the names that they have in this one, which has all of them."""
    by, names = {formula: name for name, formula in program.extents}, {}
    for name, formula in other.extents:
        names[name] = by[_renamed(formula, names)]
    return names


def _extents(program: Program, other: Program) -> list[tuple[str, str]]:
    """This program's sizes, and behind them those that the other one has alone, by names that nothing has yet."""
    extents, names = list(program.extents), {}
    for name, formula in other.extents:
        formula = _renamed(formula, names)
        known = next((n for n, f in extents if f == formula), None)
        if known is None:
            taken = {n for n, _ in extents}
            known = name if name not in taken else next(n for k in range(1, 999) if (n := f"count_{k}") not in taken)
            extents.append((known, formula))
        names[name] = known
    return extents


def _renamed(text: str, names: dict[str, str]) -> str:
    return re.sub(r"\b[a-z]\w*\b", lambda m: names.get(m[0], m[0]), text)


def _regions(program: Program, names: dict[str, str]) -> dict[str, str] | None:
    """How large each region of the workspace is: up to where the next one begins."""
    ends, sizes = [*(formula for _, formula in program.workspace[1:]), program.bytes], {}
    for (name, _), end in zip(program.workspace, ends):
        if not end.startswith(f"{name} + "):
            return None
        sizes[name] = _renamed(end.removeprefix(f"{name} + "), names)
    return sizes


def _places(program: Program, other: Program, names, mine: list[str], theirs: list[str]) -> dict[str, str] | None:
    """For each region of the other program one of this one's: that which a launch of both is given, else any of its size."""
    sizes, wanted = _regions(program, {}), _regions(other, names)
    if not sizes or not wanted:
        return None
    found: dict[str, str] = {}
    for _, a, b, n in _alike(mine, theirs):
        for call, its in zip(mine[a : a + n], theirs[b : b + n]):
            for place, own in zip(AT.findall(call), AT.findall(its)):
                if found.setdefault(own, place) != place:
                    return None
    for own in wanted:
        free = [place for place in sizes if place not in found.values() and sizes[place] == wanted[own]]
        if own not in found and not free:
            return None
        found.setdefault(own, free[0] if free else "")
    same = all(sizes[place] == wanted[own] for own, place in found.items())
    return found if same and len({*found.values()}) == len(found) and _alike(mine, theirs) else None


def _alike(mine: list[str], theirs: list[str]) -> list[tuple[int, int, int, int]]:
    """Runs of launches that are alike but for places in the workspace: (number, first of mine, first of theirs, how many)."""
    lists = [[AT.sub("@", call) for call in calls] for calls in (mine, theirs)]
    blocks = difflib.SequenceMatcher(None, *lists, autojunk=False).get_matching_blocks()
    return [(k, *block) for k, block in enumerate(blocks) if block.size]


def _merged(mine: list[str], theirs: list[str]) -> list[str]:
    """Launches of both in turn; what one mode has alone is asked for."""
    out: list[str] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
        if kind == "equal":
            out += mine[a:b]
            continue
        parts = [("training", mine[a:b]), ("!training", theirs[c:d])]
        (word, first), *rest = [part for part in parts if part[1]]
        out += [f"if ({word}) {{", *(f"    {call}" for call in first)]
        for _, calls in rest:
            out += ["} else {", *(f"    {call}" for call in calls)]
        out.append("}")
    return out
