"""Device code for a reader: what the kernels share stands once, what none of them uses is gone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from transfuse.emit.rolled import rolled
from transfuse.emit.text import specialised
from transfuse.emit.text.once import short, written_out
from transfuse.emit.text.ranges import Range, tables
from transfuse.emit.text.short import DEVICE, LISTS, product, shorter
from transfuse.emit.text.sums import FUNCTION, inlined, summed
from transfuse.emit.text.values import agreed, constants
from transfuse.emit.text.whole import without_constant_members, without_unread_members, without_unused_parameters

WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass
class Chunk:
    """A top-level declaration with the comment above it."""

    text: str
    names: set[str]
    words: set[str] = field(default_factory=set)
    kernel: bool = False
    macro: bool = False
    function: bool = False

    def __post_init__(self):
        code = re.sub(r"//.*", "", self.text)
        self.words = set(WORD.findall(code))
        if self.function:  # constants of its own hide those of the same name
            own = re.findall(r"^\s+constexpr int ([^;]*);", code, re.M)
            self.words -= {name for list_ in own for name in re.findall(r"(?:^|, )(\w+) = ", list_) if name.isupper()}
        self.calls = set(re.findall(r"([A-Za-z_]\w*)(?=[(<])", code))

    def reached_from(self, words: set[str], calls: set[str]) -> bool:
        return bool(self.names & (calls if self.function else words))


def resolved(text: str) -> str:
    """The branches a CUDA compiler takes where the text can also be read by a plain C++ compiler, or asks what was defined."""
    defined = {"__CUDACC__", "__CUDACC_RTC__", *re.findall(r"^#define (TF_AFTER_PRODUCT)", text, re.M)}
    out, stack = [], []  # stack: None where the compiler decides, else [taken, keeping]
    for line in text.split("\n"):
        word = line.strip()
        keeping = all(entry is None or entry[1] for entry in stack)
        if match := re.match(r"#(ifdef|ifndef|if|elif) ?(?:defined\()?(\w+)?\)?(.*)", word):
            asks = match[1] in ("ifdef", "ifndef") or ((match[2] or "").startswith("__CUDACC") and not match[3].strip())
            ours = asks and (match[2].startswith("__CUDACC") or match[2] == "TF_AFTER_PRODUCT")
            if match[1] == "elif":
                if stack[-1] is not None:
                    stack[-1] = [True, not stack[-1][0] and match[2] in defined]
                elif ours and match[2] in defined:
                    out.append("#else")
                    stack[-1] = None
                    stack.append(["else", True])
                elif keeping:
                    out.append(line)
                continue
            if ours:
                taken = (match[2] in defined) == (match[1] != "ifndef")
                stack.append([taken, taken])
                continue
            stack.append(None)
            line = line.replace("defined(__CUDA_ARCH__) && ", "")
        elif word.startswith("#else") and stack:
            if stack[-1] is not None:
                stack[-1] = ["else", False] if stack[-1][0] == "else" else [True, not stack[-1][0]]
                continue
        elif word.startswith("#endif") and stack:
            if stack[-1] is not None and stack[-1][0] == "else":
                stack.pop()
            if stack.pop() is not None:
                continue
            keeping = all(entry is None or entry[1] for entry in stack)
        elif word == "#define TF_AFTER_PRODUCT":
            continue
        if keeping:
            out.append(line)
    return "\n".join(out)


def chunks(text: str) -> list[Chunk]:
    found, pending, depth, block = [], [], 0, []
    directive = 0
    for line in resolved(text).split("\n"):
        code = re.sub(r"//.*", "", re.sub(r'"(?:\\.|[^"\\])*"', '""', line))
        if not block and not line.strip():
            pending = []
            continue
        if not block and line.lstrip().startswith("//"):
            if not re.search(r"\.cuh|host machine|machine has functions|every architecture since|^//   axis", line):
                pending.append(line)
            pending = _plainly(pending)
            continue
        if line.startswith("#if"):
            directive += 1
        block.append(line)
        depth += code.count("{") - code.count("}")
        if line.startswith("#endif"):
            directive -= 1
        if directive or depth or line.endswith("\\"):
            continue
        stripped = code.strip()
        if stripped.startswith("#") or stripped.endswith((";", "}")):
            found.append(_chunk("\n".join([*pending, *block])))
            pending, block = [], []
    if block:
        found.append(_chunk("\n".join([*pending, *block])))
    return found


def _plainly(comment: list[str]) -> list[str]:
    """A comment without what is said in brackets to those who change the generators."""
    text = "\n".join(comment)
    if not (match := re.search(r" \([A-Z][^()]*\.\)", text)):
        return comment
    rest = text[: match.start()] + text[match.end() :]
    return [line for line in rest.split("\n") if line.strip(" /")]


def _chunk(text: str) -> Chunk:
    code = re.sub(r"//.*", "", text).strip()
    names = set(re.findall(r"^#define (\w+)", code, re.M)) if code.startswith("#") else set()
    function = False
    if not names:
        head = code.split("{")[0]
        if match := re.search(r"\bstruct\b[^;=]*?(\w+)\s*$", head):
            names = {match[1]}
        elif code.startswith("enum"):
            names = set(WORD.findall(code)) - {"enum"}
        elif (
            re.match(r"(?:static )?(?:constexpr|__constant__|__device__ const)\b", code)
            and "(" not in head.split("=")[0]
        ):
            names = set(re.findall(r"(\w+)(?:\[[^\]]*\])* =(?!=)", code))
        elif match := re.match(r"(?:template <[^>]*> )?using (\w+) =", code):
            names = {match[1]}
        elif match := re.search(r"^typedef .*?(\w+)(?:\[[^\]]*\])*;", code):
            names = {match[1]}
        elif match := re.search(
            r"(?!(?:float|REAL)\b)\b(\w+)\s*\(", re.sub(r"__launch_bounds__\([^)]*\)|alignas\([^)]*\)", "", head)
        ):
            names, function = {match[1]}, match[1] != "__align__"
            if not function:
                names = set(WORD.findall(head)[-1:])
    return Chunk(text, names, kernel="__global__" in code, macro=code.startswith("#"), function=function)


def needed(source: list[Chunk]) -> list[Chunk]:
    """What the kernel reaches."""
    words, calls, kept = set(), set(), set()
    grew = True
    while grew:
        grew = False
        for i, chunk in enumerate(source):
            if i not in kept and (chunk.kernel or chunk.reached_from(words, calls)):
                kept.add(i)
                words |= chunk.words
                calls |= chunk.calls
                grew = True
    return [chunk for i, chunk in enumerate(source) if i in kept]


ABBREVIATION = re.compile(r"#define ((?!TF_)\w+)\([^)]*\) [^\n\\]*")


def _macros_within(source: list[Chunk]) -> list[Chunk]:
    """Abbreviations that name a function's own variables go into the functions that use them, where they are written out."""
    macros = {m[1]: c for c in source if c.macro and (m := ABBREVIATION.fullmatch(c.text.strip()))}
    out = []
    for chunk in source:
        if chunk.macro:
            out += [] if chunk in macros.values() else [chunk]
            continue
        used, left = {}, list(chunk.words & set(macros))
        while left:
            name = left.pop()
            if name not in used:
                used[name] = macros[name]
                left += list(macros[name].words & set(macros))
        lines = [macro.text.strip() for name, macro in macros.items() if name in used]
        out.append(replace(chunk, text="\n".join([*lines, chunk.text])) if lines else chunk)
    return out


