"""A kernel's text as a file has it: elements of any type, parameters that say what they are, no questions that all sizes answer."""

from __future__ import annotations

import re
import struct

from transfuse.emit.launches import Parameter
from transfuse.emit.text.values import constants

# The copy engine moves whole words; of 16 bits a thread makes the float it would have waited for.
CONVERTING_COPY = "template <class S> TF_FUNCTION void tf_copy(float* to, const S* from) { *to = (float)*from; }\n"


def stored(body: str, parameters: list[Parameter], kinds: list[str]) -> str:
    """Leaves and outputs may lie in memory as fp32, fp16 or bf16: STORED says which. Arithmetic stays as it is."""
    names = set()
    for p, kind in zip(parameters, kinds):
        if kind in ("leaf", "output") and re.match(r"(?:const )?float\*", p.type):
            p.type = p.type.replace("float", "STORED", 1)
            names.add(p.name)
    for match in re.finditer(r"const float\* (?:__restrict__ )?(\w+) = (\w+) ", body):
        if match[2] in names:
            names.add(match[1])
    for name in names:
        body = re.sub(rf"const float\* ((?:__restrict__ )?\w+ = {name} )", r"const STORED* \1", body)
        body = re.sub(
            rf"(?:tf_vector<float, (\d+)> (\w+) = )\*\(const tf_vector<float, \d+>\*\)\({name} ",
            rf"tf_vector<STORED, \1> \2 = *(const tf_vector<STORED, \1>*)({name} ",
            body,
        )
        for width, pack in re.findall(rf"\*\(tf_vector<float, (\d+)>\*\)\({name} [^;]*? = (\w+);", body):
            body = body.replace(f"tf_vector<float, {width}> {pack};", f"tf_vector<STORED, {width}> {pack};")
        body = re.sub(rf"\*\(tf_vector<float, (\d+)>\*\)\({name} ", rf"*(tf_vector<STORED, \1>*)({name} ", body)
        body = _held(body, name)
    return body


def _held(body: str, name: str) -> str:
    """Arrays of elements as `name` has them, and those whose elements these are else."""
    for array in set(re.findall(rf"\b(\w+)\[\w+\] = {name}\[", body)):
        if f" float {array}[" in body:
            body = body.replace(f" float {array}[", f" STORED {array}[")
            for other in re.findall(rf"\b{array}\[\w+\] = (\w+)\[", body):
                body = body.replace(f"__shared__ float {other}[", f"__shared__ STORED {other}[")
    return body


def in_fp32(body: str, parameters: list[Parameter]) -> str:
    """What a kernel for 16 bits stores through these as fp32, and not rounded before."""
    for p in parameters:
        if p.type != "tf_half*":
            continue
        p.type = "float*"
        for value in re.findall(rf"\btf_store\({p.name} [^;]*, (\w+)\);", body):
            body = re.sub(rf"(const (?:float|double) {value} = )tf_round<tf_half>(\([^;]*\);)", r"\1\2", body)
    return body


def steps_known(body: str, parameters: list[Parameter]) -> str:
    """Strides that are numbers, where the kernel itself asks for them."""
    for p in parameters:
        if p.type == "Strides" and re.fullmatch(r"\{\d+(?:, \d+){4}\}", p.value):
            steps = dict(zip("ncdhw", re.findall(r"\d+", p.value)))
            body = re.sub(rf"(?<![\w.]){p.name}\.([ncdhw])\b", lambda m: steps[m[1]], body)  # noqa: B023
    return body


BLOCKS = re.compile(r"for \(int (\w+) = blockIdx\.x; \1 < (\d+); \1 \+= gridDim\.x\) \{")


def a_block_each(text: str, grid: str) -> str:
    """A loop over blocks of work without its loop, where there are as many blocks of threads."""
    loops = BLOCKS.findall(text)
    if len(loops) != 1 or loops[0][1] != grid or "continue;" in text[BLOCKS.search(text).end() :]:
        return text
    return BLOCKS.sub(r"const int \1 = min((int)blockIdx.x, \2 - 1);\n{", text)


def whole_vectors(text: str, declared: list[tuple[str, str]], values: list[list]) -> str:
    """Without the question whether rows of an output end within a vector, where at all sizes they do not."""
    vector, sizes = constants(text).get("VECTOR"), next((j for j, (t, _) in enumerate(declared) if t == "Sizes"), None)
    for j, (type_, name) in enumerate(declared):
        if type_ != "Strides" or not name.startswith("ys") or not isinstance(vector, int) or sizes is None:
            continue
        rows = [struct.unpack("<5q", v[j]) for v in values]
        widths = [struct.unpack("<13i", v[sizes])[7] for v in values]
        asked = re.search(rf"const bool wide{name[2:]} = VECTOR > 1 && operands\.{name}\.w == 1 && [^;]*;\n", text)
        if asked and vector > 1 and all(w % vector == 0 and r[4] == 1 for w, r in zip(widths, rows)):
            if not any(n % vector for row in rows for n in row[:4]):
                text = text.replace(asked[0], "\n").replace(f"wide{name[2:]} && count == VECTOR", "true")
                # What is shorter now must not be unrolled: the kernel is to be the one that was measured.
                text = re.sub(
                    r"(?<!unroll 1)\n(\s*)(for \(int wg = 0; wg < WRITERS)", r"\n#pragma unroll 1\n\1\2", text
                )
    return text


def merge(body: str, parameters: list[Parameter]) -> tuple[str, list[Parameter]]:
    """Parameters that are one formula become one, constants go into the text; the others get names that say what they are."""
    renamed: dict[str, str] = {}
    kept: dict[tuple, Parameter] = {}
    taken = set(re.findall(r"[A-Za-z_]\w*", body)) - {p.name for p in parameters}
    for p in parameters:
        if re.search(rf"\b(?:int|long long|unsigned|float|double|tf_index) (?:[^;(){{}}]*, )?{p.name} =", body):
            kept[p.type, p.value, p.name] = p  # a variable of the kernel has this name as well
            continue
        if p.constant is not None and p.type in ("int", "long long"):
            renamed[p.name] = str(p.constant) if p.constant >= 0 else f"({p.constant})"
            continue
        key = (p.type, p.value)
        if key not in kept:
            name = _name_of(p, taken)
            taken.add(name)
            kept[key] = Parameter(p.type, name, p.value, p.constant)
        renamed[p.name] = kept[key].name
    body = re.sub(rf"\b(?:{'|'.join(map(re.escape, renamed))})\b", lambda m: renamed[m[0]], body) if renamed else body
    for key, p in list(kept.items()):
        if p.type == "tf_divisor" and p.constant is not None:
            body = re.sub(rf"tf_quotient_of\((\w+|\(int\)[\w.]+), {p.name}\)", rf"(\1 / {p.constant})", body)
            if not re.search(rf"\b{p.name}\b", body):
                del kept[key]
    return body, [p for p in kept.values() if re.search(rf"\b{p.name}\b", body)]


def _name_of(p: Parameter, taken: set) -> str:
    formula = p.value
    if p.type == "tf_divisor":
        formula = formula.removeprefix("divisor(").removesuffix(")")
    words = re.fullmatch(r"[a-z_]\w*(?: \* [a-z_]\w*)*", formula)
    name = formula.replace(" * ", "_x_") if words and p.type in ("int", "long long", "tf_divisor") else None
    if name and p.type == "tf_divisor":
        name = "per_" + name
    if not name or name in taken or len(name) > 34:
        return p.name
    return name
