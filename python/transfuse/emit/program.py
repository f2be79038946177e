"""One program of a file: kernels whose every argument is a formula of the sizes."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np

from transfuse import library
from transfuse.emit import widths
from transfuse.emit.formula import Unstated
from transfuse.emit.launches import Kernel, Parameter, Program
from transfuse.emit.sizes import Sized, grains, samples
from transfuse.emit.stating import FLOAT, Stating

SAMPLES = 30  # sizes at which every formula must hold


def state(
    sized: Sized, options: str, aligned: bool, dtype: str = "f32", prefix: str = "", fixed: tuple[str, ...] = ()
) -> Program:
    """The program that was chosen for the example's sizes (or, if not `aligned`, for odd ones like them). The sizes called
    `fixed` are always the example's."""
    example = sized.example if aligned else {s.name: s.example | 1 for s in sized.symbols}
    kept = {name: example[name] for name in fixed}

    def ask(sizes):
        sizes.update(kept)
        return library.stated(sized.text(example, dtype), sized.text(sizes, dtype), options)

    if len(kept) == len(sized.symbols):
        return _counted(Stating(sized, [(example, ask(dict(example)))], prefix).program({}))
    found = _ask(ask, itertools.chain([example], samples(sized.symbols, SAMPLES, 1, aligned)))
    program = Stating(sized, found, prefix).program(grains(sized.symbols, aligned))
    # What is rounded up changes at multiples of the divisors: the formulas must hold there as well, or others be found.
    for turn in (2, 3):
        edges = sorted(_divisors(program))
        found += _ask(ask, samples(sized.symbols, SAMPLES, turn, aligned, edges), found[0][1])
        program = Stating(sized, found, prefix).program(grains(sized.symbols, aligned))
        if sorted(_divisors(program)) == edges:
            break
    return _counted(program)


def in_16_bits(
    program: Program, sized: Sized, options: str, prefix: str, fixed: tuple[str, ...] = ()
) -> tuple[Program, Program | None]:
    """A program without tensor cores, with the numbers that its kernels have for 16 bits beside those for fp32; and the one for 16 bits
    alone, where that has other launches."""
    try:
        half = state(sized, options, True, "f16", prefix, fixed)
    except (Unstated, ValueError, library.CompileError):  # fp32's kernels read 16 bits too
        return program, None
    both = widths.both(program, half)
    return both, half if both is program else None


COUNT = re.compile(r"count_(\d+)")


def _counted(program: Program) -> Program:
    """Numbers in names follow the order in which launches use them: so programs of several builds read alike."""
    texts = [
        text for launch in program.launches for text in [launch.grid, *(p.value for p in launch.kernel.parameters)]
    ]
    order: dict[str, int] = {}
    for text in [*texts, *(f for _, f in program.workspace), program.bytes, *(f for _, f in program.extents)]:
        for number in COUNT.findall(text):
            order.setdefault(number, len(order) + 1)
    for name, _ in program.extents:
        for number in COUNT.findall(name):
            order.setdefault(number, len(order) + 1)

    def named(text: str) -> str:
        return COUNT.sub(lambda m: f"count_{order.get(m[1], m[1])}", text)

    def kernel(k: Kernel) -> Kernel:
        own = [Parameter(p.type, named(p.name), named(p.value), p.constant) for p in k.parameters]
        words = [p.name for p in k.parameters if COUNT.search(p.name)]  # members of a struct may be called so too
        text = re.sub(rf"(?<![.\w])(?:{'|'.join(words)})\b", lambda m: named(m[0]), k.text) if words else k.text
        return Kernel(k.name, text, own)

    pairs = lambda list_: [(named(name), named(formula)) for name, formula in list_]  # noqa: E731
    return replace(
        program,
        kernels=[kernel(k) for k in program.kernels],
        launches=[
            replace(launch, kernel=kernel(launch.kernel), grid=named(launch.grid)) for launch in program.launches
        ],
        extents=pairs(program.extents),
        workspace=pairs(program.workspace),
        bytes=named(program.bytes),
        outputs=[(dtype, [named(e) for e in shape]) for dtype, shape in program.outputs],
        largest=[named(text) for text in program.largest],
        beyond=[named(text) for text in program.beyond],
    )


def _ask(ask, sizes, like=None) -> list[tuple[dict, dict]]:
    """What the generators say at these sizes, as far as the kernels are alike (and `like` those)."""
    by_text: dict = {}
    reason = "no sizes"
    for at in sizes:
        try:
            made = ask(at)
        except library.CompileError as error:
            reason = error
            continue
        if max(int(np.prod(shape, dtype=object)) for shape in made["extents"]) < (1 << 31) - (1 << 16):
            by_text.setdefault(_skeleton(made), []).append((at, made))
    if like is not None:
        return by_text.get(_skeleton(like), [])
    found = max(by_text.values(), key=len, default=[])
    if len(found) < SAMPLES // 2:
        raise Unstated(f"the kernels are alike at {len(found)} sizes of {SAMPLES} only ({reason})")
    return found


def _divisors(program: Program) -> set[int]:
    texts = [f for _, f in program.extents + program.workspace] + [l.grid for l in program.launches]
    texts += [p.value for k in program.launches for p in k.kernel.parameters]
    return {
        int(d) for text in texts for d in re.findall(r"(?:ceil_div\([^(),]*, |/ )(\d+)", text) if 1 < int(d) < 4096
    } or {16}


def _skeleton(made: dict) -> tuple:
    sources = tuple(FLOAT.sub("#", source["text"]) for source in made["sources"])
    launches = tuple(
        (l["source"], l["cluster"], l["early"], tuple(_shape(a) for a in l["arguments"])) for l in made["launches"]
    )
    return sources, launches


def _shape(argument):
    return len(argument) if isinstance(argument, str) else tuple(argument[:2])
