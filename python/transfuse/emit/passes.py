"""What all kernels of a file show together: names that say nothing, numbers under several names, parameters nobody reads.

What goes, goes from every build, so that they stay one text.
"""

from __future__ import annotations

import re
from dataclasses import replace

from transfuse.emit.chunks import WORD, Chunk, needed
from transfuse.emit.conversions import CONVERSIONS, TABLE
from transfuse.emit.selected import chosen
from transfuse.emit.text.once import short, written_out
from transfuse.emit.text.signature import name_of
from transfuse.emit.text.told import with_numbers_told
from transfuse.emit.text.values import agreed, constants
from transfuse.emit.text.whole import without_constant_members, without_unread_members, without_unused_parameters


SIGNATURE = re.compile(r"(__global__ void (?:__launch_bounds__\([^)]*\)) (\w+)\()([^)]*)(\) \{.*)", re.S)


def unread_parameters(builds: list[list[tuple[str, list[Chunk]]]]) -> dict[str, set[int]]:
    """Of each kernel those parameters that it reads in no build; they are taken from its text."""
    kernels = [
        (name, source, i) for list_ in builds for name, source in list_ for i, c in enumerate(source) if c.kernel
    ]
    unread: dict[str, set[int]] = {}
    for name, source, i in kernels:
        match = SIGNATURE.search(source[i].text)
        given = [name_of(p) for p in match[3].split(",")] if match else []
        idle = {k for k, word in enumerate(given) if not re.search(rf"(?<![.\w]){word}\b", match[4])}
        unread[name] = unread.get(name, idle) & idle
    for name, source, i in kernels:
        if unread[name]:
            match = SIGNATURE.search(source[i].text)
            kept = [p.strip() for k, p in enumerate(match[3].split(",")) if k not in unread[name]]
            text = source[i].text[: match.start()] + match[1] + ", ".join(kept) + match[4]
            source[i] = replace(source[i], text=text)
    return unread


LOCAL = re.compile(r"(?<![.\w])(v|r|t|block)(\d+)\b(?!\()")

TABLED = re.compile(r"\btf_table_\d+\b")


def renumbered(sources: list[list[Chunk]]) -> None:
    """Names that are a letter and a number are counted from 1 in each function, and tables in each build: builds read alike."""
    tables: dict[str, str] = {}
    for source in sources:
        own = {}
        for c in source:
            if match := TABLE.fullmatch(c.text.strip()):
                own[match[1]] = tables.setdefault(match[2], f"table_{len(tables) + 1}")
        for i, c in enumerate(source):
            text = _tables_named(c.text, own)
            if (
                not c.macro
                and "Operands operands{" not in text
                and not re.search(r"struct (?:Operands|OfChannel)\b", text)
            ):
                text = _locals_counted(text)
            if text != c.text:
                source[i] = replace(c, text=text, names={own.get(n, n) for n in c.names})


def _tables_named(text: str, names: dict[str, str]) -> str:
    return TABLED.sub(lambda m: names.get(m[0], m[0]), text)


def _locals_counted(text: str) -> str:
    seen: dict[str, list[str]] = {}  # of each letter the numbers behind it, as they come

    def counted(match: re.Match) -> str:
        numbers = seen.setdefault(match[1], [])
        if match[2] not in numbers:
            numbers.append(match[2])
        return f"{match[1]}{numbers.index(match[2]) + 1}"

    return LOCAL.sub(counted, text)


def _place_told(text: str) -> str:
    """Of a tile's place, the comment names the members it has."""
    if not re.search(r"^struct Place \{", text, re.M):
        return text
    code = text[text.index("struct Place") :]
    if "fixed" not in code:
        text = text.replace("`fixed` = which group and block of output channels,\n// ", "")
    return text if "variant" in code else re.sub(r"[;,]\s+(?://\s*)?`variant` = which phases\.", ".", text)


CODES = re.compile(r"__constant__ int (\w+)\[\d+\] = \{(-?\d+)(?:, \2)*\};")