def _unused_macros_gone(chunk: Chunk, words: set[str]) -> Chunk:
    """Of a group of macros for each architecture, those that are used."""
    if not chunk.macro or len(chunk.names) < 2:
        return chunk
    lines = [l for l in chunk.text.split("\n") if not (m := re.match(r"#define (\w+)", l)) or m[1] in words]
    return replace(chunk, text="\n".join(lines), names=chunk.names & words)


# Elements of 16 bits: numbers that are stored so and computed with as float.
ELEMENTS = """struct Half {
    unsigned short bits;
    Half() = default;
    __device__ Half(float f) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f)); }
    __device__ operator float() const { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits)); return f; }
};
struct Bfloat {
    unsigned short bits;
    Bfloat() = default;
    __device__ Bfloat(float f) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(f)); }
    __device__ operator float() const { return __uint_as_float((unsigned)bits << 16); }
};"""


def assembled(builds: dict[str, list[tuple[str, str]]]) -> tuple[dict[str, str], dict[str, set[int]]]:
    """Of each build its device code; given are (name, source) of its kernels. What kernels share comes first. And of each kernel
    which of its parameters nobody reads: they are gone."""
    sources = {
        key: [(name, _macros_within(needed(chunks(text)))) for name, text in kernels] for key, kernels in builds.items()
    }
    every = [source for list_ in sources.values() for _, source in list_]
    for list_ in sources.values():
        _renumbered([source for _, source in list_])
    _one_number_tables(every)
    for source in every:  # the constants speak for themselves
        source[:] = [replace(c, text=re.sub(r"// Dense tiles: [^\n]*\n", "", c.text)) for c in source]
    for roll in (False, False, False, True):  # what is left of a function may decide how others read
        known = _constants(every)
        for source in every:
            source[:] = needed(_without_idle([_printed(chunk, known, roll) for chunk in source], known))
        if not roll:
            _numbers_for_functions(every)
            _shortened(every)
            _called_once(every)
            _numbers_for_names(every)
    _aliases_gone(every)
    _operands_read(every)
    _one_overload(every)
    for source in every:
        _sums_by_name(source)
    for source in every:
        source[:] = _tables_as_functions(needed([_converted(c) for c in source if not c.names & CONVERSIONS]))
    used = set().union(*(c.words for source in every for c in source if not (c.macro and len(c.names) > 1)))
    for source in every:
        source[:] = [_unused_macros_gone(chunk, used) for chunk in source]
    unread = _unread_parameters(list(sources.values()))
    return {key: _text(list_) for key, list_ in sources.items()}, unread


