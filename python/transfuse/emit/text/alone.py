"""Generality that the kernels of a file have no use for: numbers no role reads, structs of one member, tables of equal steps."""

from __future__ import annotations

import re

from transfuse.emit.text.signature import name_of
from transfuse.emit.text.typed import Tree, Unread, said, tree_of, with_names

ROLE = re.compile(r"(?m)^template <int (\w+)> (static __device__ void (\w+)\([^{]*\{\n[^\0]*\n\})")
WHICH = re.compile(r" WG: which\s+(?://\s+)?of the texts;\s+(?://\s+)?`warpgroup`")
STRUCT = re.compile(r"(?m)^struct Operands \{\s+([^;{}]*[ *&])(\w+);\s+\};[^\n]*$")
STEPS = re.compile(r"(?m)^DEVICE int slab_first\(int slab\) \{ return min\(slab \* (?P<step>\d+), (?P<last>\d+)\); \}$")
SLAB = re.compile(
    r"(?P<I>\n +)const int first = slab_first\(slab\), bytes = \(slab_first\(slab \+ 1\) - first\) \* TILE_BYTES;(?P<between>.*?)"
    r"(?P=I)if \(bytes\)\s+(?P<copy>copy_bulk\([^\n]*\);)",
    re.S,
)


BETWEEN = "\n\0\n"


def alone(texts: list[str]) -> list[str]:
    """The declarations of a kernel; those that are gone are empty."""
    whole = BETWEEN.join(["", *texts, ""])
    for change in (roles_of_one_text, operands_by_name, steps_of_slabs, residues, asked_once, by_their_own_names):
        whole = change(whole)
    return whole.split(BETWEEN)[1:-1]


def roles_of_one_text(source: str) -> str:
    """A role that is the same for all numbers it could be told, and so is all that it hands its number on to."""
    for number in {m[1] for m in ROLE.finditer(source)}:
        code = re.sub(r"//[^\n]*", "", source)
        said = rf"template <int {number}(?=[,>])|\b\w+<{number}(?=[,>])"
        if len(re.findall(rf"\b{number}\b", code)) != len(re.findall(said, code)):  # it is asked for somewhere
            continue
        roles = [m[3] for m in ROLE.finditer(source) if m[1] == number]
        source = re.sub(rf"\btemplate <int {number}> |(?<=\w)<{number}>", "", source)
        source = re.sub(rf"(?<=\btemplate <)int {number}, |(?<=\w<){number}, ", "", source)
        source = re.sub(rf"\b({'|'.join(roles)})<\w+>\(", r"\1(", source)
        source = WHICH.sub(" `warpgroup`", source)
    return source


def operands_by_name(source: str) -> str:
    """One operand needs no struct around it."""
    found = STRUCT.findall(source)
    if len(found) != 1 or "struct Operands" in STRUCT.sub("", source):
        return source
    type_, name = found[0]
    new = STRUCT.sub("", source).replace("const Operands& operands", f"{type_}{name}")
    new = re.sub(r"\bOperands\{([^{}]*)\}", r"\1", re.sub(r"\boperands\.(?=\w)", "", new))
    return source if re.search(r"\b[Oo]perands\b", re.sub(r"//[^\n]*", "", new)) else new  # another struct has them


def steps_of_slabs(source: str) -> str:
    """Slabs that are all alike: the next begins a step further, and each has as many bytes."""
    table, use = STEPS.search(source), SLAB.search(source)
    count = re.search(r"\+\+slab == (\d+)\)", source)
    if not table or not use or not count or source.count("slab_first(") != 3:
        return source
    step = int(table["step"])
    sizes = {name: int(n) for name, n in re.findall(r"\b(TILE_BYTES|SLAB_BYTES) = (\d+)", source)}
    if step * int(count[1]) != int(table["last"]) or sizes.get("SLAB_BYTES") != step * sizes.get("TILE_BYTES", 0):
        return source
    said = re.sub(r"\bbytes\b", "SLAB_BYTES", f"{use['between']}{use['I']}{use['copy']}")
    said = re.sub(r"\bfirst\b", f"slab * {step}", said)
    return source.replace(use[0], said).replace(table[0], "")


