"""Device code for a reader: what the kernels share stands once, what none of them uses is gone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass
class Chunk:
    """A top-level declaration with the comment above it."""

    text: str
    names: set[str]
    words: set[str] = field(default_factory=set)
    kernel: bool = False
    macro: bool = False

    def __post_init__(self):
        self.words = set(WORD.findall(re.sub(r"//.*", "", self.text)))


def resolved(text: str) -> str:
    """The branches a CUDA compiler takes where the text can also be read by a plain C++ compiler."""
    out, stack = [], []  # stack: [kind, keeping]
    for line in text.split("\n"):
        word = line.strip()
        if word.startswith(("#ifdef __CUDACC_RTC__", "#if")):
            plain = word.startswith("#ifdef __CUDACC_RTC__")
            stack.append(["plain" if plain else "arch", True])
            if plain:
                continue
            line = line.replace("defined(__CUDA_ARCH__) && ", "")
        elif word.startswith("#elif defined(__CUDACC_RTC__)"):
            line = "#else"
        elif word.startswith("#else") and stack:
            if stack[-1][0] == "plain" or (
                out and any(l.strip() == "#else" for l in out[-12:]) and stack[-1][0] == "arch"
            ):
                stack[-1][1] = False
                continue
        elif word.startswith("#endif") and stack:
            kind, _ = stack.pop()
            if kind == "plain":
                continue
        if all(keeping for _, keeping in stack) or word.startswith("#endif"):
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
            pending.append(line)
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


def _chunk(text: str) -> Chunk:
    code = re.sub(r"//.*", "", text).strip()
    names = set(re.findall(r"^#define (\w+)", code, re.M)) if code.startswith("#") else set()
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
            r"(?!float\b)\b(\w+)\s*\(", re.sub(r"__launch_bounds__\([^)]*\)|alignas\([^)]*\)", "", head)
        ):
            names = {match[1]}
            if match[1] in ("__align__",):
                names = set(WORD.findall(head)[-1:])
    return Chunk(text, names, kernel="__global__" in code, macro=code.startswith("#"))


def needed(source: list[Chunk]) -> list[Chunk]:
    """What the kernel reaches."""
    words, kept = set(), set()
    grew = True
    while grew:
        grew = False
        for i, chunk in enumerate(source):
            if i not in kept and (chunk.kernel or chunk.names & words):
                kept.add(i)
                words |= chunk.words
                grew = True
    return [chunk for i, chunk in enumerate(source) if i in kept]


def _unused_macros_gone(chunk: Chunk, words: set[str]) -> Chunk:
    """Of a group of macros for each architecture, those that are used."""
    if not chunk.macro or len(chunk.names) < 2:
        return chunk
    lines = [l for l in chunk.text.split("\n") if not (m := re.match(r"#define (\w+)", l)) or m[1] in words]
    return Chunk("\n".join(lines), chunk.names & words, kernel=False, macro=True)


def assembled(builds: dict[str, list[tuple[str, str]]]) -> dict[str, list[str]]:
    """Of each build its device code, in blocks; given are (name, source) of its kernels. What all share comes first, in all."""
    sources = {
        key: [(name, [_typed(c) for c in needed(chunks(text))]) for name, text in kernels]
        for key, kernels in builds.items()
    }
    every = [source for list_ in sources.values() for source in list_]
    used = set().union(*(c.words for _, source in every for c in source if not (c.macro and len(c.names) > 1)))
    for _, source in every:
        source[:] = [_unused_macros_gone(chunk, used) for chunk in source]
    # A chunk may be shared if it and everything it reaches read the same wherever its names stand.
    texts: dict[str, set[str]] = {}
    for _, source in every:
        for chunk in source:
            for name in chunk.names:
                texts.setdefault(name, set()).add(chunk.text)
    several = {name for name, found in texts.items() if len(found) > 1 and not _overloads(every, name)}
    grew = True
    while grew:
        grew = False
        for _, source in every:
            for chunk in source:
                if not chunk.names <= several and not chunk.kernel and chunk.words & several:
                    several |= chunk.names
                    grew = True
    order: list[str] = []
    shared: dict[str, Chunk] = {}
    for _, source in every:
        last = -1
        for chunk in source:
            if chunk.kernel or chunk.names & several:
                continue
            if chunk.text not in shared:
                shared[chunk.text] = chunk
                order.insert(last + 1, chunk.text)
            last = order.index(chunk.text)
    head = _blocks(_declared_first([shared[text] for text in order]))
    made = {}
    for key, list_ in sources.items():
        blocks = list(head)
        for name, source in list_:
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
        made[key] = [tidy(block) for block in blocks]
    return made


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


def _typed(chunk: Chunk) -> Chunk:
    """Kernels for 16 bits serve fp16 and bf16."""
    if "tf_half" not in chunk.words or any(name.startswith("tf_") for name in chunk.names):
        return chunk
    return Chunk(re.sub(r"\btf_half\b", "STORED", chunk.text), chunk.names, kernel=chunk.kernel, macro=chunk.macro)


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
    (re.compile(r"(?<![\w>])\((\w+) \* 1\)"), r"\1"),
    (re.compile(r"(?<![\w>])\((\w+) \+ 0\)"), r"\1"),
    (re.compile(r"(= \w+) - 0;"), r"\1;"),
    (re.compile(r"= \(([^()]*)\);"), r"= \1;"),
    (re.compile(r"\+= \((\w+|tf_shared\[\w+\])\);"), r"+= \1;"),
    (re.compile(r"^(\s*) \{$", re.M), r"\1{"),
    (re.compile(r"else  \{"), "else {"),
    (re.compile(r"\n\s*\n(\s*\})"), r"\n\1"),
    (re.compile(r"\}\n\s+else"), "} else"),
]


DECLARATION = re.compile(r"(\s+const (?:int|tf_index|float|double|long long|bool)) (\w+ = [^;{}\"]*);")


def tidy(text: str) -> str:
    for pattern, by in TIDY:
        text = pattern.sub(by, text)
    # Neighbouring declarations of one type share a line.
    lines: list[str] = []
    for line in text.split("\n"):
        last = DECLARATION.fullmatch(lines[-1]) if lines else None
        this = DECLARATION.fullmatch(line)
        if last and this and last[1] == this[1] and len(lines[-1]) + len(this[2]) < 126:
            lines[-1] = f"{lines[-1][:-1]}, {this[2]};"
        else:
            lines.append(line)
    return "\n".join(lines)


def _blocks(list_: list[Chunk]) -> list[str]:
    """A block for each function or struct; neighbouring constants share lines."""
    blocks: list[str] = []
    constants: list[str] = []

    def flush():
        lines, line = [], ""
        for item in constants:
            if line and len(line) + len(item) > 128:
                lines.append(f"constexpr int {line};")
                line = ""
            line += (", " if line else "") + item
        if line:
            blocks.append("\n".join([*lines, f"constexpr int {line};"]))
        constants.clear()

    for chunk in list_:
        if match := re.fullmatch(r"constexpr int (\w+ = -?\d+);", chunk.text.strip()):
            constants.append(match[1])
            continue
        flush()
        blocks.append(chunk.text if "\n" not in chunk.text else f"\n{chunk.text}")
    flush()
    return blocks