SIGNATURE = re.compile(r"(__global__ void (?:__launch_bounds__\([^)]*\)) (\w+)\()([^)]*)(\) \{.*)", re.S)


def _unread_parameters(builds: list[list[tuple[str, list[Chunk]]]]) -> dict[str, set[int]]:
    """Of each kernel those parameters that it reads in no build; they are taken from its text."""
    kernels = [
        (name, source, i) for list_ in builds for name, source in list_ for i, c in enumerate(source) if c.kernel
    ]
    unread: dict[str, set[int]] = {}
    for name, source, i in kernels:
        match = SIGNATURE.search(source[i].text)
        given = [p.split()[-1].lstrip("*&") for p in match[3].split(",")] if match else []
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


def _renumbered(sources: list[list[Chunk]]) -> None:
    """Names that are a letter and a number are counted from 1 in each function, and tables in each build: builds read alike."""
    tables: dict[str, str] = {}
    for source in sources:
        own = {}
        for c in source:
            if match := TABLE.fullmatch(c.text.strip()):
                own[match[1]] = tables.setdefault(match[2], f"table_{len(tables) + 1}")
        for i, c in enumerate(source):
            text = _tables_named(c.text, own)
            if not c.macro and "Operands operands{" not in text and "struct Operands" not in text:
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


def _one_number_tables(sources: list[list[Chunk]]) -> None:
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


def _sums_by_name(source: list[Chunk]) -> None:
    """Of plain kernels: sums over slices by a function, values that are used once where they are used."""
    for i, c in enumerate(source):
        if c.kernel and "wgmma" not in c.text:
            source[i] = replace(c, text=inlined(summed(c.text)))
    if any("tf_sum_slices(" in c.text for c in source):
        at = next(i for i, c in enumerate(source) if c.kernel)
        source.insert(at, Chunk(FUNCTION, {"tf_sum_slices"}, function=True))


NUMBER = re.compile(
    r"(?:static )?(?:__device__ __forceinline__|DEVICE) (?:constexpr )?int (\w+)\(\) \{ return (\d+); \}"
)


def _numbers_for_functions(sources: list[list[Chunk]]) -> None:
    """Functions of nothing that are one number, in every kernel that has them or none."""
    found: dict[str, set[bool]] = {}
    for source in sources:
        for c in source:
            if c.function and not c.kernel:
                for name in c.names:
                    found.setdefault(name, set()).add(NUMBER.fullmatch(c.text.strip()) is not None)
    for source in sources:
        numbers = {m[1]: m[2] for c in source if (m := NUMBER.fullmatch(c.text.strip())) and found[m[1]] == {True}}
        for name, number in numbers.items():
            source[:] = [
                replace(c, text=re.sub(rf"\b{name}\(\)", number, c.text)) for c in source if name not in c.names
            ]


ALIAS = re.compile(r"typedef (float|double|STORED|tf_half|int) (REAL|ELEMENT|tf_index);")
OPERANDS = re.compile(r"(struct Operands \{)([^{}]*)(\};)")


