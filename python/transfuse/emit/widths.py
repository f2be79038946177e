"""Plain programs in 16 bits: a kernel that reads as many bytes at once as in fp32 has twice the elements in a vector.

A kernel's text for 16 bits differs from that for fp32 in numbers then; one text has a word for each pair of them, and in the
file the word is PICK(…), a choice by the bytes of an element.
"""

from __future__ import annotations

import re
from dataclasses import replace

from transfuse.emit.launches import Launch, Program
from transfuse.emit.text.tokens import tokens

WORD = re.compile(r"\bPICK_(\d+)_(\d+)\b")
MACRO = "#define PICK(fp32, half) (sizeof(STORED) == 4 ? fp32 : half)"
BARRIER = "__syncthreads();"


def both(program: Program, half: Program) -> Program:
    """The program with the numbers of `half`, the one for 16 bits, beside its own in kernels that differ in nothing else; itself where
    that one has other launches."""
    if len(program.launches) != len(half.launches) or (program.extents, program.beyond) != (half.extents, half.beyond):
        return program
    launches = [
        replace(a, kernel=replace(a.kernel, text=text)) if (text := _both(a, b)) else a
        for a, b in zip(program.launches, half.launches)
    ]
    return replace(program, launches=launches)


def as_in(program: Program, other: Program) -> Program:
    """The program with the texts of another, whose kernels it launches for the same blocks and sizes."""
    texts = {key: launch.kernel for launch in other.launches if (key := _asked(launch, other))}
    launches = [
        replace(a, kernel=replace(a.kernel, text=k.text.replace(k.name, a.kernel.name)))
        if (k := texts.get(_asked(a, program)))
        else a
        for a in program.launches
    ]
    return replace(program, launches=launches)


def _asked(launch: Launch, program: Program) -> tuple:
    """What a kernel is and is launched with, addresses apart; its text is that for fp32."""
    kernel = launch.kernel
    numbers = tuple(p.value for p in kernel.parameters if "*" not in p.type)
    words = set(re.findall(r"[a-z_]\w*", " ".join([launch.grid, *numbers])))
    sizes = tuple((name, formula) for name, formula in program.extents if name in words)
    return WORD.sub(r"\1", kernel.text).replace(kernel.name, "@"), launch.grid, numbers, sizes


def _both(a: Launch, b: Launch) -> str | None:
    """One text, where the same blocks write the same: what stands behind the last barrier is equal, and all writes stand there."""
    given = [[(p.name, p.value) for p in launch.kernel.parameters] for launch in (a, b)]
    if given[0] != given[1] or (a.grid, a.block, a.shared, a.cluster) != (b.grid, b.block, b.shared, b.cluster):
        return None
    own, other = a.kernel.text, b.kernel.text
    read, _, writes = own.rpartition(BARRIER)
    written = [p.name for p in a.kernel.parameters if "*" in p.type and not p.type.startswith("const ")]
    body = read[read.rfind("__global__") :].partition("{")[2]
    if other.rpartition(BARRIER)[2] != writes or any(re.search(rf"\b{name}\b", body) for name in written):
        return None
    return _numbers(own, other)


def _numbers(own: str, other: str) -> str | None:
    rows = [tokens(text) for text in (own, other)]
    if len(rows[0]) != len(rows[1]):
        return None
    out = ""
    for a, b in zip(*rows):
        same = a.text == b.text or (a.text, b.text) == ("STORED", "tf_half")
        if not same and not (a.text.isdigit() and b.text.isdigit()):
            return None
        out += a.space + (a.text if same else f"PICK_{a.text}_{b.text}")
    return out + own[len(own.rstrip()) :]


def fp32(program: Program) -> Program:
    """For elements of four bytes alone: where a file has kernels on tensor cores others are converted."""
    return _in(program, r"\1")


def half(program: Program) -> Program:
    """For elements of two bytes alone."""
    return _in(program, r"\2")


def _in(program: Program, chosen: str) -> Program:
    launches = [replace(a, kernel=replace(a.kernel, text=WORD.sub(chosen, a.kernel.text))) for a in program.launches]
    return replace(program, launches=launches)


def said(text: str) -> str:
    """Device code of a file, whose elements may have four bytes or two."""
    return MACRO + "\n" + WORD.sub(r"PICK(\1, \2)", text) if WORD.search(text) else text
