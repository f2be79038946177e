"""Lines of several builds beside each other, so that what they do not share takes the fewest lines."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Hashable, Sequence

CLOSE = 3  # lines between two places where builds differ that are looked at with them
MACRO = 9  # letters around a line of one build
MOST = 20000  # pairs of lines that are looked at

Entry = dict[Hashable, int]  # of each build that has it the line's number


def beside(
    entries: list[Entry],
    key: Hashable,
    alike: Sequence[str],
    mine: Sequence[str],
    merged: Callable[[Entry, int], str | None],
    width: int,
    conditions: bool = True,
) -> list[Entry]:
    """The entries with the lines of one more build among them. alike and mine: of the entries and of its lines what is equal
    where they say the same but for numbers; merged: others as one, where they can be said so. width: of a line, longer ones
    take several. conditions: whether lines of some builds alone stand between conditions, which take lines themselves."""
    found: list[Entry] = []
    for a, b, c, d in _windows(list(alike), list(mine)):
        if b - a == d - c and alike[a:b] == mine[c:d]:
            found += [{**entry, key: c + i} for i, entry in enumerate(entries[a:b])]
            continue
        for i, j in _fewest(entries, alike, mine, (a, b, c, d), merged, width, conditions):
            found.append({**(entries[i] if i is not None else {}), **({key: j} if j is not None else {})})
    return found


def _windows(theirs: list, mine: list) -> list[tuple[int, int, int, int]]:
    """Runs that are equal, and what lies between them; short equal runs within the latter are part of it."""
    out: list[list] = []
    opcodes = difflib.SequenceMatcher(None, theirs, mine, autojunk=False).get_opcodes()
    for k, (kind, a, b, c, d) in enumerate(opcodes):
        equal = kind == "equal" and (b - a > CLOSE or k in (0, len(opcodes) - 1))
        if out and not equal and not out[-1][0]:
            out[-1][2], out[-1][4] = b, d
        else:
            out.append([equal, a, b, c, d])
    return [tuple(rest) for _, *rest in out]


def _fewest(entries, alike, mine, window, merged, width, conditions) -> list[tuple[int | None, int | None]]:
    """Pairs of lines, and lines alone. A line that is shared counts one; one for some builds alone too, and a condition around a
    run of them two, or three where both have some."""
    a, b, c, d = window
    if (b - a) * (d - c) > MOST:
        return [*((i, None) for i in range(a, b)), *((None, j) for j in range(c, d))]
    # Of each pair of places and state the cost and the way: 0 shared, 1 a run of theirs, 2 of mine, 3 of both.
    best: dict[tuple[int, int, int], tuple[float, tuple | None, tuple | None]] = {(a, c, 0): (0, None, None)}
    opened = {(0, 1): 2, (0, 2): 2, (1, 1): 0, (2, 2): 0, (1, 3): 1, (2, 3): 1, (3, 3): 0}

    def rows(line: str) -> float:
        return max(1, len(line) / width)

    def reach(to: tuple, cost: float, from_: tuple, step: tuple) -> None:
        if to not in best or cost < best[to][0]:
            best[to] = cost, from_, step

    for i in range(a, b + 1):
        for j in range(c, d + 1):
            inside = i < b and j < d
            same = inside and alike[i] == mine[j]
            line = alike[i] if same else merged(entries[i], j) if inside else None
            pair = None if line is None else rows(line) + (0 if same else 0.01)
            for state in range(4):
                here = (i, j, state)
                if here not in best:
                    continue
                cost = best[here][0]
                if pair is not None:
                    reach((i + 1, j + 1, 0), cost + pair, here, (i, j))
                for side, to, step in ((1, (i + 1, j), (i, None)), (2, (i, j + 1), (None, j))):
                    if to[0] > b or to[1] > d:
                        continue
                    then = side if state in (0, side) else 3
                    line = alike[i] if side == 1 else mine[j]
                    alone = rows(line) + opened[state, then] if conditions else rows(line) + MACRO / width
                    reach((*to, then), cost + alone, here, step)
    at = min(((b, d, s) for s in range(4) if (b, d, s) in best), key=lambda k: best[k][0])
    steps = []
    while best[at][1] is not None:
        steps.append(best[at][2])
        at = best[at][1]
    return steps[::-1]