def _operands_read(sources: list[list[Chunk]]) -> None:
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


def _one_overload(sources: list[list[Chunk]]) -> None:
    """Functions for double, beside those for float, are gone where nothing else is double."""
    for source in sources:
        overloads = [c for c in source if c.function and not c.kernel and "(double " in c.text.split("{")[0]]
        twice = [c for c in overloads if any(c.names == o.names and o not in overloads for o in source)]
        if not any("double" in c.words for c in source if c not in twice):
            source[:] = [c for c in source if c not in twice]


def _aliases_gone(sources: list[list[Chunk]]) -> None:
    """Types by their own names; an element is what is stored, which is float where fp32 is."""
    for source in sources:
        types = {m[2]: m[1] for c in source if (m := ALIAS.fullmatch(c.text.strip()))}
        types = {n: "STORED" if n == "ELEMENT" and t != "double" else t for n, t in types.items()}
        for name, type_ in types.items():
            if type_ == "int" and not all(
                "typedef int tf_index;" in {c.text.strip() for c in s} for s in sources if _indexed(s)
            ):
                continue
            kept = [c for c in source if not (m := ALIAS.fullmatch(c.text.strip())) or m[2] != name]
            source[:] = [replace(c, text=re.sub(rf"\b{name}\b", type_, c.text)) for c in kept]


def _indexed(source: list[Chunk]) -> bool:
    return any("tf_index" in c.names for c in source)


def _shortened(sources: list[list[Chunk]]) -> None:
    """Without parameters nobody reads and members that are always one number."""
    plain = [[c.text for c in source if not c.macro] for source in sources]
    plain = without_unread_members(without_constant_members(plain))
    found = [iter(texts) for texts in without_unused_parameters(plain)]
    for source, texts in zip(sources, found):
        source[:] = [c if c.macro else replace(c, text=_place_told(next(texts))) for c in source]


def _called_once(sources: list[list[Chunk]]) -> None:
    """Short functions stand where they are called, if that is one place."""
    found = [[short(c.text) if c.function and not c.kernel else None for c in source] for source in sources]
    texts = written_out([[c.text for c in source] for source in sources], found)
    for source, new in zip(sources, texts):
        source[:] = [replace(c, text=text) for c, text in zip(source, new) if text is not None]


def _text(kernels: list[tuple[str, list[Chunk]]]) -> str:
    # A chunk may be shared if it and everything it reaches read the same wherever its names stand.
    texts: dict[str, set[str]] = {}
    for _, source in kernels:
        for chunk in source:
            for name in chunk.names:
                texts.setdefault(name, set()).add(chunk.text)
    several = {name for name, found in texts.items() if len(found) > 1 and not _overloads(kernels, name)}
    grew = True
    while grew:
        grew = False
        for _, source in kernels:
            for chunk in source:
                if not chunk.names <= several and not chunk.kernel and chunk.words & several:
                    several |= chunk.names
                    grew = True
    order: list[str] = []
    shared: dict[str, Chunk] = {}
    for _, source in kernels:
        last = -1
        for chunk in source:
            if chunk.kernel or chunk.names & several:
                continue
            if chunk.text not in shared:
                shared[chunk.text] = chunk
                order.insert(last + 1, chunk.text)
            last = order.index(chunk.text)
    named = "".join(c.text for _, source in kernels for c in source)
    macros = [*([DEVICE] if "DEVICE" in named else []), *([LISTS] if "EIGHT(" in named else [])]
    blocks = ['#define UNROLL _Pragma("unroll")', *macros, ELEMENTS]
    blocks += _blocks(_declared_first([shared[text] for text in order]))
    for name, source in kernels:
        mine = [c for c in source if c.kernel or c.names & several]
        if len(mine) == 1:
            blocks += _blocks(mine)
            continue
        macros = sorted(n for c in mine if c.macro for n in c.names)
        blocks += [
            f"\nnamespace {name}_ {{",
            *_blocks(mine),
            f"}}\nusing {name}_::{name};" + "".join(f"\n#undef {m}" for m in macros),
        ]
    return "\n".join(tidy(block) for block in blocks)


