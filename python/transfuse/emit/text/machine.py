"""What tensor-core kernels ask of the machine, said plainly: operands that are one number, addresses, arrays of one element."""

from __future__ import annotations

import re
from math import prod

from transfuse.emit.text.held import one_group
from transfuse.emit.text.layout import WIDTH
from transfuse.emit.text.roles import a_buffer_a_chunk
from transfuse.emit.text.signature import name_of
from transfuse.emit.text.tokens import split, tokens

PREDICATE = re.compile(r'"\{\\n\.reg \.pred p;\\nsetp\.ne\.b32 p, (?P<number>%\d+), 0;\\n(?P<product>wgmma\.[^"]*")')
END = re.compile(r'(?P<factors>"[^"\n]*), p, (?P<rest>[^"\n]*;)\\n\}"(?P<given>[^;]*), "r"\(1\)\);')


def machine(text: str) -> str:
    """Device code; the compiler is told the same."""
    for change in (
        one_group,
        a_buffer_a_chunk,
        _operands_apart,
        _always_added,
        _pointers,
        _one_row,
        _rings,
        _leaves_first,
        _a_box_a_tile,
        _grid,
        _addresses_alone,
        _moved_before,
        _own_numbers,
        _brackets_gone,
    ):
        text = change(text)
    return text


def _always_added(text: str) -> str:
    """A product that is always added to its sums needs no predicate that says so."""
    begin = PREDICATE.search(text)
    end = END.search(text, begin.end()) if begin else None
    if not end or begin["number"] in end["given"] or text.count(begin["number"] + ",", begin.end(), end.end()):
        return text
    if "\n}" in text[begin.end() : end.start()]:  # of another function
        return text
    said = f'{end["factors"]}, 1, {end["rest"]}"{end["given"]});'
    return text[: begin.start()] + '"' + begin["product"] + text[begin.end() : end.start()] + said + text[end.end() :]


OPERANDS = re.compile(r"(?m)^struct Operands \{ (?P<members>(?:[^;{}\n]*; ){1,2})\};\n")


def _operands_apart(text: str) -> str:
    """One or two operands that one role is told of, each by itself."""
    struct = OPERANDS.search(text)
    if not struct or len(re.findall(r"\bOperands\b", text)) != 3:
        return text
    members = struct["members"].strip(" ;").split("; ")
    names = [name_of(m) for m in members]
    role = re.search(r"(?m)^static __device__ void \w+\([^\n]*const Operands& operands[^\n]*\{\n(?:.*\n)*?\}\n", text)
    made = re.search(r"\bOperands\{([^{}]*)\}", text)
    if not role or not made or any(re.search(rf"(?<!\.)\b{n}\b", role[0]) for n in names):
        return text
    said = role[0].replace("const Operands& operands", ", ".join(members)).replace("operands.", "")
    if "operands" in said:
        return text
    return text.replace(struct[0], "").replace(role[0], said).replace(made[0], made[1])


COPY = re.compile(r"(?m)^(DEVICE void (copy_\w+)\()unsigned to, ([^\n]*\{(?:[^\n]*\}$|(?:\n [^\n]*)+\n\}))")


ADDRESS = '"r"(to)'


def _pointers(text: str) -> str:
    """Copies to shared memory take a pointer, where every caller has one."""
    for head, name, rest in COPY.findall(text):
        calls = re.findall(rf"(?<!void )\b{name}\((shared_address\()?", text)
        if not calls or not all(calls) or ADDRESS not in rest:
            continue
        by = re.sub(r"\bbarrier\b", "b", rest.replace(ADDRESS, "SHARED(to)"))
        text = text.replace(f"{head}unsigned to, {rest}", f"{head}void* to, {by}")
        text = re.sub(
            rf"(?<!void )\b({name}\()shared_address\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\), ", r"\1\2, ", text
        )
    return text


def _one_row(text: str) -> str:
    """Of an array with one row: the row."""
    if not re.search(r"\bBLOCKS = 1[,;]", text) or re.search(r"\bacc\[(?!0\]|BLOCKS\])|[(,] ?acc[,)]", text):
        return text
    if re.search(r"\(&?acc\)\[", text) or not re.search(r"\bfloat acc\[BLOCKS\]\[", text):
        return text
    text = text.replace("float acc[BLOCKS][", "float acc[").replace("acc[0]", "acc")
    return _unread_gone(text, "BLOCKS")


