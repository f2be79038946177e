"""Device code for a reader: what the kernels share stands once, what none of them uses is gone."""

from __future__ import annotations

import re
from dataclasses import replace

from transfuse.emit import follows, widths
from transfuse.emit.alike import as_compiled, one_text, read_together
from transfuse.emit.chunks import Chunk, chunks, declared_first, macros_within, needed, overloads, unused_macros_gone
from transfuse.emit.compiler import refused
from transfuse.emit.dissolved import dissolved
from transfuse.emit.conversions import CONVERSIONS, converted, tables_as_functions
from transfuse.emit.launches import Told
from transfuse.emit.passes import (
    aliases_gone,
    called_once,
    comments_of_its_own,
    constants_together,
    members_used_once,
    numbers_for_functions,
    numbers_for_names,
    one_number_tables,
    one_overload,
    operands_given,
    operands_read,
    renumbered,
    shortened,
    sums_chosen,
    unread_parameters,
    without_unread,
    variants_chosen,
    without_idle,
)
from transfuse.emit.places import places_said
from transfuse.emit.rolled import rolled
from transfuse.emit.said_once import (
    constants_of_file,
    equal_counts,
    equal_tables,
    pairs_once,
    rows_of_phases,
    used_once,
)
from transfuse.emit.text import specialised
from transfuse.emit.text.again import factors_told
from transfuse.emit.text.alone import alone
from transfuse.emit.text.beginnings import shared_beginnings
from transfuse.emit.text.boxes import boxes
from transfuse.emit.text.brief import brief
from transfuse.emit.text.cuts import cuts
from transfuse.emit.text.direct import direct
from transfuse.emit.text.formulas import formulas, shortest
from transfuse.emit.text.indices import indices
from transfuse.emit.text.jobs import jobs
from transfuse.emit.text.machine import machine
from transfuse.emit.text.nearer import nearer
from transfuse.emit.text.pieces import shared_pieces
from transfuse.emit.text.prune import differences_gone
from transfuse.emit.text.ranges import Range, tables
from transfuse.emit.text.roles import nothing_held
from transfuse.emit.text.same import shared_together
from transfuse.emit.text.short import DEVICE, FOUR_ROUNDED, SHARED, lists, product, rounded, shorter, stores_written_out
from transfuse.emit.text.sums import FUNCTION, by_terms, inlined, summed
from transfuse.emit.text.tidy import tidy
from transfuse.emit.text.values import SIZES, agreed, constants
from transfuse.emit.transposed import transposed
from transfuse.emit.unread import methods_called, overloads_chosen, sums_begun
from transfuse.emit.written_out import arrays_by_extents, fragments
from transfuse.problem import ProblemError


# Elements of 16 bits: numbers that are stored so and computed with as float.
ELEMENTS = """struct Half {
    unsigned short bits;
    Half() = default;
    __device__ Half(float f) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f)); }
    __device__ operator float() const { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits)); return f; }
};
struct Bfloat {
    unsigned short bits;
    Bfloat() = default;
    __device__ Bfloat(float f) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(f)); }
    __device__ operator float() const { return __uint_as_float((unsigned)bits << 16); }
};"""


def assembled(
    builds: dict[str, list[tuple[str, str]]], plainly: bool = False, known: follows.Found | None = None
) -> tuple[dict[str, str], Told]:
    """Of each build its device code; given are (name, source) of its kernels. What kernels share comes first. And how they are launched
    now: parameters that nobody reads are gone. Plainly: every kernel is read by itself; so is a text that the compiler refuses, or
    that confuses one of the passes. known: of each kernel numbers that it need not be given."""
    try:
        code, told = ({}, Told()) if plainly else _briefly(builds)
        if code and known:
            code = {key: _sizes_said(text, known, told) for key, text in code.items()}
    except (IndexError, KeyError, TypeError, AttributeError, ValueError):  # a pass met a text that it was not made for
        code = {}
    stored = {key: "Half" if key == "half" else "float" for key in builds}
    code = {key: widths.said(text) for key, text in code.items()}
    if not code or any(refused(as_compiled(text), f"-DSTORED={stored[key]}") for key, text in code.items()):
        code, told = {key: widths.said(text) for key, text in _plainly(builds).items()}, Told()
        if errors := [e for key, text in code.items() if (e := refused(text, f"-DSTORED={stored[key]}"))]:
            raise ProblemError(f"no file can be written: the compiler refuses its kernels ({errors[0]})")
    return code, told


def _sizes_said(text: str, known: follows.Found, told: Told) -> str:
    """A long file's text: numbers that follow from sizes are said where they are read, and what that makes alike is said once."""
    text = factors_told(boxes(cuts(follows.said(text, known, told))), told)
    return constants_of_file(direct(text))


