"""Quotients by sizes: kernels multiply by a number that the host computed for them; a long file divides."""

from __future__ import annotations

import re
from dataclasses import replace

from transfuse.emit.launches import Kernel, Program


def plainly(program: Program) -> Program:
    """The program with divisions by the sizes that its kernels are given anyhow: a file has no text for anything else."""
    launches = [replace(launch, kernel=_divided(launch.kernel)) for launch in program.launches]
    return replace(program, launches=launches)


def _divided(kernel: Kernel) -> Kernel:
    sizes = {p.value: p.name for p in kernel.parameters if p.type == "int"}
    text, kept = kernel.text, []
    for p in kernel.parameters:
        size = sizes.get(p.value.removeprefix("divisor(").removesuffix(")"))
        if p.type == "tf_divisor" and size:
            text = re.sub(rf"tf_quotient_of\((\w+|\(int\)[\w.]+), {p.name}\)", rf"(\1 / {size})", text)
            if len(re.findall(rf"\b{p.name}\b", text)) == 1:  # where it is given
                text = re.sub(rf", tf_divisor {p.name}\b", "", text)
                continue
        kept.append(p)
    return Kernel(kernel.name, text, kept)
