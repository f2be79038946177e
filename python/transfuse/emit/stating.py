"""What the generators said at many sizes becomes one program: each number of a launch a formula of the sizes."""

from __future__ import annotations

import re
import struct

import numpy as np

from transfuse.emit.formula import Statement, Unstated, scalar
from transfuse.emit.launches import Kernel, Launch, Parameter, Program
from transfuse.emit.kernel_text import CONVERTING_COPY, a_block_each, in_fp32, merge, steps_known, stored, whole_vectors
from transfuse.emit.sizes import Sized
from transfuse.emit.text.values import constants

FLOAT = re.compile(r"(?<![\w.])(?:\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)f?(?![\w.])")
WIDTH = {"int": 4, "unsigned": 4, "float": 4, "long long": 8, "double": 8, "tf_divisor": 8}


KEPT = re.compile(r"(\d+) of (\d+) rows kept")


class Stating:
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
            text = a_block_each(text, grid)
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
            self._tf32(),
            self._beyond(),
        )

    def _beyond(self) -> list[str]:
        """Where a block would keep more rows than its text has room for: how many it does the launches' notes say."""
        rooms = {}
        for i, launch in enumerate(self.made[0]["launches"]):
            if match := KEPT.search(launch["note"]):
                kept = [int(KEPT.search(made["launches"][i]["note"])[1]) for made in self.made]
                rooms[self.statement.state(kept).text] = match[2]
        return [f"{kept} > {room}" for kept, room in rooms.items() if not kept.isdigit()]

    def _tf32(self) -> bool:
        texts = [source["text"] for source in self.made[0]["sources"]]
        return any("tf32.tf32" in text and constants(text).get("TERMS") == 1 for text in texts)

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
        kernel = re.compile(rf'extern "C" __global__ void (__launch_bounds__\([^)]*\)) {entry}\(([^)]*)\) \{{')
        head = kernel.search(text)
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
        text = whole_vectors(text, declared, values)
        head = kernel.search(text)
        before, body = text[: head.start()], text[head.end() :]
        if entry.startswith("tf_"):
            # Outputs behind these are statistics, fp32 whatever the leaves are.
            results = self.sized.region.differentiable
            kinds = [v[0] if isinstance(v, tuple) and (v[0] == "leaf" or v[1] < results) else "" for v in values[0]]
            body = stored(body, parameters, kinds)
            behind = [isinstance(v, tuple) and v[0] == "output" and v[1] >= results for v in values[0]]
            body = in_fp32(body, [p for p, statistic in zip(parameters, behind) if statistic])
            if re.search(r"const STORED\* (\w+) = [^;]*;.*?\btf_copy\([^;]*, \1 ", body, re.S):
                before += CONVERTING_COPY
        body = steps_known(body, parameters)
        body, parameters = merge(body, parameters)
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
        """A tensor map: extents, the box, and strides where they do not follow from the extents; and what the copy does on the way."""
        at = self._pointer([s[:3] for s in series], begins)
        if series[0][0] == "workspace":
            at = f"(void*){at}"
        rounds, swizzle, size = series[0][6:]
        if any(s[6:8] != (rounds, swizzle) for s in series):
            raise Unstated("a tensor map that rounds or swizzles at some sizes")
        of = "<float>" if series[0][0] == "workspace" and size == 4 else ""  # sums are, whatever leaves are
        lists = [
            "{"
            + ", ".join(self.statement.state([s[k][i] for s in series]).text for i in range(len(series[0][k])))
            + "}"
            for k in ((3, 4) if all(_contiguous(s[3], s[5]) for s in series) else (3, 5, 4))
        ]
        manner = [str(swizzle), *(["11"] if rounds else [])] if rounds or swizzle else []  # as the driver numbers them
        return f"boxes_of{of}({at}, {', '.join([*lists, *manner])})"

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


def _contiguous(extents, strides) -> bool:
    """Whether axes w, h, d, n, c with these strides, in bytes, lie in memory as [n][c][d][h][w]; an axis of one place may have any."""
    width, height, depth, _, channels = extents
    row, plane, image, channel = strides
    size = row // width
    behind = size * width * height * depth
    return (
        row == size * width
        and (plane == row * height or depth == 1)
        and (image == behind * channels or extents[3] == 1)
        and (channel == behind or channels == 1)
    )


def _plain(argument):
    if isinstance(argument, str):
        return bytes.fromhex(argument)
    return tuple(tuple(a) if isinstance(a, list) else a for a in argument)


def _split(declaration: str) -> tuple[str, str]:
    type_, _, name = declaration.strip().rpartition(" ")
    return type_.strip(), name


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