def _plainly(builds: dict[str, list[tuple[str, str]]]) -> dict[str, str]:
    """Every kernel by itself, less what its own constants decide: longer, and what the generators wrote otherwise."""
    sources = {
        key: [(name, macros_within(needed(chunks(text)))) for name, text in kernels] for key, kernels in builds.items()
    }
    every = [source for list_ in sources.values() for _, source in list_]
    for source in every:
        for _ in range(2):
            known = _constants([source])
            source[:] = needed([_printed(chunk, known, False) for chunk in source])
    aliases_gone(every)
    for source in every:
        source[:] = tables_as_functions(needed([converted(c) for c in source if not c.names & CONVERSIONS]))
    return {key: _text(list_) for key, list_ in sources.items()}


def _briefly(builds: dict[str, list[tuple[str, str]]]) -> tuple[dict[str, str], Told]:
    sources = {
        key: [(name, macros_within(needed(chunks(text)))) for name, text in kernels] for key, kernels in builds.items()
    }
    for list_ in sources.values():
        renumbered([source for _, source in list_])
    for list_ in read_together(sources):
        _reduced(list_)
    every = [source for list_ in sources.values() for _, source in list_]
    used = set().union(*(c.words for source in every for c in source if not (c.macro and len(c.names) > 1)))
    for source in every:
        source[:] = [unused_macros_gone(chunk, used) for chunk in source]
    told = Told(unread_parameters(list(sources.values())))
    order = told.order if len(sources) == 1 else None
    for source in every:
        source[:] = needed(source)
    texts = {key: shared_pieces(shared_beginnings(one_text(_text(list_), order))) for key, list_ in sources.items()}
    texts = {key: pairs_once(text) for key, text in texts.items()}
    texts = {key: machine(nearer(indices(direct(formulas(shortest(text)))))) for key, text in texts.items()}
    return texts if "half" in texts else {key: stores_written_out(text) for key, text in texts.items()}, told


SPOKEN = re.compile(r"// Dense tiles: [^\n]*\n| *// columns from here on\b|(?<=which of the two) that take the role\b")


def _reduced(every: list[list[Chunk]]) -> None:
    """Kernels that are read together, less what their constants decide."""
    one_number_tables(every)
    equal_counts(every)
    rows_of_phases(every)
    sums_chosen(every, _constants(every))
    for source in every:  # the constants speak for themselves
        source[:] = [replace(c, text=SPOKEN.sub("", c.text)) for c in source]
    for roll in (False, False, False, True):  # what is left of a function may decide how others read
        known = _constants(every)
        for source in every:
            source[:] = [replace(c, text=differences_gone(c.text)) if c.kernel else c for c in source]
            source[:] = needed(methods_called(without_idle([_printed(chunk, known, roll) for chunk in source], known)))
        if not roll:
            numbers_for_functions(every)
            shortened(every)
            called_once(every)
            numbers_for_names(every)
    for source in every:
        source[:] = needed([replace(c, text=text) for c, text in zip(source, nothing_held([c.text for c in source]))])
    _once_more(every)
    variants_chosen(every)
    aliases_gone(every)
    for source in every:
        source[:] = needed(without_unread(source))
    operands_read(every)
    members_used_once(every)
    for source in every:
        _sums_by_name(source)
        _rounded_by_name(source)
    for source in every:
        source[:] = tables_as_functions(needed([converted(c) for c in source if not c.names & CONVERSIONS]))
    one_overload(every)
    used_once(every, _constants(every))
    for source in every:
        source[:] = needed(
            transposed(dissolved(fragments(arrays_by_extents(sums_begun(overloads_chosen(places_said(source)))))))
        )
        constants_together(source)
        comments_of_its_own(source)
        operands_given(source)
        texts = alone([c.text for c in source])
        source[:] = needed([replace(c, text=text) for c, text in zip(source, texts) if text.strip()])


def _once_more(every: list[list[Chunk]]) -> None:
    """What the tap loop calls once, now that it is a loop."""
    before = [{c.text for c in source} for source in every]
    called_once(every)
    for source, texts in zip(every, before):
        source[:] = [c if c.text in texts else replace(c, text=specialised(c.text, {}, False)) for c in source]


def _sums_by_name(source: list[Chunk]) -> None:
    """Of plain kernels: sums over slices by a function, values that are used once where they are used."""
    for i, c in enumerate(source):
        if c.kernel and "wgmma" not in c.text:
            source[i] = replace(c, text=inlined(summed(c.text)))
    if any("tf_sum_slices(" in c.text for c in source):
        at = next(i for i, c in enumerate(source) if c.kernel)
        source.insert(at, Chunk(FUNCTION, {"tf_sum_slices"}, function=True))


