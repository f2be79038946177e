"""One program of a file: kernels whose every argument is a formula of the sizes."""

from __future__ import annotations

import itertools
import re
import struct
from dataclasses import dataclass, field, replace

import numpy as np

from transfuse import library
from transfuse.emit.formula import Statement, Unstated, scalar
from transfuse.emit.text.values import constants
from transfuse.emit.sizes import Sized, grains, samples

SAMPLES = 30  # sizes at which every formula must hold
FLOAT = re.compile(r"(?<![\w.])(?:\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)f?(?![\w.])")
WIDTH = {"int": 4, "unsigned": 4, "float": 4, "long long": 8, "double": 8, "tf_divisor": 8}


@dataclass
class Parameter:
    """Of a kernel. `value`: host code that gives it; a pointer, a number, or the braces of a struct."""

    type: str
    name: str
    value: str
    constant: int | None = None


@dataclass
class Kernel:
    name: str
    text: str  # the whole source, entry renamed, signature as `parameters` say
    parameters: list[Parameter]


@dataclass
class Launch:
    kernel: Kernel
    grid: str
    block: int
    shared: int
    cluster: int
    early: bool
    note: str


@dataclass
class Program:
    kernels: list[Kernel]
    launches: list[Launch]
    extents: list[tuple[str, str]]  # named, and their formulas
    workspace: list[tuple[str, str]]  # begin of each region of it: name and formula
    bytes: str
    outputs: list[tuple[str, list[str]]]  # dtype and extents
    grains: dict[str, int]
    notes: list[str] = field(default_factory=list)
    entries: list[str] = field(default_factory=list)  # what the generators call the kernels
    largest: list[str] = field(default_factory=list)  # elements of the largest tensors: offsets have 32 bits
    flops: str = ""  # of the convolutions that are computed in TF32


def state(
    sized: Sized, options: str, aligned: bool, dtype: str = "f32", prefix: str = "", fixed: tuple[str, ...] = ()
) -> Program:
    """The program that was chosen for the example's sizes (or, if not `aligned`, for odd ones like them). The sizes called
    `fixed` are always the example's."""
    example = sized.example if aligned else {s.name: s.example | 1 for s in sized.symbols}
    kept = {name: example[name] for name in fixed}

    def ask(sizes):
        sizes.update(kept)
        return library.stated(sized.text(example, dtype), sized.text(sizes, dtype), options)

    if len(kept) == len(sized.symbols):
        return _counted(_Stating(sized, [(example, ask(dict(example)))], prefix).program({}))
    found = _ask(ask, itertools.chain([example], samples(sized.symbols, SAMPLES, 1, aligned)))
    program = _Stating(sized, found, prefix).program(grains(sized.symbols, aligned))
    # What is rounded up changes at multiples of the divisors: the formulas must hold there as well, or others be found.
    for turn in (2, 3):
        edges = sorted(_divisors(program))
        found += _ask(ask, samples(sized.symbols, SAMPLES, turn, aligned, edges), found[0][1])
        program = _Stating(sized, found, prefix).program(grains(sized.symbols, aligned))
        if sorted(_divisors(program)) == edges:
            break
    return _counted(program)


COUNT = re.compile(r"count_(\d+)")


def _counted(program: Program) -> Program:
    """Numbers in names follow the order in which launches use them: so programs of several builds read alike."""
    texts = [
        text for launch in program.launches for text in [launch.grid, *(p.value for p in launch.kernel.parameters)]
    ]
    order: dict[str, int] = {}
    for text in [*texts, *(f for _, f in program.workspace), program.bytes, *(f for _, f in program.extents)]:
        for number in COUNT.findall(text):
            order.setdefault(number, len(order) + 1)
    for name, _ in program.extents:
        for number in COUNT.findall(name):
            order.setdefault(number, len(order) + 1)

    def named(text: str) -> str:
        return COUNT.sub(lambda m: f"count_{order.get(m[1], m[1])}", text)

    def kernel(k: Kernel) -> Kernel:
        own = [Parameter(p.type, named(p.name), named(p.value), p.constant) for p in k.parameters]
        words = [p.name for p in k.parameters if COUNT.search(p.name)]  # members of a struct may be called so too
        text = re.sub(rf"(?<![.\w])(?:{'|'.join(words)})\b", lambda m: named(m[0]), k.text) if words else k.text
        return Kernel(k.name, text, own)

    pairs = lambda list_: [(named(name), named(formula)) for name, formula in list_]  # noqa: E731
    return replace(
        program,
        kernels=[kernel(k) for k in program.kernels],
        launches=[
            replace(launch, kernel=kernel(launch.kernel), grid=named(launch.grid)) for launch in program.launches
        ],
        extents=pairs(program.extents),
        workspace=pairs(program.workspace),
        bytes=named(program.bytes),
        outputs=[(dtype, [named(e) for e in shape]) for dtype, shape in program.outputs],
        largest=[named(text) for text in program.largest],
        flops=named(program.flops),
    )


