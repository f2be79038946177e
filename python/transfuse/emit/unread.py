"""What a kernel's text has and nobody asks for: functions of a struct, overloads for another type."""

from __future__ import annotations

import re
from dataclasses import replace

from transfuse.emit.chunks import Chunk

STRUCT = re.compile(r"^(?:template <[^>]*> )?struct (\w+) \{\n", re.M)
INLINE = r"(?:static )?(?:__device__ __forceinline__|DEVICE|TF_FUNCTION)"
METHOD = re.compile(
    rf"(?:^    //[^\n]*\n)*^    (?:template <[^>]*> )?{INLINE} (?:[\w:<>]+[*&]* )*(\w+)\((?:[^{{}};]*)\) (?:const )?\{{"
    r"(?:[^\n]*\}\n|\n(?:(?:     [^\n]*|#[^\n]*)\n)*    \}\n)",
    re.M,
)


def methods_called(source: list[Chunk]) -> list[Chunk]:
    """Structs without the functions nobody calls; calls of those that do nothing are gone."""
    while True:
        found = next(_idle(source), None)
        if found is None:
            return source
        at, definition, name = found
        call = called(name)
        source = [
            replace(c, text=c.text.replace(definition, "")) if i == at else replace(c, text=call.sub("", c.text)) if not c.macro else c
            for i, c in enumerate(source)
        ]  # fmt: skip


def called(name: str) -> re.Pattern:
    return re.compile(rf"\n *(?:if constexpr \(\w+\) )?\w+\.{name}\([^\n;]*\);")


def _idle(source: list[Chunk]):
    code = [re.sub(r"//.*", "", c.text) for c in source]
    for i, c in enumerate(source):
        if not (struct := STRUCT.search(c.text)):
            continue
        for match in METHOD.finditer(c.text):
            name, empty = match[1], match[0].rstrip().endswith("{}")
            uses = sum(len(re.findall(rf"\b{name}\b(?=[(<])", text)) for text in code)
            if name != struct[1] and (uses == 1 or (empty and uses == 2 and any(called(name).search(t) for t in code))):
                yield i, match[0], name


CLEAR = re.compile(rf"\n    {INLINE} void clear\(float \(&to\)(\[\w+\]\[\w+\])\) \{{ [^\n{{}}]*\] = 0\.f; \}}")


def sums_begun(source: list[Chunk]) -> list[Chunk]:
    """Sums over tiles that nobody adds to are gone, and barriers nobody waits at; what begins with zeros says so."""
    code = "".join(re.sub(r"//[^\n]*", "", c.text) for c in source)
    out = []
    for c in source:
        text = c.text
        if STRUCT.search(text) and len(re.findall(r"\bsums\b", text)) == 2:
            text = re.sub(r"\n +(?:float sums\[\w+\]\[\w+\]|clear\(sums\));(?: *//[^\n]*)?", "", text)
        if "counts = true;" in text and "bool counts;" in text:  # no other lane has the same results
            text = re.sub(r"\n +(?:bool counts|counts = true);[^\n]*", "", text).replace(" || !counts", "")
        if (match := CLEAR.search(text)) and len(re.findall(r"\bclear\(", text)) == 2:
            begun = re.sub(rf"float (\w+){re.escape(match[1])};\n +clear\(\1\);", rf"float \1{match[1]} = {{}};", text)
            text = begun.replace(match[0], "") if begun != text else text
        if "barrier_wait(b.chunk" not in code and "barrier_arrive(b.chunk" not in code:
            text = re.sub(r"\n[^\n]*\bchunk_full\[[^\n]*\bchunk_empty\[[^\n]*", "", text)
        out.append(c if text == c.text else replace(c, text=text))
    return out


TYPES = ("float", "double")
HEAD = re.compile(rf"(template <class R> )?{INLINE} (?:float|double|R|void) (tf_\w+)\((float|double|R)\b")
CALL = re.compile(r"\b(tf_\w+)(?:<\w+>)?\(")


def overloads_chosen(source: list[Chunk]) -> list[Chunk]:
    """Of a plain kernel's functions for float and for double, those that are called. Within a function of one type its calls are
    of that type; in the kernel they are of what their first argument shows."""
    heads = {i: m for i, c in enumerate(source) if c.function and not c.kernel and (m := HEAD.search(c.text))}
    if not any(c.kernel and "wgmma" not in c.text for c in source) or any("wgmma" in c.text for c in source):
        return source
    wanted: set[tuple[str, str]] = set()
    for i, c in enumerate(source):
        if i not in heads and not c.macro:
            wanted |= {(name, kind) for name, argument in _calls(c.text) for kind in _kinds(argument, c.text)}
    grew = True
    while grew:
        before = len(wanted)
        for i, head in heads.items():
            for kind in TYPES if head[3] == "R" else (head[3],):
                if (head[2], kind) in wanted:
                    body = source[i].text[head.end() :]
                    wanted |= {(name, kind) for name in CALL.findall(body)}
        grew = len(wanted) > before
    return [c for i, c in enumerate(source) if i not in heads or _is_wanted(heads[i], wanted)]


def _is_wanted(head: re.Match, wanted: set[tuple[str, str]]) -> bool:
    return any((head[2], kind) in wanted for kind in (TYPES if head[3] == "R" else (head[3],)))


def _calls(text: str):
    """Names and first arguments."""
    for match in CALL.finditer(text):
        depth, at = 1, match.end()
        while at < len(text) and depth and not (depth == 1 and text[at] == ","):
            depth += (text[at] in "([{") - (text[at] in ")]}")
            at += 1
        yield match[1], text[match.end() : at - (not depth)]


def _kinds(argument: str, text: str) -> tuple[str, ...]:
    """What type an argument is of, where that is plain to see."""
    if match := re.fullmatch(r"\((float|double)\)\(?[\w.]+(?:\[[^][]*\])*\)?", argument.strip()):
        return (match[1],)
    words = re.findall(r"[A-Za-z_]\w*", argument)
    declared = {w: re.findall(rf"\b(float|double) (?:[^;(){{}}]*, )?{w}\b", text) for w in words}
    types = {w for w in words if w in TYPES} | {t for found in declared.values() for t in found}
    types |= {"double"} if re.search(r"(?<![\w.])\d+\.\d*(?:[eE][+-]?\d+)?(?![\w.])", argument) else set()
    return tuple(types) if len(types) == 1 else TYPES
