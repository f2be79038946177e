"""Words of a file: macros for what its kernels say over and over, instructions where the one place that needs them is."""

from __future__ import annotations

import re
from collections import Counter

from transfuse.emit.text.layout import WIDTH
from transfuse.emit.text.machine import bytes_named

FIRST = '#define UNROLL _Pragma("unroll")'
SEVERAL = 4  # times a word is said for less room than its definition takes

INSTRUCTION = re.compile(
    r'\basm volatile\((?P<text>"(?:[^"\\\n]|\\.)*")\s*::(?:\s*:|(?P<given>[^:\n]*?)\s*:) "memory"\)'
)
PTX = '#define PTX(text, ...) asm volatile(text ::__VA_ARGS__ : "memory")'
ALONE = re.compile(r"(?m)^(DEVICE void [^\n]*\{)\n +(PTX\([^\n]*\);)\n\}$")
NAMED = re.compile(
    r'(?m)^(?:template <int (?P<number>\w+)> )?DEVICE void (?P<name>\w+)\(\) \{ (?P<does>(?:PTX|asm volatile)\("[^"\n]*"[^\n]*?\);) \}\n'
    r"|^#define (?P<macro>\w+)\(\) (?P<since>SINCE_90\([^\n]*\))\n"
)

KERNEL = "#define KERNEL(...) void __launch_bounds__(__VA_ARGS__)"
READ = re.compile(r"\bconst (STORED|float)\* __restrict__(?= )")
TURNS = re.compile(
    r"\bfor \(int (block\d*) = blockIdx\.x; \1 < (\w+(?: \* \w+)?|\(\w+ \+ \d+\) / \d+); \1 \+= gridDim\.x\)"
)
EACH = "#define EACH(block, count) for (int block = blockIdx.x; block < count; block += gridDim.x)"
BELOW = re.compile(r"(?m)^( *)(EACH\([^\n()]*\))\n +(tf_[^\n]*)$")
PRAGMA = re.compile(r"(?m)^#pragma (unroll \d+)\n( *)for ")


SINCE = re.compile(
    r"#if __CUDA_ARCH__ >= 900\n(?P<there>(?:#define \w+\(\) PTX\([^\n]*\)\n){3,})#else\n(?P<else>(?:#define \w+\(\)[^\n]*\n)+)#endif\n"
)
CHOSEN = """#if __CUDA_ARCH__ >= 900
#define SINCE_90(text, ...) PTX(text)
#else
#define SINCE_90(text, ...) __VA_ARGS__
#endif
"""


def _chosen(m: re.Match) -> str:
    """Instructions that other GPUs have not, and what they do instead."""
    otherwise = dict(re.findall(r"#define (\w+)\(\) ?([^\n]*)\n", m["else"]))
    there = re.findall(r"#define (\w+)\(\) PTX\(([^\n]*)\)\n", m["there"])
    if {name for name, _ in there} != {*otherwise}:
        return m[0]
    said = [
        f"#define {name}() SINCE_90({text}{', ' * bool(otherwise[name])}{otherwise[name]})\n" for name, text in there
    ]
    return CHOSEN + "".join(said)


ASKS = (
    '#define ASKED(op, ...) [&] { int p; asm volatile("{.reg .pred p, q; " op " selp.b32 %0, 1, 0, p;}"'
    ' : "=r"(p) : __VA_ARGS__ : "memory"); return p; }()'
)
ASKING = re.compile(
    r"""(?m)^(?P<head>DEVICE bool \w+\([^\n]*\{)\n +(?:int|unsigned) (?P<is>\w+);\n"""
    r""" +asm volatile\("\{\.reg \.pred p(?:, q)?; (?P<text>[^"\n]*;) selp\.[bu]32 %0, 1, 0, p;\}"\s*"""
    r""": "=r"\((?P=is)\) : (?P<given>[^:\n]*) : "memory"\);\n +return (?P<return>[^\n;]*\b(?P=is)\b[^\n;]*);\n\}$"""
)
LANDED = re.compile(
    r"(?m)^DEVICE void (?P<name>\w+)\(float& (?P<v>\w+)\) \{ (?P<does>asm volatile\(\"\"[^;\n]*;) \}(?P<note>  //[^\n]*)?\n"
)
VECTORS = re.compile(r"(?m)^(?://[^\n]*\n)*template <class S, int N> struct [^\n]* tf_vector [^\n]*\n")
ROOTS = re.compile(r"(?m)^DEVICE (?:float|double) tf_rsqrt\([^\n]*\}\n")


def words(source: str) -> str:
    """Device and host code in fewer words; the compiler is told the same."""
    source, defined = PRAGMA.sub(r'\2_Pragma("\1") for ', source), []
    source = bytes_named(source)
    unread = len(ROOTS.findall(source)) == source.count("tf_rsqrt(")
    source = _beside_its_read(_vectors(ROOTS.sub("", source) if unread else source))
    if ASKING.search(source):
        source = ASKING.sub(_asked, source)
        defined.append(ASKS)
    if len(INSTRUCTION.findall(source)) >= SEVERAL:
        source = SINCE.sub(_chosen, ALONE.sub(_beside, INSTRUCTION.sub(_instruction, source)))
        defined.append(PTX)
    source = _where_needed(source)
    if source.count("__global__ void __launch_bounds__(") >= SEVERAL:
        source = source.replace("__global__ void __launch_bounds__(", "__global__ KERNEL(")
        defined.append(KERNEL)
    types = Counter(READ.findall(source)).most_common(1)
    if types and types[0][1] >= SEVERAL:
        told = f"const {types[0][0]}* __restrict__"
        source = re.sub(rf"{re.escape(told)}(?= )", "READ", source)
        defined.append(f"#define READ {told}")
    if len(TURNS.findall(source)) >= SEVERAL:
        source = BELOW.sub(_joined, TURNS.sub(r"EACH(\1, \2)", source))
        defined.append(EACH)
    return source.replace(FIRST, "\n".join([FIRST, *defined]), 1)