def _ask(ask, sizes, like=None) -> list[tuple[dict, dict]]:
    """What the generators say at these sizes, as far as the kernels are alike (and `like` those)."""
    by_text: dict = {}
    reason = "no sizes"
    for at in sizes:
        try:
            made = ask(at)
        except library.CompileError as error:
            reason = error
            continue
        if max(int(np.prod(shape, dtype=object)) for shape in made["extents"]) < (1 << 31) - (1 << 16):
            by_text.setdefault(_skeleton(made), []).append((at, made))
    if like is not None:
        return by_text.get(_skeleton(like), [])
    found = max(by_text.values(), key=len, default=[])
    if len(found) < SAMPLES // 2:
        raise Unstated(f"the kernels are alike at {len(found)} sizes of {SAMPLES} only ({reason})")
    return found


def _divisors(program: Program) -> set[int]:
    texts = [f for _, f in program.extents + program.workspace] + [l.grid for l in program.launches]
    texts += [p.value for k in program.launches for p in k.kernel.parameters]
    return {
        int(d) for text in texts for d in re.findall(r"(?:ceil_div\([^(),]*, |/ )(\d+)", text) if 1 < int(d) < 4096
    } or {16}


def _skeleton(made: dict) -> tuple:
    sources = tuple(FLOAT.sub("#", source["text"]) for source in made["sources"])
    launches = tuple(
        (l["source"], l["cluster"], l["early"], tuple(_shape(a) for a in l["arguments"])) for l in made["launches"]
    )
    return sources, launches


def _shape(argument):
    return len(argument) if isinstance(argument, str) else tuple(argument[:2])


