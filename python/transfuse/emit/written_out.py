"""What has a name of its own and one reader: types, functions of a struct, steps of a sum, said where they are read."""

from __future__ import annotations

import re
from dataclasses import replace

from transfuse.emit.chunks import Chunk
from transfuse.emit.text.values import constants

ARRAY_TYPE = re.compile(r"(?://[^\n]*\n)*typedef (\w+) (\w+)((?:\[\w+\])+);")


def arrays_by_extents(source: list[Chunk]) -> list[Chunk]:
    """An array's type that has a name, by its elements and extents."""
    for named in [c for c in source if ARRAY_TYPE.fullmatch(c.text.strip())]:
        element, name, extents = ARRAY_TYPE.fullmatch(named.text.strip()).groups()
        edits = [
            (re.compile(rf"({element} \w+{re.escape(extents)});\n +{name} (\w+);"), rf"\1, \2{extents};"),
            (re.compile(rf"\b{name}& (\w+)"), rf"{element} (&\1){extents}"),
            (re.compile(rf"\b{name} (\w+);"), rf"{element} \1{extents};"),
        ]
        changed = [c if c is named else replace(c, text=_edited(c.text, edits)) for c in source]
        if not any(name in c.words for c in changed if c is not named):
            source = [c for c in changed if c is not named]
    return source


def _edited(text: str, edits: list) -> str:
    for pattern, by in edits:
        text = pattern.sub(by, text)
    return text


LOADED = re.compile(
    r"\n    template <int N> DEVICE void load_rows\(float \(&r\)\[N\], const float\* from\) "
    r"\{ UNROLL for \(int i = 0; i < N; i\+\+\) r\[i\] = from\[(?P<row>0|i \* \d+)\]; \}"
)
CALLED = re.compile(r"(?P<I>\n +)load_rows\((?P<rows>\w+), (?P<table>\w+) \+ (?P<first>\w+)\);")


def rows_from_tables(text: str) -> str:
    """Of a tile program on accumulators: a table's entries for the lane's two rows, if one place loads them."""
    loaded, calls = LOADED.search(text), list(CALLED.finditer(text))
    if not loaded or len(calls) != 1 or len(re.findall(r"\bload_rows\(", text)) != 2:
        return text
    call = calls[0]
    rows, table = call["rows"], f"{call['table']}[{call['first']}"
    same = loaded["row"] == "0"
    values = [f"{table}]", f"{table} + {loaded['row'].removeprefix('i * ')}]"]
    said = f"{rows} = {values[0]};" if same else f"{rows}[] = {{{', '.join(values)}}};"
    text = text.replace(loaded[0], "").replace(call[0], f"{call['I']}const float {said}")
    text = _undeclared(text, rf"{rows}\[BATCH\]")
    return re.sub(rf"\b{rows}\[i\]", rows, text) if same else text


def _undeclared(text: str, array: str) -> str:
    """Without the declaration of an array, wherever in its list of names it stands."""
    for pattern in (rf", {array}(?=[,;])", rf"(?<=float ){array}, ", rf"\n +float {array};"):
        if (gone := re.sub(pattern, "", text, count=1)) != text:
            return gone
    return text


ELEMENTS = r"UNROLL for \(int i = 0; i < BATCH; i\+\+\) UNROLL for \(int e = 0; e < VECTOR; e\+\+\) "
COMPUTED = re.compile(rf"(?:\n +{ELEMENTS}(?:\w+)\[i\]\[e\] = (?:[^;\n]*);)+")
VALUE = re.compile(rf"{ELEMENTS}(\w+)\[i\]\[e\] = ([^;\n]*);")
COUNTED = re.compile(
    r"(?P<head>\n +UNROLL for \(int e = 0; e < VECTOR; e\+\+\)\n +UNROLL for \(int i = 0; i < BATCH; i\+\+\)\n +if \([^\n]*\) \{)"
    r"(?P<body>(?:(?P<I>\n +)[^\n{}]*;)+)(?=\n +\})"
)
ADDED = re.compile(r"(\n +)(\w+\[\w+\]\[\w+\]) = \2 \+ ([^;\n]*);")