CODE = re.compile(r"(?P<line>\n +const int code = (?P<of>at\.variant) \* 256;)(?P<rest>[^\0]*)")


def residues(source: str) -> str:
    """A tile's residues along d, h and w, which are bytes of a number: where that along h is which variant it is, the others are none."""
    for m in list(CODE.finditer(source)):
        rest = re.sub(r" \+ \(code >> 16\)| \+ \(code & 255\)", "", m["rest"])
        rest = rest.replace("(code >> 8 & 255)", m["of"])
        if not re.search(r"\bcode\b", rest):
            source = source.replace(m[0], rest)
    return source


QUESTION = re.compile(
    r"(?P<note>\n +//[^\n]*)?(?P<I>\n +)const auto (?P<name>\w+) = \[&\]\((?P<given>[^()]*)\) \{(?P=I)    const int (?P<indices>[^;]*);"
    r"(?P=I)    return (?P<answer>[^;]*);(?P=I)\};"
)
NAMED = re.compile(r"(\w+) = ([^,()]*)(?:, |$)")


def asked_once(source: str) -> str:
    """What one place asks is asked there, what is said of it above the loops around it."""
    for m in list(QUESTION.finditer(source)):
        names = ", ".join(name_of(part) for part in m["given"].split(", "))
        place = re.search(
            rf"(?P<loops>(?:\n +UNROLL for [^\n]*)+)(?P<I>\n +)if \({m['name']}\({re.escape(names)}\)\)", source
        )
        indices = NAMED.findall(m["indices"])
        if not place or len(re.findall(rf"\b{m['name']}\b", source)) != 2:
            continue
        try:
            by: dict[str, Tree] = {}
            for name, value in indices:
                by[name] = with_names(tree_of(value), by)
            answer = said(with_names(tree_of(m["answer"]), by))
        except Unread:
            continue
        if len(answer) > 126 or ", ".join(f"{n} = {v}" for n, v in indices) != m["indices"]:
            continue
        note = (m["note"] or "").strip()
        indent = re.match(r"\n +", place["loops"])[0]
        told = f"{indent}{note}" if note else ""
        source = source.replace(m[0], "").replace(place[0], f"{told}{place['loops']}{place['I']}if ({answer})")
    return source


NAMED_AGAIN = re.compile(r"(?P<line>\n +Barrier& (?P<name>\w+) = (?P<of>b\.\w+\[(?P<slot>\w+)\]);)(?P<rest>[^\0]*)")
CAST = re.compile(
    r"(?P<line>\n +const (?P<type>float|unsigned)\* (?P<name>\w+) = (?P<of>\(const (?P=type)\*\)\w+);)(?P<rest>[^\0]*)"
)


def by_their_own_names(source: str) -> str:
    """A second name that is read twice, before its slot is another, or once where it is an array."""
    at = 0
    while m := NAMED_AGAIN.search(source, at):
        at = m.end("line")
        uses = [u.end() for u in re.finditer(rf"\b{m['name']}\b", m["rest"])]
        turned = m["rest"].find(f"++{m['slot']}")
        fixed = re.search(rf"\n +const int [^;\n]*\b{m['slot']} = [^;\n]*;[^\0]*$", source[: m.start()])
        if 0 < len(uses) <= 2 and (fixed or uses[-1] < turned):
            source, at = source.replace(m[0], re.sub(rf"\b{m['name']}\b", m["of"], m["rest"])), m.start()
    for m in list(CAST.finditer(source)):
        if len(re.findall(rf"\b{m['name']}\b", m["rest"])) == len(re.findall(rf"\b{m['name']}\[", m["rest"])) == 1:
            source = source.replace(m[0], re.sub(rf"\b{m['name']}\[", f"({m['of']})[", m["rest"]))
    return source