class _Stating:
    def __init__(self, sized: Sized, found: list, prefix: str):
        self.sized, self.prefix = sized, prefix
        self.made = [made for _, made in found]
        names = [s.name for s in sized.symbols]
        self.statement = Statement({n: np.array([sizes[n] for sizes, _ in found]) for n in names})
        self._extents()
        self.statement.learn(self._integers())

    def _integers(self) -> list[tuple]:
        """Every whole number the launches take, as series."""
        series = set()
        for i, launch in enumerate(self.made[0]["launches"]):
            series.add(tuple(made["launches"][i]["grid"][0] for made in self.made))
            source = self.made[0]["sources"][launch["source"]]
            head = re.search(rf"{source['entry']}\(([^)]*)\) \{{", source["text"])
            types = [_split(item)[0] for item in head[1].split(",")]
            for j, argument in enumerate(launch["arguments"]):
                if not isinstance(argument, str):
                    continue
                data = [bytes.fromhex(made["launches"][i]["arguments"][j]) for made in self.made]
                if types[j] == "tf_divisor":
                    series.add(tuple(_divided(data)))
                    continue
                narrow = len(data[0]) % 8 or re.search(rf"^struct {types[j]} {{\s*int ", source["text"], re.M)
                width = 4 if narrow else 8
                for at in range(0, len(data[0]) if types[j] not in ("float", "double") else 0, width):
                    series.add(tuple(int.from_bytes(d[at : at + width], "little", signed=True) for d in data))
        return [s for s in series if max(s) < 1 << 40]

    def _extents(self) -> None:
        """The axes of outputs first: they have names a reader knows; then those of everything in between."""
        first = self.made[0]
        shapes = [[shape for _, shape in made["outputs"]] + made["extents"] for made in self.made]
        for v, shape in enumerate(shapes[0]):
            spatial = {3: ["length"], 4: ["height", "width"], 5: ["depth", "height", "width"]}.get(len(shape), [])
            names = ["batch", "channels", *spatial] if spatial else [f"axis{a}" for a in range(len(shape))]
            outer = "out" if v < len(first["outputs"]) else "mid"
            for axis in range(len(shape)):
                if all(len(s[v]) == len(shape) for s in shapes):
                    self.statement.extent(f"{outer}_{names[axis]}", [s[v][axis] for s in shapes])

    def program(self, grain: dict[str, int]) -> Program:
        first = self.made[0]
        begins = self._workspace()
        kernels, launches, taken = {}, [], set()
        for i, launch in enumerate(first["launches"]):
            source = first["sources"][launch["source"]]
            values = [[_plain(a) for a in made["launches"][i]["arguments"]] for made in self.made]
            text, parameters = self._parameters(launch["source"], values, begins)
            grid = self.statement.state([made["launches"][i]["grid"][0] for made in self.made]).text
            text = _a_block_each(text, grid)
            key = (text, tuple((p.type, p.name) for p in parameters))
            if key not in kernels:
                name = base = self.prefix + re.sub(r"^(tf|transfuse)_|\d+$", "", source["entry"]).removesuffix("0")
                while name in taken:
                    name = f"{base}_{len(taken)}"
                taken.add(name)
                kernels[key] = Kernel(name, text.replace("@ENTRY@", name), parameters)
            kernel = Kernel(kernels[key].name, kernels[key].text, parameters)
            if any(made["launches"][i]["grid"][1:] != [1, 1] for made in self.made):
                raise Unstated("a grid of several axes")
            block = launch["block"]
            launches.append(
                Launch(
                    kernel,
                    grid,
                    block[0] * block[1] * block[2],
                    launch["shared"],
                    launch["cluster"],
                    launch["early"],
                    launch["note"],
                )
            )
        outputs = [
            (dtype, [self.statement.state([m["outputs"][j][1][a] for m in self.made]).text for a in range(len(shape))])
            for j, (dtype, shape) in enumerate(first["outputs"])
        ]
        return Program(
            list(kernels.values()),
            launches,
            self.statement.named,
            list(begins.values()),
            self.bytes,
            outputs,
            grain,
            first["notes"],
            [source["entry"] for source in first["sources"]],
            self._largest(),
            self._flops(),
        )

    def _flops(self) -> str:
        texts = [source["text"] for source in self.made[0]["sources"]]
        rounds = [i for i, text in enumerate(texts) if "tf32.tf32" in text and constants(text).get("TERMS") == 1]
        launches = [i for i, launch in enumerate(self.made[0]["launches"]) if launch["source"] in rounds]
        if not launches:
            return ""
        return self.statement.state([max(m["launches"][i]["flops"] for i in launches) for m in self.made]).text

    def _largest(self) -> list[str]:
        counts = {tuple(int(np.prod(m["extents"][v])) for m in self.made) for v in range(len(self.made[0]["extents"]))}
        table = np.array(sorted(counts))
        return sorted({self.statement.state(table[row]).text for row in set(table.argmax(axis=0).tolist())})

    # Workspace: regions one behind another ------------------------------------------------------------------------

    def _workspace(self) -> dict[tuple, tuple[str, str]]:
        offsets = set()
        for i, launch in enumerate(self.made[0]["launches"]):
            for j, argument in enumerate(launch["arguments"]):
                if not isinstance(argument, str) and argument[0] == "workspace":
                    offsets.add(tuple(made["launches"][i]["arguments"][j][2] for made in self.made))
        total = tuple(made["workspace"] for made in self.made)
        ordered = sorted(offsets)
        if ordered and any(ordered[0]):
            raise Unstated("the workspace does not begin at 0")
        begins, text = {}, ""
        for k, offset in enumerate([*ordered, total]):
            text = self._behind(ordered[:k], offset) if k else ""
            if k < len(ordered):
                begins[offset] = (f"at_{k}", text)
        self.bytes = text if ordered else "0"
        return begins

    def _behind(self, others: list[tuple], offset: tuple) -> str:
        """A place in the workspace: so far behind the one before it, or, where that lies within a larger region, an earlier one."""
        for k in reversed(range(len(others))):
            size = [b - a for a, b in zip(others[k], offset)]
            if min(size) < 0:
                raise Unstated("regions of the workspace change places")
            try:
                return f"at_{k} + {self.statement.state(size).text}"
            except Unstated as error:
                reason = error
        raise reason

    # Parameters of one launch -------------------------------------------------------------------------------------

    def _parameters(self, source: int, values: list[list], begins) -> tuple[str, list[Parameter]]:
        texts = [made["sources"][source]["text"] for made in self.made]
        entry = self.made[0]["sources"][source]["entry"]
        text, literals = self._literals(texts)
        head = re.search(rf'extern "C" __global__ void (__launch_bounds__\([^)]*\)) {entry}\(([^)]*)\) \{{', text)
        alias = {}
        alias.update({m[2]: m[1] for m in re.finditer(r"^typedef (float|double|tf_half) (\w+);", text, re.M)})
        alias.update({m[1]: m[2] for m in re.finditer(r"^#define (\w+) (float|double)$", text, re.M)})
        declared = [_split(item) for item in head[2].split(",")] if head[2] else []
        structs = {m[1]: m[2] for m in re.finditer(r"^struct (\w+) \{([^{}]*)\};", text, re.M)}
        parameters = []
        for j, (type_, name) in enumerate(declared):
            series = [v[j] for v in values]
            if isinstance(series[0], tuple) and len(series[0]) > 3:
                parameters.append(Parameter(type_, name, self._boxes(series, begins)))
            elif isinstance(series[0], tuple):
                parameters.append(Parameter(type_, name, self._pointer(series, begins)))
            elif type_ in structs:
                parameters.append(Parameter(type_, name, self._struct(_fields(structs[type_]), series)))
            else:
                parameters.append(self._number(alias.get(type_, type_), name, series))
        parameters += literals
        text = _whole_vectors(text, declared, values)
        head = re.search(rf'extern "C" __global__ void (__launch_bounds__\([^)]*\)) {entry}\(([^)]*)\) \{{', text)
        before, body = text[: head.start()], text[head.end() :]
        if entry.startswith("tf_"):
            results = (
                self.sized.region.differentiable
            )  # outputs behind them are statistics, fp32 whatever the leaves are
            kinds = [v[0] if isinstance(v, tuple) and (v[0] == "leaf" or v[1] < results) else "" for v in values[0]]
            body = _stored(body, parameters, kinds)
            if re.search(r"const STORED\* (\w+) = [^;]*;.*?\btf_copy\([^;]*, \1 ", body, re.S):
                before += CONVERTING_COPY
        body = _steps_known(body, parameters)
        body, parameters = _merge(body, parameters)
        if "wgmma" in text:  # other GPUs take the general kernels, and see none of this
            body = f"\n#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n{body.strip()[:-1].rstrip()}\n#endif\n}}\n"
        signature = ", ".join(f"{p.type} {p.name}" for p in parameters)
        return f"{before}__global__ void {head[1]} @ENTRY@({signature}) {{{body}", parameters

    def _pointer(self, series, begins) -> str:
        """An address, whose type is the parameter's; in the workspace a number."""
        kind, position, _ = series[0]
        if kind == "workspace":
            return begins[tuple(s[2] for s in series)][0]
        base = f"{'leaf' if kind == 'leaf' else 'out'}[{position}]"
        shift = self.statement.state([s[2] for s in series])
        return base if shift.constant == 0 else f"(char*){base} + {shift.text}"

    def _boxes(self, series, begins) -> str:
        """A tensor map: extents, strides and the box."""
        if any(s[6] for s in series):
            raise Unstated("a tensor map that rounds")
        at = self._pointer([s[:3] for s in series], begins)
        if series[0][0] == "workspace":
            at = f"(void*){at}"
        lists = [
            "{"
            + ", ".join(self.statement.state([s[k][i] for s in series]).text for i in range(len(series[0][k])))
            + "}"
            for k in (3, 5, 4)
        ]
        return f"boxes_of({at}, {', '.join(lists)})"

    def _struct(self, fields, series) -> str:
        at, parts = 0, []
        for type_, count in fields:
            width = WIDTH[type_]
            items = []
            for _ in range(count):
                items.append(self._scalar(type_, [s[at : at + width] for s in series]))
                at += width
            parts.append(items[0] if count == 1 else "{" + ", ".join(items) + "}")
        return "{" + ", ".join(parts) + "}"

    def _scalar(self, type_: str, series: list[bytes]) -> str:
        if type_ in ("float", "double"):
            numbers = [struct.unpack("<f" if type_ == "float" else "<d", s)[0] for s in series]
            if len(set(numbers)) == 1:
                return repr(numbers[0])
            return scalar(self.statement, numbers, type_ == "float")
        return self.statement.state([int.from_bytes(s, "little", signed=type_ != "unsigned") for s in series]).text

    def _number(self, type_: str, name: str, series: list[bytes]) -> Parameter:
        if type_ == "tf_divisor":
            found = self.statement.state(_divided(series))
            return Parameter(type_, name, f"divisor({found.text})", found.constant)
        if type_ in ("float", "double"):
            return Parameter(type_, name, self._scalar(type_, series))
        found = self.statement.state([int.from_bytes(s, "little", signed=True) for s in series])
        return Parameter(type_, name, found.text, found.constant)

    def _literals(self, texts: list[str]) -> tuple[str, list[Parameter]]:
        """Numbers in the text that depend on the sizes become parameters."""
        if len(set(texts)) == 1:
            return texts[0], []
        spots = [list(FLOAT.finditer(text)) for text in texts]
        names: dict[tuple, Parameter] = {}
        out, last = [], 0
        for k, match in enumerate(spots[0]):
            series = tuple(s[k][0] for s in spots)
            if len(set(series)) == 1:
                continue
            if "__global__" in texts[0][match.end() :]:
                raise Unstated("a function the kernel calls has a number in it that depends on the sizes")
            single = match[0].endswith("f")
            if series not in names:
                value = scalar(self.statement, [float(s.rstrip("f")) for s in series], single)
                names[series] = Parameter("float" if single else "double", f"scale{len(names)}", value)
            out += [texts[0][last : match.start()], names[series].name]
            last = match.end()
        return "".join([*out, texts[0][last:]]), list(names.values())


