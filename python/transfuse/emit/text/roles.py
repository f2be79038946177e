"""The roles of a tensor-core kernel for a reader: what one build leaves of a text that serves several."""

from __future__ import annotations

import re

WORDS = re.compile(
    r"\n +float v\[(\w+)\];\n +UNROLL for \(int j = 0; j < \1; j\+\+\) v\[j\] = __uint_as_float\(word\[f\]\[j\]\);(?=\n)"
)


def words_as_floats(text: str) -> str:
    """Words of a raw box that are nothing but fp32: read as such, and rounded where they lie."""
    if len(WORDS.findall(text)) != 1 or "__uint_as_float" in WORDS.sub("", text):
        return text
    new = WORDS.sub("", text).replace("unsigned word[", "float word[")
    new = new.replace("const unsigned* in = (const unsigned*)", "const float* in = (const float*)")
    if "unsigned" in new.replace("unsigned char", ""):  # 16 bits lie in words too
        return text
    return re.sub(r"\bv(?=\[| \+|\))", "word[f]", new)


RINGS = re.compile(r"\n( +)int next\[2\] = \{0, (\w+)\}, turns\[2\] = \{0, 0\};[^\n]*")
TAKEN = re.compile(
    r"\n( +)const int slot = next\[0\], turn = turns\[0\];\n +if \(\+\+next\[0\] == (\w+)\) \{ next\[0\] = 0; turns\[0\]\+\+; \}"
)


def one_ring(text: str) -> str:
    """Where both warpgroups hand over in one ring of buffers, its place is counted on behind what is done with a buffer."""
    rings, taken = RINGS.search(text), TAKEN.findall(text)
    left = "barrier_arrive(b.chunk_empty[slot]);"
    if not rings or len(taken) != 1 or "next[1]" in text or text.count(left) != 1:
        return text
    indent, count = taken[0]
    if f"\n{indent}{left}" not in text or re.search(r"\bcontinue;", text):
        return text
    text = TAKEN.sub("", text.replace(rings[0], f"\n{rings[1]}int slot = 0, turn = 0;"))
    return text.replace(left, f"{left}\n{indent}if (++slot == {count}) {{ slot = 0; turn++; }}")


BARRIER = re.compile(r"\n +Barrier& (\w+) = (b\.\w+\[slot\]);(?=\n)")


def barriers(text: str) -> str:
    """Barriers by where they lie, where they have a name for two statements."""
    for match in reversed(list(BARRIER.finditer(text))):
        behind = text[match.end() :]
        until = re.search(r"\+\+slot\b|\bslot\+\+|\n    \}", behind)
        name = re.compile(rf"\b{match[1]}\b")
        if until and len(name.findall(behind)) == len(name.findall(behind[: until.start()])) == 2:
            new = name.sub(match[2], behind[: until.start()])
            if max(map(len, new.split("\n"))) < 146:
                text = text[: match.start()] + new + behind[until.start() :]
    return text
