"""Numbered names of several builds: what is alike in two of them has one name."""

from __future__ import annotations

import difflib
import re

from transfuse.emit.builds.choices import bare

NUMBERED = re.compile(r"(?<![.\w])((?:[a-z]+_)*[a-z]+_?)(\d+)(_[a-z]+)?\b(?!\()")
WORD = re.compile(r"(?<![.\w])[a-z]\w*")


def alike(texts: dict[str, str]) -> dict[str, str]:
    """The texts with locals of a function named as in the first build, where lines of both differ in such names alone."""
    keys = list(texts)
    first = _functions(texts[keys[0]])
    named = {name: lines for name, lines in first if name}
    out = {keys[0]: texts[keys[0]]}
    for key in keys[1:]:
        parts = _functions(texts[key])
        outside = set(WORD.findall("\n".join(lines[0] for _, lines in parts if len(lines) == 1)))
        out[key] = "\n".join(
            "\n".join(_renamed(lines, named[name], outside) if name in named else lines) for name, lines in parts
        )
    return out


HEAD = re.compile(
    r"(?:template <[^\n>]*> )?struct (\w+) \{|(?:template|DEVICE|static|__global__|extern)[^\n;=]*?(\w+)\((?!\()"
)


def _functions(text: str) -> list[tuple[str, list[str]]]:
    """What is declared at the margin, in turn; functions by their name."""
    out: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        if out and (not line or line.startswith((" ", "}", "#pragma"))):
            out[-1][1].append(line)
        else:
            found = HEAD.match(re.sub(r"__launch_bounds__\([^)]*\)|KERNEL\([^)]*\)", "", line))
            out.append((found[1] or found[2] if found else "", [line]))
    return out


def _alike(line: str) -> str:
    return bare(re.sub(r"\b\d+\b", "#", NUMBERED.sub(r"\1#\3", line)))


def _renamed(mine: list[str], theirs: list[str], outside: set[str]) -> list[str]:
    votes: dict[tuple[str, str], int] = {}
    match = difflib.SequenceMatcher(None, [_alike(t) for t in theirs], [_alike(t) for t in mine], autojunk=False)
    for i, j, size in match.get_matching_blocks():
        for a, b in zip(theirs[i : i + size], mine[j : j + size]):
            for x, y in zip(NUMBERED.finditer(a), NUMBERED.finditer(b)):
                votes[_stem(y), _stem(x)] = votes.get((_stem(y), _stem(x)), 0) + 1
    mine_by, theirs_by = _values(mine), _values(theirs)
    for value in mine_by.keys() & theirs_by.keys():  # what they have one value for
        votes[mine_by[value], theirs_by[value]] = votes.get((mine_by[value], theirs_by[value]), 0) + 3
    for kind, own in _alone(mine).items():  # what is alone of its kind in both
        if other := _alone(theirs).get(kind):
            votes[own, other] = votes.get((own, other), 0) + 1
    new: dict[str, str] = {}
    for (own, other), _ in sorted(votes.items(), key=lambda item: -item[1]):
        if own not in new and other not in new.values() and not {own, other} & outside:
            new[own] = other
    used = {_stem(m) for line in mine for m in NUMBERED.finditer(line)}
    taken = set(new.values()) | used | {_stem(m) for line in theirs for m in NUMBERED.finditer(line)}
    for own in sorted(used - set(new)):
        if own in new.values():  # another has its name now
            letters = own.rstrip("0123456789")
            new[own] = next(n for k in range(1, 1000) if (n := f"{letters}{k}") not in taken)
            taken.add(new[own])
    return [NUMBERED.sub(lambda m: new.get(_stem(m), _stem(m)) + (m[3] or ""), line) for line in mine]


def _alone(lines: list[str]) -> dict[tuple[str, str], str]:
    """Of each kind of numbered names with a word behind the number, the one that has it, where no other does."""
    found: dict[tuple[str, str], set[str]] = {}
    for m in (m for line in lines for m in NUMBERED.finditer(line) if m[3]):
        found.setdefault((m[1], m[3]), set()).add(_stem(m))
    return {kind: own.pop() for kind, own in found.items() if len(own) == 1}


def _values(lines: list[str]) -> dict[str, str]:
    """Of formulas of sizes what they are called."""
    sizes = [line for line in lines if line.lstrip().startswith("const long long ")]
    return {m[2]: m[1] for line in sizes for m in re.finditer(r"\b([a-z]+_\d+) = ((?:[^,;()]|\([^()]*\))*)", line)}


def _stem(match: re.Match) -> str:
    return match[1] + match[2]


FORMULAS = re.compile(r"( *const long long )(\w+ = (?!size\[)[^;]*);")
ONE = re.compile(r"(\w+) = ((?:[^,;()]|\((?:[^()]|\([^()]*\))*\))*)(?:, |$)")


def sizes_alike(texts: dict[str, str]) -> dict[str, str]:
    """The texts with every formula of sizes in all builds of a function, where some alone have it: nobody reads it in the others, but what
    they say by it may be said beside theirs."""
    parts = {key: _functions(text) for key, text in texts.items()}
    for name in dict.fromkeys(name for list_ in parts.values() for name, _ in list_ if name):
        found = [lines for list_ in parts.values() for other, lines in list_ if other == name]
        places = [next((i for i, line in enumerate(lines) if FORMULAS.fullmatch(line)), None) for lines in found]
        if len(found) != len(texts) or None in places:
            continue
        said = [FORMULAS.fullmatch(lines[i])[2] for lines, i in zip(found, places)]
        own = [dict(ONE.findall(text)) for text in said]
        if any(_listed(items) != text for items, text in zip(own, said)):  # there is more than formulas
            continue
        words = [set(WORD.findall("\n".join(lines))) for lines in found]
        every = {key: value for items in reversed(own) for key, value in items.items()}
        for lines, i, items, known in zip(found, places, own, words):
            more, added = {k: v for k, v in every.items() if k not in known}, True
            while added:
                reach = {*items, *known, "ceil_div"}  # a function of a line, which stands in all builds
                added = [k for k, v in more.items() if k not in items and set(WORD.findall(v)) <= reach]
                items |= {k: more[k] for k in added}
            lines[i] = f"{FORMULAS.fullmatch(lines[i])[1]}{_listed(items)};"
    return {key: "\n".join("\n".join(lines) for _, lines in list_) for key, list_ in parts.items()}


def _listed(items: dict[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in items.items())
