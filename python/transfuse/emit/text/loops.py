"""Loops of plain kernels said briefly: a condition instead of `continue`, lanes of a vector by number."""

from __future__ import annotations

import re

from transfuse.emit.text.tokens import until_settled

SKIPPED = re.compile(
    r"(?m)^(?P<I> *)(?P<for>(?:UNROLL )?for \([^\n]*\)) \{\n(?P=I)    if \(!\((?P<c>[^\n]*)\)\) continue;\n"
    r"(?P<body>(?P=I)    [^\n]*\n(?:(?P=I)        [^\n]*\n)*)(?P=I)\}\n"
)


def conditions_met(text: str) -> str:
    """A loop that goes on to its next turn unless something holds, and then does one thing: it does that where it holds."""

    def said(m: re.Match) -> str:
        body = re.sub(r"(?m)^(?= )", "    ", m["body"])
        condition = f"{m['I']}    if ({m['c']})"
        if body.count("\n") == 1 and len(condition) + len(body.strip()) < 140:
            return f"{m['I']}{m['for']}\n{condition} {body.strip()}\n"
        return f"{m['I']}{m['for']}\n{condition}\n{body}"

    return until_settled(SKIPPED, said, text)


LANES = re.compile(
    r"(?m)^(?P<I> *)(?P<to>\w+)\[(?P<r>[^][\n]*)\]\[0\] \+= (?P<v>\w+)\.x \* (?P<by>\w+);\n"
    r"(?P=I)(?P=to)\[(?P=r)\]\[1\] \+= (?P=v)\.y \* (?P=by);\n(?P=I)(?P=to)\[(?P=r)\]\[2\] \+= (?P=v)\.z \* (?P=by);\n"
    r"(?P=I)(?P=to)\[(?P=r)\]\[3\] \+= (?P=v)\.w \* (?P=by);\n"
)
ELSE_ZERO = re.compile(
    r"(?m)^(?P<I> *)(?P<x>\w+\[\w+\]) = 0\.0f;\n(?P=I)if \((?P<c>[^\n]*)\) \{\n *(?P=x) = (?P<value>[^\n;]*);\n(?P=I)\}\n"
)


def lanes_by_number(text: str) -> str:
    """Four lanes that are treated alike; elements that are zero unless something holds."""
    text = LANES.sub(
        r"\g<I>UNROLL for (int lane = 0; lane < 4; ++lane) \g<to>[\g<r>][lane] += (&\g<v>.x)[lane] * \g<by>;\n", text
    )
    return ELSE_ZERO.sub(r"\g<I>\g<x> = \g<c> ? \g<value> : 0.0f;\n", text)


NEXT = r"(?:, |;\n *const int )"
ROW = re.compile(
    rf"{NEXT}(?P<q>\w+) = (?P<row>\w+) / (?P<many>\w+){NEXT}(?P<i>\w+) = (?P=row) - (?P=q) \* (?P=many)"
    rf"{NEXT}(?P<j>\w+) = (?P<begin>\w+) \+ (?P=q)"
)


def rows_in_a_line(text: str) -> str:
    """Rows of a slice lie behind one another, and slices too: where row r of them begins needs no quotient."""
    for m in list(ROW.finditer(text)):
        place = re.compile(rf"\b{m['j']} \* ({m['many']}_x_(\w+)) \+ {m['i']} \* \2\b")
        uses = [len(re.findall(rf"\b{m[k]}\b", text)) for k in ("q", "i", "j")]
        if uses == [3, 2, 2] and len(place.findall(text)) == 1:
            said = place.sub(rf"{m['begin']} * \1 + {m['row']} * \2", text)
            text = said.replace(m[0], "")
    return text