def computed_where_counted(text: str) -> str:
    """Values of a tile that one loop computes and the next counts: computed there, one at a time."""
    computed = COMPUTED.search(text)
    counted = COUNTED.match(text, computed.end()) if computed else None
    if not counted:
        return text
    values, body, said = dict(VALUE.findall(computed[0])), counted["body"], []
    whole = re.compile(rf"\b(?:{'|'.join(values)})\b")
    within = computed[0] + body
    if len(whole.findall(text)) != len(whole.findall(within)) + len(values):  # and where they are declared
        return text
    alone = re.compile(rf"\b({'|'.join(values)})\[i\]\[e\]")
    for name, value in reversed(values.items()):
        if len(re.findall(rf"\b{name}\[i\]\[e\]", body + "".join(said))) == 1:
            body = body.replace(f"{name}[i][e]", value)
        else:
            said.insert(0, f"{name} = {value}")
    body = ADDED.sub(r"\1\2 += \3;", alone.sub(r"\1", body))
    declared = f"{counted['I']}const float {alone.sub(lambda m: m[1], ', '.join(said))};" if said else ""
    text = text[: computed.start()] + counted["head"] + declared + body + text[counted.end() :]
    return re.sub(rf"\n +float (?:(?:{'|'.join(values)})\[BATCH\]\[VECTOR\](?:, )?)+;", "", text)


STEPS = re.compile(
    r"(\n +UNROLL for [^\n]*) (\w+\[\w+\]\[\w+\]) \+= __shfl_xor_sync\(~0u, \2, 1\);\1 \2 \+= __shfl_xor_sync\(~0u, \2, 2\);"
)
WRITE = re.compile(
    r"\n    DEVICE void write\((?P<taken>[^\n]*)\) \{(?P<body>\n.*?)\n    \}\n    DEVICE void finish\(\) \{ write\((?P<given>[^\n]*)\); \}",
    re.S,
)


def written_at_the_end(text: str) -> str:
    """What is summed over all tiles and then written: one function."""
    text = STEPS.sub(r"\1 UNROLL for (int d = 1; d < 4; d *= 2) \2 += __shfl_xor_sync(~0u, \2, d);", text)
    match = WRITE.search(text)
    if not match or len(re.findall(r"\bwrite\(", text)) != 2:
        return text
    body, declared = match["body"], []
    for taken, given in zip(match["taken"].split(", "), match["given"].split(", ")):
        name = re.search(r"(\w+)\)?(?:\[\w+\])*$", taken)[1]
        if re.fullmatch(r"\w+", given):
            body = re.sub(rf"\b{name}\b", given, body)
        else:
            declared.append(f"{name} = {given}")
    first = f"\n        const long long {', '.join(declared)};" if declared else ""
    return text.replace(match[0], f"\n    DEVICE void finish() {{{first}{body}\n    }}")


MADE = re.compile(
    r"(?P<list> : [^\n]*\)) \{\n +const int lane = t % 32, row = lane / 4, warp = t / 32;"
    r"(?P<members>(?:\n +\w+ = [^\n;]*;(?: *//[^\n]*)?)+)\n    \}"
)
OF_THE_LANE = {r"\blane\b": "t % 32", r"\brow\b": "t % 32 / 4", r"\bwarp\b": "t / 32"}


def members_begun(text: str) -> str:
    """Members that the thread's number tells are told it where they begin."""
    match = MADE.search(text)
    if not match:
        return text
    said = re.findall(r"\n +(\w+) = ([^\n;]*);", match["members"])
    for pattern, by in OF_THE_LANE.items():
        said = [(name, re.sub(pattern, by, value)) for name, value in said]
    begun = "".join(f", {name}({value})" for name, value in said)
    return text.replace(match[0], f"{match['list']}{begun} {{}}")


SIZES = "\n        constexpr int BATCH = 2, VECTOR = RESULTS;"


def fragments(source: list[Chunk]) -> list[Chunk]:
    """The tile program on accumulators, said briefly."""
    known = constants("\n".join(c.text for c in source if not c.kernel))
    ones = [n for n, value in known.items() if n.startswith("PERIOD_") and value == 1]
    out = []
    for c in source:
        if "struct Fragments {" in c.text:
            text = computed_where_counted(rows_from_tables(c.text))
            text = members_begun(written_at_the_end(text))
            for name in ones:
                text = text.replace(f" + {name} - 1", "")
            if SIZES in text:
                text = re.sub(r"\bBATCH\b", "2", re.sub(r"\bVECTOR\b", "RESULTS", text.replace(SIZES, "")))
            c = replace(c, text=text)
        out.append(c)
    return out