def _unread_gone(text: str, name: str) -> str:
    """Without a constant that nobody reads."""
    if len(re.findall(rf"\b{name}\b", text)) != 1:
        return text
    number = r"(?:-?\d+|PICK\([-\d, ]*\))"
    text = re.sub(rf"(?m)^constexpr int {name} = {number};\n", "", text)
    text = re.sub(rf"(constexpr int ){name} = {number}, ", r"\1", text)
    return re.sub(rf", {name} = {number}(?=[,;])", "", text)


RINGS = re.compile(r"struct Barriers \{\n((?:    Barrier [^;\n]*;(?:  //[^\n]*)?\n){2,})\};")


def _rings(text: str) -> str:
    """All barriers of a kernel in a line, and above it what they say."""

    def said(m: re.Match) -> str:
        members = re.findall(r"    Barrier ([^;\n]*);(?:  // ?([^\n]*))?\n", m[1])
        line = f"    Barrier {', '.join(names for names, _ in members)};"
        notes = "; ".join(note for _, note in members if note)
        if len(line) > WIDTH or len(notes) > 130:
            return m[0]
        return f"struct Barriers {{{f'  // {notes}' if notes else ''}\n{line}\n}};"

    return RINGS.sub(said, text)


LEAVES = re.compile(
    r"(?m)^(?P<I> *)if \((?P<t>\w+) >= (?P<n>\w+)\) \{\n(?P=I)    if \((?P=t) == (?P=n)\) (?P<call>[^\n{}]*;)\n(?P=I)    return;\n(?P=I)\}$"
)


def _leaves_first(text: str) -> str:
    """One of those that leave does something before."""
    return LEAVES.sub(r"\g<I>if (\g<t> == \g<n>) return \g<call>\n\g<I>if (\g<t> > \g<n>) return;", text)


ONE_BOX = re.compile(
    r"(?:    // Boxes in their order[^\n]*\n)?    Place at = place_of\(blockIdx\.x, s\);\n"
    r"    for \(int tile = blockIdx\.x, box = 0, slot = 0, turn = 0; tile < s\.total;\) \{\n"
    r"        if \(\(turn > 0 && !barrier_done\((?P<empty>[^()]*), \(turn - 1\) & 1\)\)\) continue;\n(?P<asked>.*?)"
    r"        if \(\+\+box == 1\) \{ box = 0; tile = next_tile\(tile\); at = place_of\(tile, s\); \}\n",
    re.S,
)
STAYS = re.compile(r"\{\n +(// weights that stay[^\n]*)(?=\n)")


def _a_box_a_tile(text: str) -> str:
    """Where a tile has one box, and weights stay, the thread that asks waits for room and does nothing else."""

    def said(m: re.Match) -> str:
        asked = re.sub(r"\bbox \* \(?[A-Z_]+(?: \* [A-Z_]+)*\)?|\bbox\b", "0", m["asked"])
        return (
            "    for (int tile = blockIdx.x, slot = 0, turn = 0; tile < s.total; tile = next_tile(tile)) {\n"
            "        const Place at = place_of(tile, s);\n"
            f"        if (turn > 0) barrier_wait({m['empty']}, (turn - 1) & 1);\n{asked}"
        )

    text = STAYS.sub(r"{  \1", ONE_BOX.sub(said, text))
    return DONE.sub("", text) if len(re.findall(r"\bbarrier_done\(", text)) == 1 else text


DONE = re.compile(r"(?m)^DEVICE bool barrier_done\([^\n]*\{(?:[^\n]*\}|(?:\n [^\n]*)+\n\})\n")


GRID = re.compile(r"(?m)^ *const long long (\w+) = gridDim\.x, (\w+) = blockIdx\.x;\n")


def _grid(text: str) -> str:
    """The block's row among those of all blocks, where it is read."""
    for m in list(GRID.finditer(text)):
        end = text.index("\n}", m.end())
        body = text[m.end() : end]
        told = rf"\((\w+) \* {m[1]} \+ {m[2]}\)"
        if len(re.findall(rf"\b(?:{m[1]}|{m[2]})\b", body)) == 2 and re.search(told, body):
            body = re.sub(told, r"((long long)\1 * gridDim.x + blockIdx.x)", body)
            text = text.replace(m[0] + text[m.end() : end], body)
    return text


BYTES = re.compile(r"\bconst unsigned char\* __restrict__ (\w+)")


def _addresses_alone(text: str) -> str:
    """Bytes that only the copy engine reads: nothing is promised of them."""
    for name in set(BYTES.findall(text)):
        if not re.search(rf"\*\)\s*\(?{name}\b|\b{name}\[|\*{name}\b", text):
            text = text.replace(f"const unsigned char* __restrict__ {name}", f"const unsigned char* {name}")
    return text