def _asked(m: re.Match) -> str:
    """A function that returns a predicate, or asks something of it."""
    value = m["return"].replace(m["is"], f'ASKED("{m["text"]}", {m["given"]})')
    line = f"{m['head']} return {value}; }}"
    return line if len(line) <= WIDTH else f"{m['head']}\n    return {value};\n}}"


def _beside_its_read(source: str) -> str:
    """An instruction that holds a sum where it is, if one place says it."""
    m = LANDED.search(source)
    calls = re.findall(rf"(?m)\b{m['name']}\(([^()\n]*)\);$", source) if m else []
    if len(calls) != 1 or len(re.findall(rf"\b{m['name']}\b", source)) != 2:
        return source
    does = m["does"].replace(f"({m['v']})", f"({calls[0]})") + (m["note"] or "")
    call = f"{m['name']}({calls[0]});"
    if any(len(line.replace(call, does)) > WIDTH for line in source.split("\n") if call in line):
        return source
    return source.replace(m[0], "").replace(call, does)


VECTOR = r"tf_vector<float, ([24])>"
TAKEN = re.compile(rf"\bconst auto (\w+) = \*\(const {VECTOR}\*\)")
MOVED = re.compile(rf"\*\({VECTOR}\*\)(?P<to>\((?:[^()]|\([^()]*\))*\)) = \*\(const tf_vector<float, \1>\*\)")
GIVEN = re.compile(rf"\*\({VECTOR}\*\)(?P<to>\((?:[^()]|\([^()]*\))*\)) = \{{(?P<list>\{{[^{{}}]*\}})\}}")


KEPT = re.compile(
    r"const (float[24]) (\w+) = (\*\(const \1\*\)[^\n;]*);\n"
    r" +UNROLL for \(int (\w+) = 0; \4 < ([24]); \+\+\4\) (\w+(?:\[\w+\])*)\[\4\] = \(&\2\.x\)\[\4\];"
)


def _vectors(source: str) -> str:
    """Two or four floats at once have types of their own."""
    told = len(TAKEN.findall(source)) + 2 * len(MOVED.findall(source)) + len(GIVEN.findall(source))
    held = {name for name, _ in TAKEN.findall(source)}
    if not told or len(re.findall(r"\btf_vector<", source)) != told:
        return source
    if any(re.search(rf"\b{name}\b(?!\.lane\[| = )", source) for name in held):
        return source
    source = MOVED.sub(r"*(float\1*)\g<to> = *(const float\1*)", VECTORS.sub("", source))
    source = GIVEN.sub(r"*(float\1*)\g<to> = \g<list>", TAKEN.sub(r"const float\2 \1 = *(const float\2*)", source))
    for name in held:
        source = re.sub(rf"(?:\(float\))?\b{name}\.lane\[", f"(&{name}.x)[", source)
    return KEPT.sub(r"*(\1*)\6 = \3;", source)


def _instruction(m: re.Match) -> str:
    given = (m["given"] or "").strip()
    return f"PTX({m['text']}{', ' + given if given else ''})"


def _beside(m: re.Match) -> str:
    line = f"{m[1]} {m[2]} }}"
    return line if len(line) <= WIDTH else m[0]


def _joined(m: re.Match) -> str:
    line = f"{m[1]}{m[2]} {m[3]}"
    if len(set(re.findall(r"\bblock\d*\b", line))) == 1:
        line = re.sub(r"\bblock\d+\b", "block", line)
    return line if len(line) <= WIDTH else m[0]


def _where_needed(source: str) -> str:
    """An instruction of no operands that one place gives stands there."""
    for m in list(NAMED.finditer(source)):
        name, does = m["name"] or m["macro"], m["does"] or f"{m['since']};"
        calls = list(re.finditer(rf"\b{name}(?:<(\d+|PICK\([^()]*\))>)?\(\);", source.replace(m[0], "")))
        if len(calls) != 1 or len(re.findall(rf"\b{name}\b", source)) != 2:
            continue
        if m["number"] and calls[0][1] and not calls[0][1].isdigit():
            does = does.replace(f'"n"({m["number"]})', f'"n"({calls[0][1]})')
        elif m["number"]:
            does = re.sub(rf',? ?(?:::)?"n"\({m["number"]}\)', "", does.replace("%0", calls[0][1] or "%0"))
        if "(" in does and m["number"] and m["number"] in does:
            continue
        if any(len(line.replace(calls[0][0], does)) > WIDTH for line in source.split("\n") if calls[0][0] in line):
            continue
        source = source.replace(m[0], "").replace(calls[0][0], does)
    return source
