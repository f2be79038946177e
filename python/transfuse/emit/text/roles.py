"""The roles of a tensor-core kernel for a reader: what one build leaves of a text that serves several."""

from __future__ import annotations

import re

WORDS = re.compile(
    r"\n +float v\[(\w+)\];\n +UNROLL for \(int j = 0; j < \1; j\+\+\) v\[j\] = __uint_as_float\(word\[f\]\[j\]\);(?=\n)"
)


def words_as_floats(text: str) -> str:
    """Words of a raw box that are nothing but fp32: read as such, and rounded where they lie."""
    if len(WORDS.findall(text)) != 1 or re.search(r"__uint_as_float\((?!high\[)", WORDS.sub("", text)):
        return text
    new = WORDS.sub("", text).replace("unsigned word[", "float word[")
    new = new.replace("const unsigned* in = (const unsigned*)", "const float* in = (const float*)")
    if "unsigned" in new.replace("unsigned char", "").replace(
        "unsigned high[4], low[4];", ""
    ):  # 16 bits lie in words too
        return text
    return re.sub(r"\bv(?=\[| \+|\))", "word[f]", new)


RELEASED = re.compile(
    r"( *)held\.slab = slab;\n(?: *(if \(part == \d+\) )?held\.stage = slot;\n)? *held\.release\(b\);"
)
SETTLED = re.compile(r"\n *products_wait<0>\(\);\n *UNROLL for \([^\n]*\) landed\([^\n]*\);(?=\n *held\.release)")
WAITED = re.compile(r"\bheld\.wait\((b\.\w+\[\w+\], [^\n]*), b\);")


def nothing_held(texts: list[str]) -> list[str]:
    """Where products are waited for before anything else is done, what they read is released at once: nothing is held, and nobody
    waits for them again."""
    multiplies = [text for text in texts if re.search(r"\bvoid multiply\(", text)]
    if not multiplies or not all(
        "held" not in WAITED.sub("", RELEASED.sub("", text)).replace("Held& held", "") for text in multiplies
    ):
        return texts
    out = []
    for text in texts:
        new = WAITED.sub(r"barrier_wait(\1);", RELEASED.sub(_released, text))
        new = SETTLED.sub("", new)
        new = re.sub(r"\n *(?:Held held\b[^;]*;(?:\n *held\.group = \w+;)?|held\.release\(b\);)", "", new)
        out.append(re.sub(r", (?:Held& )?held\b(?=\))", "", new) if "struct Held" not in text else text)
    return out


def _released(match: re.Match) -> str:
    stage = f"\n{match[1]}{match[2] or ''}barrier_arrive(b.empty[slot]);" if "stage" in match[0] else ""
    return f"{match[1]}barrier_arrive(b.weights_empty[slab]);{stage}"


TILES = "    for (int tile = blockIdx.x; tile < s.total; tile = next_tile(tile)) {\n"
HANDED = re.compile(
    r"(?P<said>    // Each warpgroup has buffers of its own)\.(?P<why>[^\n]*\n)"
    r"    const int first_slot = warpgroup \* BUFFERS_0, end_slot = [^\n]*;\n"
    r"    int slot = first_slot, chunk_turn = 0;\n"
)
ON = re.compile(r"\n +if \(\+\+slot == end_slot\) \{ slot = first_slot; chunk_turn\+\+; \}(?=\n)")
SETS = re.compile(
    r"(?P<loop>\n(?P<I> +)(?:UNROLL )?for \(int set = 0; set < SETS; set\+\+\) \{\n)(?= +if \(chunk_turn > 0\))"
)
RINGS = re.compile(r"\n( +)int next\[2\] = \{0, (\w+)\}, turns\[2\] = \{0, 0\};[^\n]*")
TAKEN_OF_BOTH = re.compile(
    r"(?P<I> +)const int slot = wg \? next\[1\] : next\[0\], turn = wg \? turns\[1\] : turns\[0\];\n +if \(wg\) \{\n"
    r" +if \(\+\+next\[1\] == BUFFERS\) [^\n]*\n +\} else if \(\+\+next\[0\] == BUFFERS_0\) [^\n]*\n"
)


def a_buffer_a_chunk(text: str) -> str:
    """Device code in which each warpgroup has as many buffers as a tile has chunks of its: which one is next needs no counting."""
    counts = [re.search(rf"\b{name} = (\d+)[,;]", text) for name in ("BUFFERS", "BUFFERS_0", "SETS")]
    if not all(counts) or not int(counts[0][1]) == 2 * int(counts[1][1]) == 2 * int(counts[2][1]):
        return text
    found = [pattern.search(text) for pattern in (HANDED, ON, SETS, RINGS, TAKEN_OF_BOTH)]
    if not all(found) or len(HANDED.findall(text)) > 1 or text.count("end_slot") != 2:
        return text
    handed, _, _, rings, _ = found
    for behind, counter in ((rings.end(), "turn"), (handed.end(), "chunk_turn")):  # the store role stands behind
        at = text.find(TILES, behind)
        if at < 0:
            return text
        counted = TILES.replace("blockIdx.x;", f"blockIdx.x, {counter} = 0;").replace(")) {", f"), {counter}++) {{")
        text = text[:at] + counted + text[at + len(TILES) :]
    text = HANDED.sub(r"\g<said>, one for each chunk of a tile.\g<why>", ON.sub("", text)).replace(rings[0], "")
    text = SETS.sub(r"\g<loop>\g<I>    const int slot = warpgroup * BUFFERS_0 + set;\n", text)
    return TAKEN_OF_BOTH.sub(r"\g<I>const int slot = wg * BUFFERS_0 + set;\n", text)
