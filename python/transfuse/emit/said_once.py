"""What a file says once: names that one place reads, numbers and tables that stand twice."""

from __future__ import annotations

import re
from dataclasses import replace

from transfuse.emit.chunks import Chunk
from transfuse.emit.text import specialised
from transfuse.emit.text.inline import local_constants, numbers, pointers, values
from transfuse.emit.text.roles import words_as_floats


EQUAL_COUNTS = re.compile(r", slab_counts\[\] = \{(\d+)(?:, \1)*\}")


def equal_counts(sources: list[list[Chunk]]) -> None:
    """Where all variants have as many slabs of weights: that number."""
    for source in sources:
        if number := next((m[1] for c in source if (m := EQUAL_COUNTS.search(c.text))), None):
            texts = [EQUAL_COUNTS.sub("", c.text).replace("slab_counts[variant]", number) for c in source]
            source[:] = [c if c.text == text else replace(c, text=text) for c, text in zip(source, texts)]


PHASES = re.compile(r"__constant__ int phase_codes\[\d+\] = \{([-\d, ]*)\};")


def rows_of_phases(sources: list[list[Chunk]]) -> None:
    """Where the first phase along w is the first everywhere: nothing is added for it."""
    for source in sources:
        codes = next((m[1] for c in source if (m := PHASES.search(c.text))), None)
        if codes and all(int(n) < 0 or int(n) % 256 == 0 for n in codes.split(",")):
            texts = [c.text.replace(" + (code & 255)", "") for c in source]
            source[:] = [c if c.text == text else replace(c, text=text) for c, text in zip(source, texts)]


def used_once(sources: list[list[Chunk]], known: dict) -> None:
    """What has a name and is used once stands there; what that decides is decided."""
    texts = values([[c.text for c in source] for source in sources])
    for source, new in zip(sources, texts):
        source[:] = [
            c if c.macro or text == c.text else replace(c, text=_decided(text, c.text, known))
            for c, text in zip(source, new)
            if text is not None
        ]
    for said in (local_constants, pointers, numbers, words_as_floats):
        _said_alike(sources, said)


def _said_alike(sources: list[list[Chunk]], said) -> None:
    """Of what several kernels or builds have, all or none: they are to stay one text."""
    changed: dict[frozenset, set[bool]] = {}
    texts = [
        [c.text if c.macro or (c.kernel and "wgmma" not in c.text) else said(c.text) for c in source]
        for source in sources
    ]
    for source, new in zip(sources, texts):
        for c, text in zip(source, new):
            changed.setdefault(frozenset(c.names), set()).add(text != c.text)
    for source, new in zip(sources, texts):
        source[:] = [
            replace(c, text=text) if changed[frozenset(c.names)] == {True} else c for c, text in zip(source, new)
        ]


def _decided(text: str, before: str, known: dict) -> str:
    return specialised(text, known, True) if " ? " in text and text.count(" ? ") > before.count(" ? ") else text


EQUAL = re.compile(r"^(__device__ const \w+) (tf_table_\d+)(\[\] = \{[^{}]*\};)\n", re.M)
SPACE = re.compile(r"\nnamespace \w+ \{\n.*?\n\}\nusing [^\n]*", re.S)


def equal_tables(text: str) -> str:
    """Device code in which tables of equal numbers are one, the first of them. Those of a namespace are its own."""
    own = {match[2] for space in SPACE.findall(text) for match in EQUAL.finditer(space)}
    first: dict[tuple[str, str], str] = {}
    for match in [m for m in EQUAL.finditer(text) if m[2] not in own]:
        name = first.setdefault((match[1], match[3]), match[2])
        if name != match[2] and f"\n{match[0]}" in text:
            text = re.sub(rf"\b{match[2]}\b", name, text.replace(match[0], "", 1))
    return _of_kernels(text)


STATIC = re.compile(r"\n +static const int (\w+)(\[\] = \{[^{}]*\};)(?=\n)")


def _of_kernels(text: str) -> str:
    """Tables that several kernels have of their own, by one name and of the same numbers, are the file's."""
    found = [(m[1], m[2]) for m in STATIC.finditer(text)]
    for name, list_ in dict.fromkeys(found):
        if found.count((name, list_)) > 1 and all(n == list_ for other, n in found if other == name):
            text = re.sub(rf"\n +static const int {name}{re.escape(list_)}(?=\n)", "", text)
            at = re.search(r"^__global__ ", text, re.M).start()
            text = f"{text[:at]}__device__ const int {name}{list_}\n\n{text[at:]}"
    return text


OWN = re.compile(r"\n +constexpr int ([^;{}()]*);(?=\n)")


def constants_of_file(text: str) -> str:
    """Device code whose plain kernels, and functions of theirs, have no constants that the file has: those of packed weights are the
    product's."""
    if "\nnamespace " in text:
        return text
    shared = re.sub(
        r"#pragma for_each .*?#pragma for_each end", "", text, flags=re.S
    )  # without those of some kernels alone
    file = {pair for list_ in re.findall(r"^constexpr int ([^;]*);", shared, re.M) for pair in list_.split(", ")}
    head, *kernels = re.split(r"(?=\n(?:__global__|template <int \w+> DEVICE) )", text)
    for i, kernel in enumerate(kernels):
        for match in OWN.finditer(kernel):
            if {re.sub(r"^TILES\b", "OPERAND_TILES", pair) for pair in match[1].split(", ")} <= file:
                kernels[i] = re.sub(r"\bTILES\b", "OPERAND_TILES", kernels[i].replace(match[0], ""))
    return head + "".join(kernels)


PAIRS = re.compile(r"(?m)^__device__ const int (\w+)\[\] = \{([^{}]*)\};")


def pairs_once(text: str) -> str:
    """Device code with tables in which every number stands twice, for both of two that read it, as tables of those numbers."""
    for m in list(PAIRS.finditer(text)):
        numbers = [n.strip() for n in m[2].split(",")]
        read = re.compile(rf"\b{m[1]}\[\(([^()\n]*)\) \* 2 \+ \w+\]")
        if numbers[::2] == numbers[1::2] and len(read.findall(text)) == len(re.findall(rf"\b{m[1]}\b", text)) - 1:
            text = read.sub(rf"{m[1]}[\1]", text.replace(m[0], m[0].replace(m[2], ", ".join(numbers[::2]))))
    return text