# The copy engine moves whole words; of 16 bits a thread makes the float it would have waited for.
CONVERTING_COPY = "template <class S> TF_FUNCTION void tf_copy(float* to, const S* from) { *to = (float)*from; }\n"


def _stored(body: str, parameters: list[Parameter], kinds: list[str]) -> str:
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
    return body


def _steps_known(body: str, parameters: list[Parameter]) -> str:
    """Strides that are numbers, where the kernel itself asks for them."""
    for p in parameters:
        if p.type == "Strides" and re.fullmatch(r"\{\d+(?:, \d+){4}\}", p.value):
            steps = dict(zip("ncdhw", re.findall(r"\d+", p.value)))
            body = re.sub(rf"(?<![\w.]){p.name}\.([ncdhw])\b", lambda m: steps[m[1]], body)  # noqa: B023
    return body


def _plain(argument):
    if isinstance(argument, str):
        return bytes.fromhex(argument)
    return tuple(tuple(a) if isinstance(a, list) else a for a in argument)


def _split(declaration: str) -> tuple[str, str]:
    type_, _, name = declaration.strip().rpartition(" ")
    return type_.strip(), name


BLOCKS = re.compile(r"for \(int (\w+) = blockIdx\.x; \1 < (\d+); \1 \+= gridDim\.x\) \{")


