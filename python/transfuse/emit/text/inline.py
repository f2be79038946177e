"""What has a name and is used once, where it is used: a function's one value, a constant of a function, a pointer to one element."""

from __future__ import annotations

import re

from transfuse.emit.text.signature import named
from transfuse.emit.text.tokens import closing, split, tokens

VALUE = re.compile(
    r"(?://[^\n]*\n)*(?:static )?(?:__device__ __forceinline__|DEVICE) (?:constexpr )?(?:int|const int\*) (?P<name>(?!tf_)\w+)"
    r"\((?P<given>[^()]*)\) \{\s*return (?P<value>[^;{}]*);\s*\}"
)


def values(sources: list[list[str]]) -> list[list[str | None]]:
    """sources: of each kernel its declarations; None for those that are gone. A whole-number function of one value that every kernel
    calls in one place at most, in each of them there."""
    found = [[VALUE.fullmatch(text.strip()) for text in source] for source in sources]
    out: list[list[str | None]] = [list(source) for source in sources]
    for name in dict.fromkeys(m["name"] for matches in found for m in matches if m):
        changed = []
        for source, matches in zip(out, found):
            own = [i for i, m in enumerate(matches) if m and m["name"] == name]
            places = [
                i for i, text in enumerate(source) if i not in own and re.search(rf"\b{name}\b", _code(text or ""))
            ]
            if not own and not places:
                continue
            new = _called(source[places[0]], name, matches[own[0]]) if len(own) == len(places) == 1 else None
            if new is None:
                break
            changed.append((source, own[0], places[0], new))
        else:
            for source, gone, at, text in changed:
                source[gone], source[at] = None, text
    return out


def _code(text: str) -> str:
    return re.sub(r"//[^\n]*", "", text)


def _called(text: str, name: str, function: re.Match) -> str | None:
    items = tokens(text)
    calls = [i for i, t in enumerate(items) if t.text == name and t.kind == "word"]
    if len(calls) != 1 or items[calls[0] + 1].text != "(":
        return None
    at, end = calls[0], closing(items, calls[0] + 1)
    given = ["".join(t.space + t.text for t in part).strip() for part in split(items[at + 2 : end], {","})]
    names = [named(part) for part in split(tokens(function["given"]), {","})] if function["given"] else []
    value = function["value"]
    by = {name: text for name, text in zip(names, given) if name}
    if len(names) != len(given) or any(
        not re.fullmatch(r"[\w.]+", text) and len(re.findall(rf"\b{word}\b", value)) > 1 for word, text in by.items()
    ):
        return None
    said = {word: text if re.fullmatch(r"[\w.]+", text) else f"({text})" for word, text in by.items()}
    value = re.sub(rf"\b(?:{'|'.join(said)})\b", lambda m: said[m[0]], value) if said else value
    head, tail = ("".join(t.space + t.text for t in part) for part in (items[:at], items[end + 1 :]))
    whole = re.search(r"(?:[=(,]|return)$", head) and re.match(r"[;,)]", tail)
    return f"{head}{items[at].space}{value if whole else f'({value})'}{tail}"


CONSTANTS = re.compile(r"\n +(constexpr|const) int ([^;{}()]*);(?=\n)")
CONSTANT = re.compile(r"[A-Z_][A-Z\d_]*|0")


def local_constants(text: str) -> str:
    """Constants of a function that are another's name, nothing, or used once, by what they are."""
    for match in list(CONSTANTS.finditer(text)):
        pairs = [part.strip().split(" = ") for part in match[2].split(",")]
        if match[1] == "const" and not all(CONSTANT.fullmatch(value) for _, *rest in pairs for value in rest or [""]):
            continue  # what it is may change
        if any(len(pair) != 2 for pair in pairs):
            continue
        rest = _code(text.replace(match[0], ""))
        uses = {name: len(re.findall(rf"\b{name}\b", rest)) for name, _ in pairs}
        if all(CONSTANT.fullmatch(value) or uses[name] <= 1 for name, value in pairs) and not any(
            re.search(rf"\b{name}\b", value) for name, _ in pairs for _, value in pairs
        ):
            if len(re.findall(rf"\bint (?:[^;{{}}()]*, )?(?:{'|'.join(uses)}) =", text)) != 1:
                continue  # another function has such a name
            text = text.replace(match[0], "")
            for name, value in pairs:
                text = re.sub(rf"\b{name}\b", value if re.fullmatch(r"\w+", value) else f"({value})", text)
    return re.sub(r"\b([A-Z]\w*) / \1 \* ", "", re.sub(r"\+\+(\w+) == 0 \+ ", r"++\1 == ", text))


NUMBER = re.compile(r"\n( +)const int (\w+) = ([^;,\n]*);\n(?=(\1[^\n]*))")
STEP = re.compile(r"\n +const long long (\w+) = ([\w.]+);(?=\n)")


def numbers(text: str) -> str:
    """A number that the next statement alone reads, and another name for a stride that one loop reads."""
    for match in list(NUMBER.finditer(text)):
        name = re.compile(rf"\b{match[2]}\b")
        if (
            len(name.findall(_code(text))) == 2
            and len(name.findall(match[4])) == 1
            and not re.match(r" *(?:\w+ )?(?:for|while) ", match[4])
        ):
            new = name.sub(f"({match[3]})" if re.search(r"\W", match[3]) else match[3], match[4])
            if len(new) < 146:
                text = text.replace(match[0] + match[4], f"\n{new}")
    for match in list(STEP.finditer(text)):
        if len(re.findall(rf"\b{match[1]}\b", _code(text))) == 2:
            text = re.sub(rf"\b{match[1]}\b", match[2], text.replace(match[0], ""))
    return text


ELEMENT = re.compile(r"\n( +)(?:float|STORED)\* (\w+) = ([\w.]+) \+ ([^;\n]*);\n +\*\2 = ([^;\n]*);(?=\n)")
ANOTHER = re.compile(r"\n +(\w+\* )(\w+) = ([^;\n]*);\n +\1(\w+) = \2;(?=\n)")


def _scope(text: str, at: int) -> str:
    """From there to the end of the block it stands in."""
    depth = 0
    for end in range(at, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if depth < 0:
            return text[at:end]
    return text[at:]


def pointers(text: str) -> str:
    """A pointer through which one element is written, and a second name for a pointer."""
    for match in list(ELEMENT.finditer(text)):
        if len(re.findall(rf"\b{match[2]}\b", _scope(text, match.start()))) == 2:
            element = f"{match[3]}[{match[4]}] = {match[5]};"
            text = text.replace(match[0], f"\n{match[1]}{element}")
            alone = re.compile(rf"(\n +if \([^\n]*\)) \{{\n +({re.escape(element)})\n +\}}")
            text = alone.sub(r"\1 \2", text)
    for match in list(ANOTHER.finditer(text)):
        if len(re.findall(rf"\b{match[2]}\b", _code(text))) == 2:
            first = match[0].split("\n")[1]
            text = text.replace(match[0], "\n" + first.replace(match[2], match[4], 1))
    return text
