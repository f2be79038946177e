"""Shorter words for what stands in every other line of a tensor-core kernel, and its widest instruction on lines of usual width."""

from __future__ import annotations

import re

DEVICE = "#define DEVICE __device__ __forceinline__"
BARRIER = "typedef unsigned long long Barrier;"
SHARED = '#define SHARED(pointer) "r"(shared_address(pointer))'
HANDLE = re.compile(r"\bunsigned (b|bar|barrier)(?=[,)])")


def shorter(text: str) -> str:
    """A declaration with barriers by reference instead of by their shared address, and one word for what is inlined."""
    text = re.sub(r"\bshared_address\(&(b\.\w+\[[^][]*\])\)", r"\1", text)
    text = re.sub(r"\b(?:const )?unsigned (bar|barrier) = (b\.\w+\[)", r"Barrier& \1 = \2", text)
    for name in HANDLE.findall(text):
        text = text.replace(f'"r"({name})', f"SHARED(&{name})")
    text = HANDLE.sub(r"Barrier& \1", text)
    if re.search(r"\bstruct Barriers \{", text):
        text = text.replace("unsigned long long ", "Barrier ")
    if text.lstrip().startswith("TF_PTX unsigned shared_address("):
        text = f"{BARRIER}\n{text}"
    return _inlined(text)


def _inlined(text: str) -> str:
    if text.startswith("#define TF_"):
        return text
    text = re.sub(r"(?m)^( +static) __device__ __forceinline__(?= )", r"\1 DEVICE", text)  # of a struct, of no object
    return re.sub(r"\b(?:TF_PTX|TF_FUNCTION|(?:static )?__device__ __forceinline__)(?= )", "DEVICE", text)


ROUNDED = re.compile(
    r"(?:const )?uint4 (\w+) = make_uint4\(round_tf32\((\w+)\[([\w *]+)\]\), (?:round_tf32\(\2\[[\w *+]+\]\)(?:, )?){3}\);"
    r"\s+(\*\(uint4\*\)\([^;]*\)) = \1;"
)
FOUR_ROUNDED = """// Four channels of a pixel, or of a weight, as the tensor cores take them.
DEVICE uint4 rounded(const float* v) { return make_uint4(round_tf32(v[0]), round_tf32(v[1]), round_tf32(v[2]), round_tf32(v[3])); }"""


def rounded(text: str) -> str:
    """Four channels that are rounded and written at once."""
    for match in list(ROUNDED.finditer(text)):
        if f"{match[1]}." in text:  # what rounding left is written too
            return text
        first = match[2] if match[3] == "0" else f"{match[2]} + {match[3]}"
        text = text.replace(match[0], f"{match[4]} = rounded({first});")
    return text


PRODUCT = re.compile(
    r'asm volatile\("(\{\\n\.reg \.pred p;[^"]*?)(\{%0,[%\d,]*\})([^"]*)" : ((?:"\+f"\(d\[\d+\]\), ?)*"\+f"\(d\[\d+\]\)) : '
)
LISTS = """#define TEN(t) "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define EIGHT(i) FOUR(i), FOUR(i + 4)"""


EIGHT = """#define EIGHT(i) """ + ", ".join(f'"+f"(d[i{f" + {k}" if k else ""}])' for k in range(8))


def lists(text: str) -> str:
    """The words that a text needs of those above."""
    return LISTS if "FOUR(" in text else f"{LISTS.split(chr(10))[0]}\n{EIGHT}"


def product(text: str) -> str:
    """A tensor-core instruction names every accumulator: tens of names and eights of operands in a word."""
    return PRODUCT.sub(_listed, text)


def _listed(match: re.Match) -> str:
    count = match[4].count("+f")  # a multiple of four
    tens, eights = count // 10, count // 8
    names = " ".join(f"TEN({t or ''})" for t in range(tens))
    rest = ",".join(f"%{i}" for i in range(10 * tens, count))
    if not rest:  # no comma behind the last one
        names = " ".join(f"TEN({t or ''})" for t in range(tens - 1))
        rest = ",".join(f"%{i}" for i in range(10 * tens - 10, count))
    operands = [f"EIGHT({8 * i})" for i in range(eights)] + [f"FOUR({i})" for i in range(8 * eights, count, 4)]
    given = _filled(operands)
    rest_of_it = " " if len(given.rpartition("\n")[2]) < 100 else "\n        "  # what it reads follows
    return f'asm volatile("{match[1]}{{"\n        {names} "{rest}}}{match[3]}"\n        : {given}{rest_of_it}: '


def _filled(words: list[str]) -> str:
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > 131:
            lines.append("")
        lines[-1] += word + ", "
    return "\n        ".join(line.rstrip() for line in lines).rstrip(",")


STORE = re.compile(r"(?:// [^\n]*\n)?template <int N, class S> DEVICE void (store_vector\w*)\(.*?\n\}\n", re.S)
STORED = re.compile(r"\bstore_vector\w*<VECTOR>\((?:true, )?to, ([\w.]+(?:\[\w+\])*)\)")


def stores_written_out(text: str) -> str:
    """A vector of floats that every thread stores: the instruction itself."""
    functions = list(STORE.finditer(text))
    count = re.search(r"\bVECTOR = ([24])[,;]", text)
    if len(functions) != 1 or count is None or not re.search(r"\bfloat\* to = ", text):
        return text
    calls = len(re.findall(rf"\b{functions[0][1]}<", text))
    if calls != len(STORED.findall(text)):
        return text
    n = int(count[1])
    elements = lambda m: ", ".join(f"{m[1]}[{e}]" for e in range(n))  # noqa: E731
    text = text.replace(functions[0][0], "")
    return STORED.sub(lambda m: f"__stcs((float{n}*)to, make_float{n}({elements(m)}))", text)