def _rounded_by_name(source: list[Chunk]) -> None:
    texts = [c.text if c.macro else rounded(c.text) for c in source]
    if any(" rounded(" in text for text in texts) and (
        own := [i for i, c in enumerate(source) if "round_tf32" in c.names]
    ):
        source[:] = [c if c.text == text else replace(c, text=text) for c, text in zip(source, texts)]
        source.insert(own[0] + 1, Chunk(FOUR_ROUNDED, {"rounded"}, function=True))


def _text(kernels: list[tuple[str, list[Chunk]]]) -> str:
    # A chunk may be shared if it and everything it reaches read the same wherever its names stand.
    texts: dict[str, set[str]] = {}
    for _, source in kernels:
        for chunk in source:
            for name in chunk.names:
                texts.setdefault(name, set()).add(chunk.text)
    several = {name for name, found in texts.items() if len(found) > 1 and not overloads(kernels, name)}
    grew = True
    while grew:
        grew = False
        for _, source in kernels:
            for chunk in source:
                if not chunk.names <= several and not chunk.kernel and chunk.words & several:
                    several |= chunk.names
                    grew = True
    order: list[str] = []
    shared: dict[str, Chunk] = {}
    for _, source in kernels:
        last = -1
        for chunk in source:
            if chunk.kernel or chunk.names & several:
                continue
            if chunk.text not in shared:
                shared[chunk.text] = chunk
                order.insert(last + 1, chunk.text)
            last = order.index(chunk.text)
    named = "".join(c.text for _, source in kernels for c in source)
    macros = [DEVICE, *([lists(named)] if "EIGHT(" in named else []), *([SHARED] if "SHARED(" in named else [])]
    blocks = ['#define UNROLL _Pragma("unroll")', *macros, ELEMENTS]
    blocks += _blocks(declared_first([shared[text] for text in order]))
    for name, source in kernels:
        mine = [c for c in source if c.kernel or c.names & several]
        if len(mine) == 1:
            blocks += _blocks(mine)
            continue
        macros = sorted(n for c in mine if c.macro for n in c.names)
        blocks += [
            f"\nnamespace {name}_ {{",
            *_blocks(mine),
            f"}}\nusing {name}_::{name};" + "".join(f"\n#undef {m}" for m in macros),
        ]
    text = "\n".join(_said(block) for block in blocks)
    return shared_together(constants_of_file(equal_tables(jobs(by_terms(text)))))


def _said(block: str) -> str:
    plain = "__global__" in block and "__CUDA_ARCH_FEAT" not in block
    return tidy(brief(tidy(inlined(block)))) if plain else tidy(block)


def _constants(sources: list[list[Chunk]]) -> dict:
    """Constants of all sources: one value where they agree, else one for each source. Functions only where they agree."""
    each = [constants("\n".join(c.text for c in source if not c.kernel)) for source in sources]
    found = {}
    for name in dict.fromkeys(name for known in each for name in known):
        values = tuple(known.get(name) for known in each)
        some = set(values) - {None}
        if len(some) == 1:
            found[name] = next(iter(some))
        elif all(isinstance(v, int) for v in some):
            found[name] = values
    stored = {
        type_ for source in sources if _stores(source) for c in source if c.kernel for type_ in OUTPUT.findall(c.text)
    }
    if len(stored) == 1 and isinstance(vector := agreed(found.get("VECTOR")), int):
        found["sizeof whole"] = SIZES[stored.pop()] * vector  # what store_vector moves
    ranges: dict[str, Range] = {}
    for source in sources:
        for name, own in tables("\n".join(c.text for c in source if not c.kernel)).items():
            both = ranges.get(name, own)
            ranges[name] = Range(min(both.lo, own.lo), max(both.hi, own.hi), True)
    functions = found.keys() & ranges.keys()  # a table in one source, a formula in another: neither speaks for both
    return {name: value for name, value in (found | ranges).items() if name not in functions}


OUTPUT = re.compile(r"\b(float|tf_half)\* y\d+\b")


def _stores(source: list[Chunk]) -> bool:
    """Whole vectors, by a function that asks for their size."""
    return any("sizeof(whole)" in c.text for c in source)


def _printed(chunk: Chunk, known: dict, roll: bool) -> Chunk:
    if chunk.macro:
        return chunk
    key = chunk.text, roll, tuple(sorted(known.items(), key=lambda item: item[0]))
    if key not in _texts:
        text = specialised(shorter(chunk.text) if roll else chunk.text, known, roll)
        text = product(text) if roll else text
        _texts[key] = rolled(text) if roll and "multiply" in chunk.names else text
    return replace(chunk, text=_texts[key])


_texts: dict[tuple, str] = {}


def _blocks(list_: list[Chunk]) -> list[str]:
    """A block for each function, struct or constant; those of several statements stand apart, by a comment or a blank line."""
    short = lambda text: text.count("\n") < 8  # noqa: E731
    return [chunk.text if short(chunk.text) or chunk.text.startswith("//") else f"\n{chunk.text}" for chunk in list_]