MOVED = re.compile(
    r"(?m)^DEVICE void (?P<name>\w+)\((?P<given>[^()\n]*)\) \{\n"
    r"(?P<before>(?:    constexpr [^\n]*\n)*)    (?P<p>\w+) \+= (?P<by>[^;\n]*);\n"
)


def _moved_before(text: str) -> str:
    """A function that first moves its pointer is given the pointer there, where one place calls it."""
    for m in list(MOVED.finditer(text)):
        names = [name_of(p) for p in m["given"].split(", ")]
        end = text.index("\n}", m.end())
        calls = list(re.finditer(rf"(?<!void )\b{m['name']}\(", text))
        if len(calls) != 1 or m["p"] not in names:
            continue
        close = _closing(text, calls[0].end() - 1)
        given = [part.strip() for part in _parts(text[calls[0].end() : close])]
        words = set(re.findall(r"[A-Za-z_]\w*", m["by"])) & set(names)
        told = dict(zip(names, given))
        if not all(re.fullmatch(r"\w+", told[w]) for w in words) or len(given) != len(names):
            continue
        by = re.sub(r"[A-Za-z_]\w*", lambda w: told[w[0]] if w[0] in words else w[0], m["by"])  # noqa: B023
        told[m["p"]] += f" + {by}"
        idle = {w for w in words if not re.search(rf"\b{w}\b", text[m.end() : end])}
        call = f"{m['name']}({', '.join(told[n] for n in names if n not in idle)})"
        kept = ", ".join(p for p, n in zip(m["given"].split(", "), names) if n not in idle)
        text = text[: calls[0].start()] + call + text[close + 1 :]
        text = text.replace(m[0], f"DEVICE void {m['name']}({kept}) {{\n{m['before']}")
    return text


def _closing(text: str, at: int) -> int:
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if not depth:
            return i
    raise ValueError("a bracket that is never closed")


def _parts(text: str) -> list[str]:
    return ["".join(t.space + t.text for t in part) for part in split(tokens(text), {","})]


OWN = re.compile(r"(?m)^    constexpr int (\w+) = ([A-Z_]+) / ([A-Z_]+);\n")


def _own_numbers(text: str) -> str:
    """A number of a function, and nobody else's, stands beside those of the file, in the place of what it was computed from."""
    for m in list(OWN.finditer(text)):
        known = [re.search(rf"\b{name} = (\d+)(?=[,;])", text) for name in m.groups()[1:]]
        if not all(known) or len(re.findall(rf"\b{m[2]}\b", text)) != 2 or len(re.findall(rf"\b{m[1]} = ", text)) != 1:
            continue
        text = text.replace(m[0], "").replace(known[0][0], f"{m[1]} = {int(known[0][1]) // int(known[1][1])}")
    return text


EXPECTED = re.compile(r"\bbarrier_expect\((b\.\w+\[\w+\]), ([A-Z_* ]+) \* \(int\)sizeof\((?:float|STORED|ELEMENT)\)\)")
BRACKETS = [
    (re.compile(r"([*=] )\((\w+|[A-Z_]+ \* [A-Z_]+)\)(?=[,);])"), r"\1\2"),
    (re.compile(r"(\|\| )\((\w+ < [\w.]+)\)"), r"\1\2"),
    (re.compile(r"(\()\((\w+)\)(?= \* )"), r"\1\2"),
]


def _brackets_gone(text: str) -> str:
    """Brackets that change nothing."""
    for pattern, by in BRACKETS:
        text = pattern.sub(by, text)
    return text


def _numbers_of(name: str, text: str) -> list[int]:
    """A constant: one number, or one for each of several kernels."""
    found = re.search(rf"\b{name} = (?:(\d+)|PICK\(([\d, ]*)\))(?=[,;])", text)
    return [int(n) for n in (found[1] or found[2]).split(", ")] if found else []


def bytes_named(text: str) -> str:
    """Device code for floats: how many bytes of a box come, by their name."""
    for m in list(EXPECTED.finditer(text)):
        known = [_numbers_of(name, text) for name in m[2].split(" * ")]
        room = _numbers_of("RAW_BYTES", text)
        if not room or not all(known) or "STORED" in m[0]:
            continue
        each = max(map(len, [room, *known]))  # kernels that have the text
        expected = [4 * prod(numbers[i % len(numbers)] for numbers in known) for i in range(each)]
        if expected == [room[i % len(room)] for i in range(each)]:
            text = text.replace(m[0], f"barrier_expect({m[1]}, RAW_BYTES)")
            for name in m[2].split(" * "):
                text = _unread_gone(text, name)
    return text