def _a_block_each(text: str, grid: str) -> str:
    """A loop over blocks of work without its loop, where there are as many blocks of threads."""
    loops = BLOCKS.findall(text)
    if len(loops) != 1 or loops[0][1] != grid or "continue;" in text[BLOCKS.search(text).end() :]:
        return text
    return BLOCKS.sub(r"const int \1 = min((int)blockIdx.x, \2 - 1);\n{", text)


def _whole_vectors(text: str, declared: list[tuple[str, str]], values: list[list]) -> str:
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


def _fields(body: str) -> list[tuple[str, int]]:
    fields = []
    for line in filter(str.strip, body.split(";")):
        match = re.match(r"\s*(long long|\w+)\s+(.*)", line.strip(), re.S)
        for item in match[2].split(","):
            size = re.search(r"\[(\d+)\]", item)
            fields.append((match[1], int(size[1]) if size else 1))
    return fields


def _divided(series: list[bytes]) -> list[int]:
    """The divisors behind tf_divisor arguments; with 64-bit indices they are the numbers themselves."""
    wide = any(int.from_bytes(s[4:], "little") > 31 or (s[4:] == b"\0\0\0\0" and s[:4] != b"\1\0\0\0") for s in series)
    return [int.from_bytes(s, "little") if wide else _divisor(*struct.unpack("<II", s)) for s in series]


def _divisor(magic: int, shift: int) -> int:
    """The divisor behind a magic number: magic = ⌊2^32 (2^shift − d) / d⌋ + 1."""
    d = round((1 << (32 + shift)) / ((1 << 32) + magic - 1))
    for candidate in (d - 1, d, d + 1):
        if candidate > 0 and ((1 << 32) * ((1 << shift) - candidate)) // candidate + 1 == magic:
            return candidate
    raise Unstated("a divisor that is none")


def _merge(body: str, parameters: list[Parameter]) -> tuple[str, list[Parameter]]:
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
