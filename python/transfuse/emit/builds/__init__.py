"""One text for several arithmetics: what differs between them is a choice the compiler makes.

Lines that differ in numbers alone say PICK(…) there; others stand between #if and #endif, or in a macro of their build.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Hashable
from itertools import pairwise

from transfuse.emit.builds import apart, choices, names
from transfuse.emit.builds.beside import Entry, beside
from transfuse.emit.builds.choices import Words
from transfuse.emit.builds.manners import written_alike
from transfuse.emit.text import layout
from transfuse.emit.text.layout import WIDTH
from transfuse.emit.text.tokens import Token, closing, split, tokens


def merged(texts: dict[str, str], compiles: Callable[[str], bool] = lambda _: True) -> str:
    """Of each build its text; the first is what is compiled where no flag is given. What differs in more than numbers stands between #if
    and #endif, or line by line, in whichever way it takes fewer lines; all of it apart where the compiler refuses both."""
    if len(texts) == 1:
        return _grouped(next(iter(texts.values())))
    alike = names.sizes_alike(names.alike(written_alike(texts)))
    ways = sorted((_merged(alike, False, by_line) for by_line in (False, True)), key=layout.lines_of)
    return next((way for way in ways if compiles(way)), None) or _merged(texts, True, False)


def _merged(texts: dict[str, str], plainly: bool, by_line: bool) -> str:
    lines = {key: text.split("\n") for key, text in texts.items()}
    words = {key: _words(list_) for key, list_ in lines.items()}
    placed = aligned_places(lines) if plainly else _beside(lines, words, by_line)
    entries = [_everywhere({key: lines[key][i] for key, i in entry.items()}, texts) for entry in placed]
    every: list[str | None] = []
    for entry, place in zip(entries, placed):
        known = [words[key][i] for key, i in place.items()] if not plainly and len(place) == len(texts) else None
        line = _one([entry[key] for key in texts], known) if len(entry) == len(texts) else None
        every.append(apart.within(entry, list(texts)) if by_line and line is None else line)
    out: list[str] = []
    run: list[int] = []
    for i, (line, after) in enumerate(zip([*every, ""], [*every[1:], "", ""])):
        if line is None or (after is None and line.lstrip().startswith("#pragma")):  # it stands with the loop behind it
            run.append(i)
            continue
        own, at = [entries[k] for k in run], [placed[k] for k in run]
        said = None if plainly else _in_all(own, at, texts, words)
        out += [*(said if said is not None else _apart(own, at, texts, words, by_line)), line]
        run = []
    text = _grouped("\n".join(out[:-1]))
    return "\n".join([*apart.definitions(text, list(texts), _definition(list(texts)) * ("PICK(" in text)), text])


def _apart(
    run: list[dict[str, str]], at: list[Entry], texts: dict[str, str], words: dict[str, list[Words]], by_line: bool
) -> list[str]:
    """Lines that not all builds say."""
    if not run:
        return []
    keys = list(texts)
    if by_line:
        places = {id(entry): place for entry, place in zip(run, at)}

        def one(entry: dict[str, str]) -> str | None:
            place = places[id(entry)]
            known = [words[key][place[key]] for key in entry if key in place]
            return _for_all(_one([*entry.values()], known if len(known) == len(entry) else None), [*entry], keys)

        lines = apart.line_by_line(run, keys, one)
        if lines is not None:
            return lines
    own = {key: [entry[key] for entry in run if key in entry] for key in keys}
    _joined(own, keys)
    return apart.conditions(own)


ASKED = re.compile(r"( *)if \((.*)\) (return -?\d+;)")
FUNCTION = re.compile(r"(?:template <[^<>]*> )?(?:DEVICE|static|struct) [^\n]*\};?(?: *//[^\n]*)?")
DECLARES = re.compile(
    r"#define (\w+)|\bstruct (?:alignas\([^{]*\) )?(\w+)|(\w+)\((?!\d)|(\w+)(?:\[\w*\])* =|typedef .* (\w+);"
)