def _constants(sources: list[list[Chunk]]) -> dict:
    """Constants of all sources: one value where they agree, else one for each source. Functions only where they agree."""
    each = [constants("\n".join(c.text for c in source if not c.kernel)) for source in sources]
    found = {}
    for name in dict.fromkeys(name for known in each for name in known):
        values = tuple(known.get(name) for known in each)
        some = set(values) - {None}
        if len(some) == 1:
            found[name] = next(iter(some))
        elif all(isinstance(v, int) for v in some):
            found[name] = values
    if all("typedef float ELEMENT;" in {c.text.strip() for c in source} for source in sources if _stores(source)):
        if isinstance(vector := agreed(found.get("VECTOR")), int):
            found["sizeof whole"] = 4 * vector  # what store_vector moves
    for source in sources:
        for name, own in tables("\n".join(c.text for c in source if not c.kernel)).items():
            both = found.get(name, own)
            found[name] = Range(min(both.lo, own.lo), max(both.hi, own.hi), True)
    return found


NAMED = re.compile(r"(?://[^\n]*\n)*constexpr int ([A-Z_]+) = (\d+);")


def _numbers_for_names(sources: list[list[Chunk]]) -> None:
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


def _stores(source: list[Chunk]) -> bool:
    return any("store_vector" in c.names for c in source)


def _printed(chunk: Chunk, known: dict, roll: bool) -> Chunk:
    if chunk.macro:
        return chunk
    key = chunk.text, roll, tuple(sorted(known.items(), key=lambda item: item[0]))
    if key not in _texts:
        text = specialised(shorter(chunk.text) if roll else chunk.text, known)
        text = product(text) if roll else text
        _texts[key] = rolled(text) if roll and "multiply" in chunk.names else text
    return replace(chunk, text=_texts[key])


_texts: dict[tuple, str] = {}

IDLE = re.compile(
    r"(?:template <[^>]*> )?struct (\w+) \{\n(?:    __device__ __forceinline__ (?:\w+ )?\w+\([^\n]*\) \{\}\n)+\};"
)
SINGLE = [  # one term a product: what is there for several is the accumulators themselves
    (re.compile(r"results<TERMS>\(acc, total\)"), "acc"),
    (re.compile(r", Totals& total\b|(?<=multiply<WG>\(acc), total\b"), ""),
    (re.compile(r"\n *Totals total;"), ""),
]


def _without_idle(source: list[Chunk], known: dict[str, int]) -> list[Chunk]:
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


CONVERSIONS = {"tf_to", "tf_from", "tf_load", "tf_store", "tf_half", "tf_bfloat"}
CONVERSIONS |= {"tf_half_to_float", "tf_float_to_half", "tf_float_to_bfloat", "tf_bfloat_to_float"}
UNIT = re.compile(r"[*]?[\w.]+(?:[\[(].*[\])])?", re.S)
CONVERTED = re.compile(r"\btf_(?:(load|to)<(\w+)>|(store|from))\(")


def _converted(chunk: Chunk) -> Chunk:
    """Conversions that the element types do by themselves: loads, stores and assignments as they are."""
    text = re.sub(r"\btf_half\b", "STORED", chunk.text)
    return replace(chunk, text=_plain(text)) if not chunk.macro else chunk


def _plain(text: str) -> str:
    out, at = "", 0
    for match in CONVERTED.finditer(text):
        if match.start() < at:
            continue
        depth, end = 1, match.end()
        cuts = []
        while depth:
            depth += (text[end] in "([{") - (text[end] in ")]}")
            if text[end] == "," and depth == 1:
                cuts.append(end)
            end += 1
        inner = [_plain(part.strip()) for part in _cut(text[match.end() : end - 1], [c - match.end() for c in cuts])]
        simple = re.fullmatch(r"\w+", inner[0])
        element = f"*{inner[0]}" if simple else _element(inner[0])
        if match[1]:
            new = element if match[1] == "load" else inner[0]
            declared = re.search(rf"(?:\b{match[2]} |, )\w+ = (?:\({match[2]}\))?$", text[at : match.start()])
            if not (declared and text[end : end + 1] in (";", ",")) and not text[: match.start()].endswith(
                f"({match[2]})"
            ):
                new = f"({match[2]}){new}" if UNIT.fullmatch(new) else f"({match[2]})({new})"
        else:
            new = f"{element if match[3] == 'store' else inner[0]} = {inner[1]}"
        out += text[at : match.start()] + new
        at = end
    return out + text[at:]


TABLE = re.compile(r"__device__ const int ((?:tf_)?table_\d+)\[\] = \{([-\d,\s]+)\};")