def one_number_tables(sources: list[list[Chunk]]) -> None:
    """Tables of a number over and over: the number itself, where pointers into them are read."""
    tables = [
        m
        for source in sources
        for c in source
        for m in [CODES.search(c.text)]
        if m or "__constant__ int phase_codes" in c.text
    ]
    if not tables or not all(tables) or len({(m[1], m[2]) for m in tables}) > 1:
        return
    name, number = tables[0][1], tables[0][2]
    for source in sources:
        for i, c in enumerate(source):
            if match := re.search(rf"const int\* (\w+) = {name} \+ [^;]*;", c.text):
                text = re.sub(rf"\b{match[1]}\[[^\]]*\]", number, c.text.replace(match[0], ""))
                source[i] = replace(c, text=text)
        source[:] = needed(source)


def sums_chosen(sources: list[list[Chunk]], known: dict) -> None:
    """Where a tile's sums are: in the accumulators, or, of strict products, beside them."""
    terms = agreed(known.get("TERMS"))
    if isinstance(terms, int):
        for source in sources:
            source[:] = [
                replace(c, text=c.text.replace("results<TERMS>(acc, total)", "total" if terms > 1 else "acc"))
                for c in source
            ]


NUMBER = re.compile(
    r"(?:static )?(?:__device__ __forceinline__|DEVICE) (?:constexpr )?int (\w+)\(\) \{ return (\d+); \}"
)


ITSELF = re.compile(r"(?:static )?(?:__device__ __forceinline__|DEVICE) int (\w+)\(int (\w+)\) \{ return \2; \}")
EMPTY = re.compile(r"struct (\w+) \{\};")


def _code(text: str) -> str:
    return re.sub(r"//.*", "", text).strip()


def _without_empty(text: str, type_: str) -> str:
    """Without variables of a type that holds nothing, where nothing is said of them."""
    for match in list(re.finditer(rf"\n\s*{type_} (\w+)(?:\[\d+\])?;", text)):
        if len(re.findall(rf"\b{match[1]}\b", re.sub("//.*", "", text))) == 1:
            text = text.replace(match[0], "")
    return text


def numbers_for_functions(sources: list[list[Chunk]]) -> None:
    """Functions of nothing that are one number, in every kernel that has them or none."""
    found: dict[str, set[bool]] = {}
    for source in sources:
        for c in source:
            if c.function and not c.kernel:
                for name in c.names:
                    found.setdefault(name, set()).add(NUMBER.fullmatch(c.text.strip()) is not None)
    for source in sources:
        for same in [m[1] for c in source if (m := ITSELF.fullmatch(_code(c.text)))]:
            source[:] = [
                replace(c, text=re.sub(rf"\b{same}\(([^()]*)\)", r"\1", c.text)) for c in source if same not in c.names
            ]
        for empty in [m[1] for c in source if (m := EMPTY.fullmatch(_code(c.text)))]:
            source[:] = [replace(c, text=_without_empty(c.text, empty)) for c in source]
        numbers = {m[1]: m[2] for c in source if (m := NUMBER.fullmatch(c.text.strip())) and found[m[1]] == {True}}
        for name, number in numbers.items():
            source[:] = [
                replace(c, text=re.sub(rf"\b{name}\(\)", number, c.text)) for c in source if name not in c.names
            ]


ALIAS = re.compile(r"typedef (float|double|STORED|tf_half|int) (REAL|ELEMENT|tf_index);")

OPERANDS = re.compile(r"(struct Operands \{)([^{}]*)(\};)")


def operands_read(sources: list[list[Chunk]]) -> None:
    """Of a kernel's operands those that its roles read; the kernel itself has them as parameters."""
    for source in sources:
        at = next((i for i, c in enumerate(source) if OPERANDS.search(c.text)), None)
        made = next((i for i, c in enumerate(source) if "Operands operands{" in c.text), None)
        if at is None or made is None:
            continue
        match = OPERANDS.search(source[at].text)
        members = [m.strip() for m in match[2].split(";") if m.strip()]
        rest = "".join(c.text for c in source)
        kept = [i for i, m in enumerate(members) if re.search(rf"\boperands\.{WORD.findall(m)[-1]}\b", rest)]
        if kept and len(kept) < len(members):
            new = f"{match[1]} {' '.join(members[i] + ';' for i in kept)} {match[3]}"
            source[at] = replace(source[at], text=source[at].text.replace(match[0], new))
            given = re.search(r"Operands operands\{([^{}]*)\}", source[made].text)
            values = [v.strip() for v in given[1].split(",")]
            said = f"Operands operands{{{', '.join(values[i] for i in kept)}}}"
            source[made] = replace(source[made], text=source[made].text.replace(given[0], said))