def _declared(text: str) -> set[str]:
    """What is declared by itself, by name."""
    lines = [re.sub(r"__launch_bounds__\([^)]*\)|//.*", "", t) for t in text.split("\n") if t and t[0] not in " }"]
    first = [m for line in lines if (m := DECLARES.search(line))]
    constants = [name for line in lines if line.startswith("constexpr") for name in re.findall(r"(\w+) =", line)]
    return {next(filter(None, m.groups())) for m in first} | set(constants)


def _in_all(
    run: list[dict[str, str]], at: list[Entry], texts: dict[str, str], words: dict[str, list[Words]]
) -> list[str] | None:
    """Lines that some builds alone need, where they do no harm in the others: functions of a line, with what is said of them; a question
    is asked there for nothing."""
    having = [key for key in texts if any(key in entry for entry in run)]
    if run and len(having) < len(texts) and all(set(entry) == set(having) for entry in run):
        known = [[words[key][place[key]] for key in having] for place in at]
        lines = [_one([entry[key] for key in having], of) for entry, of in zip(run, known)]
        lines = [_for_all(line, having, list(texts)) for line in lines]
        if None not in lines and all(FUNCTION.fullmatch(line) or line.startswith("//") for line in lines):
            code = "\n".join(re.sub("//.*", "", line) for line in lines)
            made = _declared(code)
            needed = set(re.findall(r"\w+", code)) & _declared(texts[having[0]]) - made
            if all(
                needed <= (known := _declared(texts[key])) and not made & known for key in texts if key not in having
            ):
                return lines
        if len(lines) == 1 and lines[0] and (asked := ASKED.fullmatch(lines[0])):
            taken = ", ".join(str(int(key in having)) for key in texts)
            return [f"{asked[1]}if (PICK({taken}) && {asked[2]}) {asked[3]}"]
    return None


def _for_all(line: str | None, having: list[str], keys: list[str]) -> str | None:
    """A line of some builds, its choices as choices of all: the others never come there."""
    if line is None or len(having) == 1:
        return line
    out, end = "", 0
    while (begin := line.find("PICK(", end)) >= 0:
        row = tokens(line[begin:])
        stop = closing(row, 1)
        parts = ["".join(t.space + t.text for t in part).strip() for part in split(row[2:stop], {","})]
        by = dict(zip(having, parts))
        out += line[end:begin] + f"PICK({', '.join(by.get(key, parts[0]) for key in keys)})"
        end = begin + len("".join(t.space + t.text for t in row[: stop + 1]))
    return out + line[end:]


def _beside(lines: dict[str, list[str]], words: dict[str, list[Words]], by_line: bool) -> list[Entry]:
    entries: list[Entry] = []
    for key, mine in lines.items():
        if not entries:
            entries = [{key: i} for i in range(len(mine))]
            continue
        first = [next(iter(entry.items())) for entry in entries]

        def merged(entry: Entry, j: int, key=key, mine=mine) -> str | None:
            both = [(lines[k][i], words[k][i]) for k, i in entry.items()] + [(mine[j], words[key][j])]
            line = None
            if len({line.split("(")[0].split("=")[0].strip()[:12] for line, _ in both}) == 1:
                line = _one([line for line, _ in both], [known for _, known in both])
            if line is None and by_line:
                line = apart.within({**{k: lines[k][i] for k, i in entry.items()}, key: mine[j]}, [*lines])
            return line

        theirs = [_skeleton(lines[k][i]) for k, i in first]
        entries = beside(entries, key, theirs, [_skeleton(line) for line in mine], merged, WIDTH, not by_line)
    return entries


def _words(lines: list[str]) -> list[Words]:
    """Of each line what it may say."""
    found = [set(re.findall(r"[A-Za-z_]\w*", line)) for line in lines]
    outside = frozenset().union(*(words for words, line in zip(found, lines) if line and line[0] not in " }"))
    out: list[Words] = []
    begin = 0
    for i in range(1, len(lines) + 1):
        if i == len(lines) or (lines[i] and lines[i][0] not in " }#"):
            out += [Words(frozenset().union(*found[begin:i]), outside)] * (i - begin)
            begin = i
    return out


