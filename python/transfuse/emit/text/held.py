"""Products of a tile that come in one group: what they read is released when the tile's sums have landed, and nothing is held."""

from __future__ import annotations

import re

TILE = re.compile(
    r"held\.wait\((?P<full>b\.full\[stage\], turn & 1), b\);(?P<before>(?:(?!\bheld\b).)*?)"
    r"(?P<last>\n +if \(part == \d+\)) \{(?P<I>\n +)products_commit\(\);(?P=I)products_wait<1>\(\);(?P=I)held\.release\(b\);(?P=I)"
    r"held\.stage = stage;\n +\}\n +\}(?P<next>(?P<J>\n +)if \(\+\+stage == STAGES\) \{ stage = 0; turn\+\+; \})"
    r"(?P<landed>(?P=J)products_wait<0>\(\);(?:(?P=J)[^\n]*landed\([^\n]*;)?)(?P=J)held\.release\(b\);",
    re.S,
)
BEGUN = re.compile(r"(\n +UNROLL for \(int part = 0; [^\n]*\{\n[^\n]*)\n +if \(part == 0\) products_begin\(\);")
STRUCT = re.compile(r"(?://[^\n]*\n)*struct Held \{\n.*?\n\};\n", re.S)
AGREES = re.compile(r"(?://[^\n]*\n)*DEVICE bool group_agrees\(.*?\n\}\n", re.S)


def one_group(text: str) -> str:
    """Device code whose product roles hold nothing but a tile's one patch, from its products to their end."""
    tiles = [m[0] for m in TILE.finditer(text)]
    code = re.sub(r"//[^\n]*", "", text)
    uses = sum(len(re.findall(r"\bheld\b", tile)) for tile in tiles)
    if not tiles or len(re.findall(r"\bheld\b", code)) != uses + len(tiles):  # and where each is declared
        return text
    text = re.sub(r"\n +Held held\{[^\n]*\};", "", TILE.sub(_released, text))
    text = AGREES.sub("", STRUCT.sub("", text))
    if len(re.findall(r"\bweights_empty\b", text)) == 2 * len(tiles):  # weights that stay are never released
        text = re.sub(r" barrier_init\(b\.weights_empty\[0\], \w+\);", "", text)
        text = re.sub(r", weights_empty\[\w+\](?=[,;])", "", text)
    return text


def _released(tile: re.Match) -> str:
    line = tile["J"]
    before = BEGUN.sub(lambda m: f"{line}products_begin();{m[1]}", tile["before"], count=1)
    return (
        f"barrier_wait({tile['full']});{before}{line}}}{line}products_commit();{tile['landed']}"
        f"{line}barrier_arrive(b.empty[stage]);{tile['next']}"
    )
