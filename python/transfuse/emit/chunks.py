"""Device code as declarations: of a generator's source those that its kernel reaches."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache


WORD = re.compile(r"[A-Za-z_]\w*")
METHOD = re.compile(
    r"^\s+(?:template <[^>]*> )?(?:static )?(?:DEVICE|TF_FUNCTION|__device__ __forceinline__) [\w:]+[&*]? (\w+)\(", re.M
)


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
        words, calls = _said(self.text, self.function)
        self.words, self.calls = set(words), set(calls)

    def reached_from(self, words: set[str], calls: set[str]) -> bool:
        return bool(self.names & (calls if self.function else words))


@lru_cache(1 << 14)
def _said(text: str, function: bool) -> tuple[frozenset[str], frozenset[str]]:
    """The words of a declaration, and what it calls."""
    code = re.sub(r"//.*", "", text)
    words = set(WORD.findall(code))
    if function:  # constants of its own hide those of the same name
        own = re.findall(r"^\s+constexpr int ([^;]*);", code, re.M)
        words -= {name for list_ in own for name in re.findall(r"(?:^|, )(\w+) = ", list_) if name.isupper()}
    calls = set(re.findall(r"([A-Za-z_]\w*)(?=[(<])", code))
    if not function:  # and so do functions of a struct
        calls -= set(METHOD.findall(code))
    return frozenset(words), frozenset(calls)


FLAG = re.compile(r"^#define (TF_\w+)$", re.M)  # says no more than that it is defined


def resolved(text: str) -> str:
    """The branches a CUDA compiler takes where the text can also be read by a plain C++ compiler, or asks what was defined."""
    defined = {"__CUDACC__", "__CUDACC_RTC__", *FLAG.findall(text)}
    out, stack = [], []  # stack: None where the compiler decides, else [taken, keeping]
    for line in text.split("\n"):
        word = line.strip()
        keeping = all(entry is None or entry[1] for entry in stack)
        if match := re.match(r"#(ifdef|ifndef|if|elif) ?(?:defined\()?(\w+)?\)?(.*)", word):
            asks = match[1] in ("ifdef", "ifndef") or ((match[2] or "").startswith("__CUDACC") and not match[3].strip())
            ours = asks and match[2].startswith(("__CUDACC", "TF_"))
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
        elif FLAG.fullmatch(word):
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


def macros_within(source: list[Chunk]) -> list[Chunk]:
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


def unused_macros_gone(chunk: Chunk, words: set[str]) -> Chunk:
    """Of a group of macros for each architecture, those that are used."""
    if not chunk.macro or len(chunk.names) < 2:
        return chunk
    lines = [l for l in chunk.text.split("\n") if not (m := re.match(r"#define (\w+)", l)) or m[1] in words]
    return replace(chunk, text="\n".join(lines), names=chunk.names & words)


def declared_first(list_: list[Chunk]) -> list[Chunk]:
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


def _types(text: str) -> str:
    """A function's head without comments and the names of its parameters."""
    head = re.sub(r"//[^\n]*\n", "", text).split("{")[0]
    return re.sub(r" +(?=[,)])", "", re.sub(r"(?<=[\w>*&] |.[*&])(?!const\b)[a-z_]\w*(?=[,)[])", "", head))


def overloads(sources, name: str) -> bool:
    """Whether the texts of this name are overloads, of which no kernel would be given another's: they stand side by side."""
    sets = [
        frozenset(c.text for c in source if name in c.names)
        for _, source in sources
        if any(name in c.names for c in source)
    ]
    every = frozenset.union(*sets)
    if not all(c.function for _, source in sources for c in source if name in c.names):
        return False
    heads = {_types(text) for text in every}
    generic = any("<class R>" in head for head in heads)
    return len(heads) == len(every) > 1 and (not generic or all(s <= max(sets, key=len) for s in sets))