def _definition(keys: list[str]) -> str:
    """What is stored has two bytes in the build for 16 bits alone."""
    last = "(sizeof(STORED) == 4 ? tf32 : half)" if "half" in keys else "(tf32)"
    return f"#define PICK({', '.join(map(apart.name, keys))}) {last}"


# A constant, a table of numbers, or a function of a number: what needs nothing else.
NAMED = re.compile(
    r"constexpr int (\w+) = -?\d+;|__constant__ int (\w+)\[\d*\] = \{[-\d, ]*\};(?: *//.*)?"
    r"|DEVICE int (\w+)\(int (\w+)\) \{ return (?:[-+*/%(), \d]|\b(?:\4|min|max)\b)*; \}"
)


def _everywhere(entry: dict[str, str], texts: dict[str, str]) -> dict[str, str]:
    """A header, or a declaration that the other builds have no word of, may stand in all of them."""
    line, others = next(iter(entry.values())), [text for key, text in texts.items() if key not in entry]
    found = NAMED.fullmatch(line)
    name = next(filter(None, found.groups())) if found else None
    unread = name and not any(re.search(rf"\b{name}\b", text) for text in others)
    return {key: entry.get(key, line) for key in texts} if unread or line.startswith("#include ") else entry


def _skeleton(line: str) -> str:
    return re.sub(r"\b\d+(?:ull|ll|u)?\b", "#", line).replace("float", "STORED")


def aligned(lines: dict[Hashable, list[str]]) -> list[dict[Hashable, str]]:
    """Lines of all builds in one order, those beside each other that are alike."""
    return [{key: lines[key][i] for key, i in entry.items()} for entry in aligned_places(lines)]


def aligned_places(lines: dict[Hashable, list[str]]) -> list[Entry]:
    entries: list[Entry] = []
    for key, mine in lines.items():
        if not entries:
            entries = [{key: i} for i in range(len(mine))]
            continue
        theirs = [_skeleton(lines[k][i]) for k, i in (next(iter(entry.items())) for entry in entries)]
        own = [_skeleton(line) for line in mine]
        found: list[Entry] = []
        for _, a, b, c, d in difflib.SequenceMatcher(None, theirs, own, autojunk=False).get_opcodes():
            if theirs[a:b] == own[c:d]:
                found += [{**entry, key: c + i} for i, entry in enumerate(entries[a:b])]
            else:
                found += [*entries[a:b], *({key: j} for j in range(c, d))]
        entries = found
    return entries


def _one(lines: list[str], known: list[Words] | None = None) -> str | None:
    """Lines that differ in numbers as one with choices in it; None where that cannot be. known: of each the words that it may say,
    where they may differ in values as well."""
    if len(set(lines)) == 1 or all(line.lstrip().startswith("//") for line in lines):
        return lines[0]
    if lines[0].lstrip().startswith("#"):
        return None
    if known and (found := choices.one(lines, known)) is not None:
        return found
    rows = [tokens(line) for line in lines]
    if len({len(row) for row in rows}) > 1:
        return None
    out = ""
    for column in zip(*rows):
        texts = [t.text for t in column]
        out += column[0].space + (texts[0] if len(set(texts)) == 1 else _picked(column))
    return None if "\0" in out else out


def _picked(column: tuple[Token, ...]) -> str:
    texts = [t.text for t in column]
    if set(texts) == choices.TYPES:
        return texts[-1]
    return f"PICK({', '.join(texts)})" if all(t.kind == "number" for t in column) else "\0"


def _joined(texts: dict[str, list[str]], keys: list[str]) -> None:
    """Builds whose lines differ in numbers alone say them as one, though another build says something else."""
    if len(keys) < 3:
        return
    for i, key in enumerate(keys):
        alike = [
            k for k in keys[i:] if texts[k] and [_skeleton(t) for t in texts[k]] == [_skeleton(t) for t in texts[key]]
        ]
        if len(alike) < 2 or len(alike) == len(keys) or all(texts[k] == texts[key] for k in alike):
            continue
        rows = [[texts[k if k in alike else key][n] for k in keys] for n in range(len(texts[key]))]
        lines = [_one(row) for row in rows]
        if None not in lines:
            for k in alike:
                texts[k] = list(lines)