def one_overload(sources: list[list[Chunk]]) -> None:
    """Functions for double, beside those for float, are gone where nothing else is double."""
    for source in sources:
        overloads = [c for c in source if c.function and not c.kernel and "(double " in c.text.split("{")[0]]
        twice = [c for c in overloads if any(c.names == o.names and o not in overloads for o in source)]
        if not any("double" in c.words for c in source if c not in twice and not c.names & CONVERSIONS):
            source[:] = [c for c in source if c not in twice]


ARRAYS = re.compile(r"\n *float (\w+(?:\[\w+\])+(?:, \w+(?:\[\w+\])+)+);")
METHOD = re.compile(
    r"(?:\n    //[^\n]*)*\n    (?:template <[^>]*> )?(?:DEVICE|TF_FUNCTION|(?:static )?__device__ __forceinline__) \w+[&*]? (\w+)\("
)


def without_unread(source: list[Chunk]) -> list[Chunk]:
    """Without values of a tile program that nothing reads, and functions of structs that nothing calls."""
    out = []
    for c in source:
        text, last = c.text, ""
        while text != last:
            last = text
            for declared in ARRAYS.findall(text):
                for name in re.findall(r"(\w+)\[", re.sub(r"\[\w+\]", "[", declared)):
                    text = _never_read(text, name)
        out.append(replace(c, text=text))
    words = [w for c in out for w in WORD.findall(re.sub(r"//[^\n]*", "", c.text))]
    for i, c in enumerate(out):
        if re.search(r"^(?:template <[^>]*> )?struct ", c.text, re.M):
            for match in reversed(list(METHOD.finditer(c.text))):
                end = _end(c.text, match.end())
                if words.count(match[1]) == 1 and end:
                    out[i] = c = replace(c, text=c.text[: match.start()] + c.text[end:])
    return out


def _never_read(text: str, name: str) -> str:
    given = re.compile(rf"\n(?: *(?:UNROLL )?for \([^\n]*?\)\s+)*{name}(?:\[\w+\])+ = [^;{{}}]*;(?=\n)")
    uses = len(re.findall(rf"\b{name}\b", text))
    if uses != 1 + len(given.findall(text)) or uses < 2:
        return text
    text = given.sub("", text)
    return re.sub(rf"(?<=float ){name}(?:\[\w+\])+, |, {name}(?:\[\w+\])+", "", text, count=1)