def _tables_as_functions(source: list[Chunk]) -> list[Chunk]:
    """Tables whose numbers go up or down in steps, over and over, become what they say."""
    found = {}
    for chunk in source:
        if (match := TABLE.fullmatch(chunk.text.strip())) and (
            text := _stepping([int(n) for n in match[2].split(",")])
        ):
            found[match[1]] = f"static __device__ __forceinline__ int {match[1]}(int i) {{ return {text}; }}"
    out = []
    for chunk in source:
        name = next(iter(chunk.names & set(found)), None)
        text = found[name] if name else _called(chunk.text, found)
        out.append(replace(chunk, text=text, function=chunk.function or name is not None))
    return out


def _stepping(numbers: list[int]) -> str | None:
    """base + step · (i / run mod turns), for twelve numbers and more."""
    run = next((i for i, n in enumerate(numbers) if n != numbers[0]), 0)
    if not run:
        return str(numbers[0])
    if len(numbers) < 12:
        return None
    base, step, count = numbers[0], numbers[run] - numbers[0], -(-len(numbers) // run)
    turns = next((k for k in range(1, count) if numbers[k * run] == base), count)
    if any(n != base + step * (i // run % turns) for i, n in enumerate(numbers)):
        return None
    place = ("i" if run == 1 else f"i / {run}") + (f" % {turns}" if turns < count else "")
    scaled = (
        place
        if abs(step) == 1
        else f"{place} * {abs(step)}"
        if turns == count and run == 1
        else f"{abs(step)} * ({place})"
    )
    return f"{base} - {scaled}" if step < 0 else f"{base} + {scaled}" if base else scaled


def _called(text: str, names: dict[str, str]) -> str:
    """Elements of tables that are functions now."""
    for name in names:
        while (at := text.find(f"{name}[")) >= 0:
            begin, depth = at + len(name), 0
            for end in range(begin, len(text)):
                depth += (text[end] == "[") - (text[end] == "]")
                if not depth:
                    break
            text = f"{text[:begin]}({text[begin + 1 : end]}){text[end + 1 :]}"
    return text


def _cut(text: str, at: list[int]) -> list[str]:
    return [text[a:b] for a, b in zip([0, *(c + 1 for c in at)], [*at, len(text)])]


def _element(pointer: str) -> str:
    """p + i as p[i]."""
    match = re.fullmatch(r"([\w.]+) \+ (.*)", pointer, re.S)
    return f"{match[1]}[{match[2]}]" if match else f"*({pointer})"


def _declared_first(list_: list[Chunk]) -> list[Chunk]:
    """In this order, but each behind what it names."""
    by_name: dict[str, list[Chunk]] = {}
    for chunk in list_:
        for name in chunk.names:
            by_name.setdefault(name, []).append(chunk)
    placed: dict[str, Chunk] = {}
    entered: set[str] = set()

    def place(chunk: Chunk):
        if chunk.text in entered:
            return
        entered.add(chunk.text)
        for word in WORD.findall(re.sub(r"//.*", "", chunk.text)):
            for other in by_name.get(word, ()):
                if not other.names & chunk.names:
                    place(other)
        placed[chunk.text] = chunk

    for chunk in list_:
        place(chunk)
    return list(placed.values())


def _overloads(sources, name: str) -> bool:
    """Whether the name stands several times within one source: overloads, which belong together."""
    sets = [
        frozenset(c.text for c in source if name in c.names)
        for _, source in sources
        if any(name in c.names for c in source)
    ]
    biggest = max(sets, key=len)
    return len(biggest) > 1 and all(s <= biggest for s in sets)


TIDY = [
    (re.compile(r"const (tf_vector<[^;=]*>) (\w+) = \*\(const \1\*\)"), r"const auto \2 = *(const \1*)"),
    (re.compile(r"min\(\(int\)blockIdx\.x, \d+ - 1\)"), "blockIdx.x"),
    (re.compile(r"\((float|double)\)\(\(\1\)([\w.]+\[(?:[^][]|\[[^][]*\])*\])\)"), r"(\1)\2"),
    (re.compile(r"\[\(((?:[^][()]|\([^()]*\))*)\)\]"), r"[\1]"),
    (re.compile(r"\(int\)(\d+) \* "), r"\1 * "),
    (re.compile(r"(\s+)([\w.]+\[\w+\]) = 0;\s+(?=\2 = )"), r"\1"),
    (re.compile(r"(for \([^\n]*\)) \{\n\s+([^\n;{}]*;)\n\s*\}"), r"\1 \2"),
    (re.compile(r"(?<![\w>])\((\w+) \* 1\)"), r"\1"),
    (re.compile(r"(?<![\w>])\((\w+) \+ 0\)"), r"\1"),
    (re.compile(r"(= \w+) - 0;"), r"\1;"),
    (re.compile(r"= \(([^()]*)\);"), r"= \1;"),
    (re.compile(r"\+= \((\w+|tf_shared\[\w+\])\);"), r"+= \1;"),
    (re.compile(r"^((?:    )*) \{$", re.M), r"\1{"),
    (re.compile(r"else  \{"), "else {"),
    (re.compile(r"\n\s*\n(\s*\})"), r"\n\1"),
    (re.compile(r"^(\s*)\}\n\s+else", re.M), r"\1} else"),
]


DECLARATION = re.compile(r"(\s+(?:const )?(?:int|tf_index|float|double|long long|bool)) (\w+ = [^;{}\"]*);")
HALVING = re.compile(r"(\s*)(\w+) \+= __shfl_down_sync\(0xffffffffu, \2, (\d+), (\d+)\);")


ELEMENTWISE = re.compile(r"(\s+)(\w+\[[\w *+]*\] \+?= -?\w+(?:\[[\w *+]*\])?;)")


def _beside(line: str, element: re.Match) -> bool:
    """Whether elements of one array are given values one after another, and a line has room for it."""
    name = element[2].split("[")[0]
    return line.startswith(f"{element[1]}{name}[") and len(line) + len(element[2]) < 126


ANOTHER_NAME = re.compile(
    r"\n\s+(?:const int (\w+)|float \(&(\w+)\)(?:\[\w+\])+) = (blockIdx\.x|\w+(?:\[[^][]*\])+);(?=\n)"
)


def _names_used_once(text: str) -> str:
    """Another name for a block's number or a row of accumulators, where it is used once: the thing itself."""
    for match in list(ANOTHER_NAME.finditer(text)):
        name = match[1] or match[2]
        if len(re.findall(rf"\b{name}\b", text)) == 2 and (match[2] or match[3] == "blockIdx.x"):
            text = re.sub(rf"\b{name}\b", match[3], text.replace(match[0], ""))
    return text


def tidy(text: str) -> str:
    for pattern, by in TIDY:
        text = pattern.sub(by, text)
    text = _names_used_once(text)
    # Neighbouring declarations of one type share a line.
    lines: list[str] = []
    for line in _halvings(text.split("\n")):
        last = DECLARATION.fullmatch(lines[-1]) if lines else None
        this = DECLARATION.fullmatch(line)
        if last and this and last[1] == this[1] and len(lines[-1]) + len(this[2]) < 126:
            lines[-1] = f"{lines[-1][:-1]}, {this[2]};"
        elif (
            lines
            and (element := ELEMENTWISE.fullmatch(line))
            and ELEMENTWISE.match(lines[-1])
            and _beside(lines[-1], element)
        ):
            lines[-1] += f" {element[2]}"
        else:
            lines.append(line)
    return "\n".join(lines)


def _halvings(lines: list[str]) -> list[str]:
    """A sum over lanes, written out step by step, as a loop."""
    out, i = [], 0
    while i < len(lines):
        match, count = HALVING.fullmatch(lines[i]), 0
        while match and i + count < len(lines) and (next_ := HALVING.fullmatch(lines[i + count])):
            if next_[2] != match[2] or int(next_[3]) != int(match[3]) >> count:
                break
            count += 1
        if count > 1 and int(match[3]) >> count == 0:
            step = f"{match[2]} += __shfl_down_sync(0xffffffffu, {match[2]}, d, {match[4]});"
            out.append(f"{match[1]}UNROLL for (int d = {match[3]}; d > 0; d /= 2) {step}")
            i += count
        else:
            out.append(lines[i])
            i += 1
    return out


def _blocks(list_: list[Chunk]) -> list[str]:
    """A block for each function, struct or constant; those of several statements stand apart."""
    short = lambda text: text.count("\n") < 5  # noqa: E731
    return [chunk.text if short(chunk.text) else f"\n{chunk.text}" for chunk in list_]
