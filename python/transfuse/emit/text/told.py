"""Parameters that every call gives the same number: the function says the number, and nobody needs to be told it."""

from __future__ import annotations

from transfuse.emit.text.tokens import Token, closing, split, tokens
from transfuse.emit.text.whole import WRITES, calls, definitions, joined


def with_numbers_told(sources: list[list[str]]) -> list[list[str]]:
    """sources: of each kernel its declarations. The parameters stay; nobody reads them any more. The tap loop, which is rolled up
    by what it says of stages (`emit/rolled.py`), keeps its own."""
    tokenised = [[tokens(text) for text in source] for source in sources]
    several: set[str] = set()
    given: dict[str, list[list[list[Token]]]] = {}
    for source in tokenised:
        defined = [definitions(items) for items in source]
        names = [d.name for found in defined for d in found]
        several.update(name for name in names if names.count(name) > 1)
        for items, found in zip(source, defined):
            opened, words = {d.open for d in found}, {t.text for t in items if t.kind == "word"}
            for name in words.intersection(names):
                given.setdefault(name, []).extend(
                    split(items[at + 1 : closing(items, at)], {","}) for at in calls(items, name) if at not in opened
                )
    told = {name: _numbers(lists) for name, lists in given.items() if name not in several | {"multiply"}}
    told = {name: numbers for name, numbers in told.items() if numbers}
    return [[joined(_with(items, told)) for items in source] for source in tokenised]


def _numbers(lists: list[list[list[Token]]]) -> dict[int, Token]:
    if not lists or len({len(arguments) for arguments in lists}) != 1:
        return {}
    columns = enumerate(zip(*lists))
    return {
        k: c[0][0]
        for k, c in columns
        if all(len(a) == 1 for a in c) and _is_number(c[0][0]) and len({a[0].text for a in c}) == 1
    }


def _is_number(token: Token) -> bool:
    return token.text.isdigit() or token.text in ("true", "false")


def _with(items: list[Token], told: dict[str, dict[int, Token]]) -> list[Token]:
    items = list(items)
    for d in definitions(items):
        parameters = split(items[d.open + 1 : d.close], {","}) if d.close > d.open + 1 else []
        for k, number in told.get(d.name, {}).items():
            words = [t.text for t in parameters[k]] if k < len(parameters) else []
            if len(words) != 2 or words[0] not in ("int", "bool"):
                continue
            reads = _reads(items, d.close + 1, d.end, words[1])
            for at in reads or []:
                items[at] = Token(number.kind, number.text, items[at].space)
    return items


def _reads(items: list[Token], begin: int, end: int, name: str) -> list[int] | None:
    """Where a parameter is read; None where it is also written or another has its name."""
    found = []
    for at in range(begin, end):
        before, behind = items[at - 1], items[at + 1]
        if items[at].text != name or before.text in (".", "->"):
            continue
        if behind.text == "(" and before.text in (":", ","):
            continue  # a member of that name, and its first value
        if behind.text in {"=", *WRITES} or before.text in ("++", "--", "int", "bool", "&"):
            return None
        found.append(at)
    return found