def _end(text: str, at: int) -> int | None:
    """Behind the body of the function whose parameters begin there."""
    depth = 0
    for i in range(text.index("{", at), len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if not depth:
            return i + 1
    return None


def aliases_gone(sources: list[list[Chunk]]) -> None:
    """Types by their own names; an element is what is stored, which is float where fp32 is."""
    for source in sources:
        types = {m[2]: m[1] for c in source if (m := ALIAS.fullmatch(c.text.strip()))}
        halves = any("tf_half" in c.text for c in source if c.kernel)  # beside which operands may be sums in fp32
        own = {"double", "float"} if halves else {"double"}
        types = {n: "STORED" if n == "ELEMENT" and t not in own else t for n, t in types.items()}
        for name, type_ in types.items():
            if type_ == "int" and not all(
                "typedef int tf_index;" in {c.text.strip() for c in s} for s in sources if _indexed(s)
            ):
                continue
            kept = [c for c in source if not (m := ALIAS.fullmatch(c.text.strip())) or m[2] != name]
            source[:] = [replace(c, text=re.sub(rf"\b{name}\b", type_, c.text)) for c in kept]


def _indexed(source: list[Chunk]) -> bool:
    return any("tf_index" in c.names for c in source)


def shortened(sources: list[list[Chunk]]) -> None:
    """Without parameters nobody reads and members that are always one number."""
    plain = [[c.text for c in source if not c.macro] for source in sources]
    plain = without_unread_members(without_constant_members(plain))
    found = [iter(texts) for texts in without_unused_parameters(with_numbers_told(plain))]
    for source, texts in zip(sources, found):
        source[:] = [c if c.macro else replace(c, text=_place_told(next(texts))) for c in source]


def called_once(sources: list[list[Chunk]]) -> None:
    """Short functions stand where they are called, if that is one place."""
    found = [[short(c.text) if c.function and not c.kernel else None for c in source] for source in sources]
    texts = written_out([[c.text for c in source] for source in sources], found)
    for source, new in zip(sources, texts):
        source[:] = [replace(c, text=text) for c, text in zip(source, new) if text is not None]


NAMED = re.compile(r"(?://[^\n]*\n)*constexpr int ([A-Z_]+) = (\d+);")


def numbers_for_names(sources: list[list[Chunk]]) -> None:
    """Constants with a comment of their own that one place reads: the number itself."""
    for name in {
        m[1] for source in sources for c in source if "//" in c.text and (m := NAMED.fullmatch(c.text.strip()))
    }:
        holding = [s for s in sources if any(name in c.names for c in s)]
        own = [next(c for c in s if name in c.names) for s in holding]
        if any(sum(len(re.findall(rf"\b{name}\b", re.sub("//.*", "", c.text))) for c in s) != 2 for s in holding):
            continue
        for source, chunk in zip(holding, own):
            number = NAMED.fullmatch(chunk.text.strip())[2]
            source[:] = [replace(c, text=_said(c.text, name, number)) for c in source if c is not chunk]


def _said(text: str, name: str, number: str) -> str:
    """The number in code, a plain word in comments."""
    halves = [line.partition("//") for line in text.split("\n")]
    word = re.compile(rf"\b{name}\b")
    return "\n".join(word.sub(number, code) + mark + word.sub(name.lower(), note) for code, mark, note in halves)


IDLE = re.compile(
    r"(?:template <[^>]*> )?struct (\w+) \{\n(?:    __device__ __forceinline__ (?:\w+ )?\w+\([^\n]*\) \{\}\n)+\};"
)

SINGLE = [  # one term a product: what is there for several is the accumulators themselves
    (re.compile(r"results<TERMS>\(acc, total\)"), "acc"),
    (re.compile(r", Totals& total\b|(?<=multiply<WG>\(acc), total\b"), ""),
    (re.compile(r"\n *Totals total;"), ""),
]


MEMBER = re.compile(r"\n    DEVICE int (\w+)\(\) const \{ return (\w+) \* ([A-Z_]+); \}")


OPERANDS_MADE = re.compile(r"\n +const Operands operands(\{[^{}]*\});")


def operands_given(source: list[Chunk]) -> None:
    """What one role alone reads is made where it is given to it."""
    for i, c in enumerate(source):
        match = OPERANDS_MADE.search(c.text) if c.kernel else None
        if match and len(re.findall(r"\boperands\b", c.text)) == 2:
            text = re.sub(r"\boperands\b", f"Operands{match[1]}", c.text.replace(match[0], ""))
            source[i] = replace(c, text=text)


CONSTANTS = re.compile(r"(?P<comment>(?://[^\n]*\n)*)constexpr int (?P<list>[^;{}\"]*);(?: *//[^\n]*)?")


def constants_together(source: list[Chunk]) -> None:
    """A kernel's constants as numbers, those that something reads, where the first of them stand. What was said above one is said of
    the function behind it, or of the first that has no comment."""
    known = constants("\n".join(c.text for c in source if not c.kernel))
    found = {i: m for i, c in enumerate(source) if not c.macro and (m := CONSTANTS.fullmatch(c.text.strip()))}
    names = {i: re.findall(r"(?:^|, )(\w+) =", m["list"]) for i, m in found.items()}
    found = {i: m for i, m in found.items() if names[i] and all(isinstance(known.get(n), int) for n in names[i])}
    if not found:
        return
    read = set().union(*(c.words for i, c in enumerate(source) if i not in found))
    numbers = [Chunk(f"constexpr int {n} = {known[n]};", {n}) for i in found for n in names[i] if n in read]
    kept, waiting = [], []  # waiting: comments without their constants
    for i, c in enumerate(source):
        if i in found:
            kept += numbers if i == min(found) else []
            waiting += [found[i]["comment"]] if found[i]["comment"] else []
            continue
        if waiting and c.function and not c.kernel and not c.text.lstrip().startswith("//"):
            c = replace(c, text=(waiting[-1] if i - 1 in found else waiting[0]) + c.text.lstrip("\n"))
            waiting = waiting[:-1] if i - 1 in found else []
        kept.append(c)
    source[:] = kept


ELSEWHERE = [  # what a comment says of kernels that load in another way than by boxes, or compute before the product
    (re.compile(r", or, where a prologue reads[^.]*\."), "of_channel", "."),
    (
        re.compile(
            r"\s+(?://\s+)?The fetchers among the load(?:\s+//)?\s+threads call this whenever they would wait\.", re.I
        ),
        "fetch",
        "",
    ),
    (
        re.compile(r"The load role where memory is met in boxes: a warp asks for them,"),
        "fetch",
        "The load role: a warp asks for boxes,",
    ),
    (re.compile(r"\n +// Nothing that reads the accumulators may be moved before the wait for the products\."), "", ""),
]


def comments_of_its_own(source: list[Chunk]) -> None:
    """Comments say of a kernel what is in it."""
    if not any("load_boxes" in c.names for c in source):
        return
    called = set().union(*(c.calls for c in source))
    for pattern, other, by in ELSEWHERE:
        if other not in called:
            source[:] = [replace(c, text=_unbroken(c.text, pattern, by)) for c in source]


def _unbroken(text: str, pattern: re.Pattern, by: str) -> str:
    """A comment's sentence may be broken over lines."""
    if pattern.search(text):
        return pattern.sub(by, text, count=1)
    whole = re.sub(r"(?m)^(// [^\n]*)\n// ", r"\1 ", text)
    return pattern.sub(by, whole, count=1) if pattern.search(whole) else text


def variants_chosen(sources: list[list[Chunk]]) -> None:
    """Products are multiplied by a function for each variant: which one is asked where it is called."""
    for source in sources:
        if own := [c.text for c in source if "multiply" in c.names and "int VARIANT" in c.text]:
            placed = "const Place& at" in own[0].split(") {")[0]
            every = "\n".join(c.text for c in source if not c.kernel)
            count = re.search(r"\bat\.variant = [^;]*% (\w+);", every)[1]
            count = int(count) if count.isdigit() else agreed(constants(every)[count])
            source[:] = [
                replace(c, text=chosen(c.text, placed, count)) if "multiply<WG>(" in c.text else c for c in source
            ]


def members_used_once(sources: list[list[Chunk]]) -> None:
    """A struct's function that is one product and asked for once: the product."""
    for source in sources:
        for i, c in enumerate(source):
            match = MEMBER.search(c.text)
            calls = [k for k, other in enumerate(source) if match and f".{match[1]}()" in other.text]
            if len(calls) == 1 and source[calls[0]].text.count(f".{match[1]}()") == 1:
                source[i] = replace(c, text=c.text.replace(match[0], ""))
                text = source[calls[0]].text.replace(f".{match[1]}()", f".{match[2]} * {match[3]}")
                source[calls[0]] = replace(source[calls[0]], text=text)


def without_idle(source: list[Chunk], known: dict[str, int]) -> list[Chunk]:
    """Structs whose functions do nothing are gone, with everything said to them; so are members that nobody reads."""
    texts = {i: c.text for i, c in enumerate(source)}
    edits = SINGLE if agreed(known.get("TERMS")) == 1 else []
    for i, text in list(texts.items()):
        if (match := IDLE.fullmatch(text.strip())) and agreed(known.get(match[1].upper())) == 0:
            edits = [
                *edits,
                (re.compile(rf"\n *{match[1]}(?:<\w+>)? \w+\([^\n]*\);"), ""),
                (re.compile(rf"\n *{match[1].lower()}\.\w+\([^\n]*\);"), ""),
            ]
            del texts[i]
    for i, text in texts.items():
        for pattern, by in edits if not source[i].macro else []:
            text = pattern.sub(by, text)
        texts[i] = text
    for i, text in texts.items():
        if not re.match(r"(?://[^\n]*\n)*struct \w+ \{\n", text):
            continue
        for line in re.findall(r"\n    (?:OFFSET|bool|int)\*? \w+(?:\[\w+\])?;[^\n]*", text):
            name = re.match(r"\n    \w+\*? (\w+)", line)[1]
            rest = re.sub(rf", {name}\(\w+\)", "", text.replace(line, ""))
            if not re.search(rf"\b{name}\b", rest) and not any(
                re.search(rf"(?:\.|->){name}\b", t) for t in texts.values()
            ):
                text = rest
        texts[i] = text
    return [replace(c, text=texts[i]) for i, c in enumerate(source) if i in texts]