CONSTANT = re.compile(r"constexpr int (\w+ = (?:-?\d+|-?PICK\([-\d, ]*\)));")


def _grouped(text: str) -> str:
    """Neighbouring constants share lines."""
    out: list[str] = []
    for line in text.split("\n"):
        match = CONSTANT.fullmatch(line)
        if match and out and out[-1].startswith("constexpr int ") and len(out[-1]) + len(match[1]) < 147:
            if CONSTANT.match(out[-1].split(",")[0].rstrip(";") + ";") or "PICK" in out[-1]:
                out[-1] = f"{out[-1][:-1]}, {match[1]};"
                continue
        out.append(line)
    return "\n".join(out)


SHORTEST = 8  # lines that are worth a name


def shared(text: str) -> tuple[dict[str, str], list[str]]:
    """Runs of lines that stand in the text several times, named; and what the text is joined from: names and pieces of it."""
    pieces: list[list[str] | str] = [text.split("\n")]
    named: dict[str, str] = {}
    while (run := _repeated([p for p in pieces if isinstance(p, list)])) is not None:
        name = _name(run, named)
        named[name] = "\n".join(run)
        pieces = [part for piece in pieces for part in (_cut(piece, run, name) if isinstance(piece, list) else [piece])]
    return named, [piece if isinstance(piece, str) else "\n".join(piece) for piece in pieces]


def _repeated(pieces: list[list[str]]) -> list[str] | None:
    """The run of whole declarations that saves most lines if it stands once."""
    places: dict[tuple, list[tuple[int, int]]] = {}
    for p, lines in enumerate(pieces):
        for i in range(len(lines) - SHORTEST + 1):
            if lines[i] and not lines[i].startswith((" ", "}", "#el", "#endif")):
                places.setdefault(tuple(lines[i : i + SHORTEST]), []).append((p, i))
    runs: set[tuple] = set()
    for found in places.values():
        for (p, i), (q, j) in pairwise(found):
            length, most = 0, j - i if p == q else len(pieces[p])
            while (
                length < most
                and i + length < len(pieces[p])
                and j + length < len(pieces[q])
                and pieces[p][i + length] == pieces[q][j + length]
            ):
                length += 1
            run = _whole(pieces[p][i : i + length])
            if len(run) >= SHORTEST:
                runs.add(tuple(run))
    text = "\n\0\n".join("\n".join(lines) for lines in pieces)
    saved = {run: len(run) * (text.count("\n".join(run)) - 1) for run in runs}
    return list(max(sorted(runs), key=saved.get)) if runs else None


def _whole(lines: list[str]) -> list[str]:
    """Up to the last line at which no brace and no condition is open."""
    depth, ends, asked = 0, 0, []  # asked: the depth at conditions that are open
    for i, line in enumerate(lines):
        if line.startswith("#if"):
            asked.append(depth)
        elif line.startswith("#el") and asked:
            depth = asked[-1]
        elif line.startswith("#endif") and asked:
            asked.pop()
        elif not line.startswith("#"):
            depth += line.count("{") - line.count("}")
        if depth < 0:
            break
        if depth == 0 and not asked and line.endswith((";", "}", "#endif")):
            ends = i + 1
    return lines[:ends]


def _cut(lines: list[str], run: list[str], name: str) -> list[list[str] | str]:
    out: list[list[str] | str] = []
    begin = i = 0
    while i + len(run) <= len(lines):
        if lines[i : i + len(run)] == run:
            out += [lines[begin:i], name]
            begin = i = i + len(run)
        else:
            i += 1
    return [*out, lines[begin:]]


def _name(run: list[str], taken: dict[str, str]) -> str:
    text = "\n".join(run)
    found = re.findall(r"^(?:template [^\n]*?)?(?:static|TF_\w+|struct)[^\n(={]*?(\w+) ?[({]", text, re.M)
    otherwise = (
        "CONSTANTS" if all(line.startswith("constexpr") for line in run) else "PRODUCTS" if " += " in text else "COMMON"
    )
    name = base = "ROLES" if "product_role" in found else found[-1].upper() if found else otherwise
    count = 2
    while name in taken:
        name, count = f"{base}_{count}", count + 1
    return name
