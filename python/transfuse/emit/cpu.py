"""Files for the CPU: the rewritten graph in PyTorch's operators, its convolutions and box sums in inline C++."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import numpy as np

from transfuse import library
from transfuse.emit import functions, header
from transfuse.emit.cpu_text import BATCH_NORM_IN_FP32, CONVOLVE, DIFFERENTIATED, RUNTIME, SOURCE
from transfuse.emit.formula import Statement, Unstated, python_of, scalar
from transfuse.emit.model import as_written, lines_of
from transfuse.emit.model_class import model_class
from transfuse.emit.runtime import BATCH_NORM, helpers
from transfuse.emit.sizes import Sized, samples, sized

SAMPLES = 24
LINE = re.compile(r"\s*%(\w+) = (\w+)\(([^)]*)\)(.*)")
NUMBER = re.compile(r"-?(?:\d+\.?\d*(?:e[+-]?\d+)?|inf)")
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
UNARY = {"neg", "abs", "exp", "log", "sqrt", "rsqrt", "square", "sin", "cos", "relu", "sigmoid", "tanh", "silu", "mish",
         "selu", "erf", "hardswish", "hardsigmoid", "reciprocal"}  # fmt: skip
REDUCED = {"sum": "sum.dim_IntList", "mean": "mean.dim", "amax": "amax", "amin": "amin", "logsumexp": "logsumexp"}


@dataclass
class Node:
    name: str
    op: str
    arguments: list[str]  # %names and numbers
    keys: dict[str, list]  # numbers of each attribute
    lists: set[str]


def parsed(text: str) -> tuple[list[Node], list[str]]:
    nodes = []
    for line in text.split("\n"):
        if match := LINE.match(line):
            keys = {k: [float(n) for n in NUMBER.findall(v)] for k, v in re.findall(r"(\w+)=(\S+)", match[4])}
            lists = {k for k, v in re.findall(r"(\w+)=(\S+)", match[4]) if v.startswith("[")}
            nodes.append(Node(match[1], match[2], [a.strip() for a in match[3].split(",") if a.strip()], keys, lists))
    return nodes, re.findall(r"%(\w+)", text.rpartition("return ")[2])


def _shapes(text: str) -> list[list[int]]:
    """Of every value of the graph as written."""
    head = text.rpartition("return ")[0]
    values = ", ".join(f"%{name}" for name in re.findall(r"%(\w+) = (?!input|param)", head))
    return [
        [int(n) for n in re.findall(r"\d+", shape.partition("[")[2])]
        for shape in library.infer(f"{head}return {values}\n}}\n")
    ]


class Printer:
    """Statements of a rewritten graph whose numbers are formulas of the sizes."""

    def __init__(self, sized: Sized, names: list[str]):
        leaves = re.findall(r"%(\w+) = (?:input|param) ", sized.region.text)
        self.names = dict(zip(leaves, names))
        self.small = {leaf for i, leaf in enumerate(leaves) if i not in sized.region.inputs}  # of parameters alone
        self.parameters = set(self.small)
        texts = []
        for sizes in [sized.example, *samples(sized.symbols, SAMPLES, 1, False)]:
            text = library.summary(sized.text(sizes), "cpu")["rewritten"]
            texts.append((sizes, parsed(text)))
        alike = lambda p: [(n.name, n.op, len(n.arguments), [(k, len(v)) for k, v in n.keys.items()]) for n in p[0]]  # noqa: E731
        same = [(sizes, p) for sizes, p in texts if alike(p) == alike(texts[0][1])]
        if len(same) < SAMPLES // 2:
            raise Unstated("the rewritten graph is another one at other sizes")
        self.graphs = [p[0] for _, p in same]
        self.outputs = same[0][1][1]
        self.statement = Statement({s.name: np.array([sizes[s.name] for sizes, _ in same]) for s in sized.symbols})
        shapes = [_shapes(sized.text(sizes)) for sizes, _ in same]
        for v, shape in enumerate(shapes[0]):
            for axis in range(len(shape)):
                self.statement.extent(f"extent_{v}_{axis}", [s[v][axis] for s in shapes])
        self.lines: list[str] = []

    def printed(self) -> list[str]:
        for i, node in enumerate(self.graphs[0]):
            series = [graph[i] for graph in self.graphs]
            name = f"t{node.name}" if node.name.isdigit() else node.name
            of = [a[1:] for a in node.arguments if a.startswith("%")]
            if all(a in self.small for a in of):
                self.small.add(node.name)
            self.lines.append(f"{name} = {self._statement(node, series)}")
            self.names[node.name] = name
        results = ", ".join(self.names[o] for o in self.outputs)
        return [*self.lines, f"return [{results}]"]

    def _number(self, values: list[float]) -> str:
        if all(v == values[0] for v in values):
            return repr(int(values[0])) if float(values[0]).is_integer() and abs(values[0]) < 1e15 else repr(values[0])
        if all(float(v).is_integer() for v in values):
            return python_of(self.statement.state([int(v) for v in values]).text, self.statement.named)
        formula = python_of(scalar(self.statement, values, False), self.statement.named, whole=False)
        return f"({formula})"

    def _list(self, series: list[Node], key: str, default: int, count: int) -> str:
        if key not in series[0].keys:
            return "[" + ", ".join([str(default)] * count) + "]"
        return (
            "["
            + ", ".join(self._number([n.keys[key][i] for n in series]) for i in range(len(series[0].keys[key])))
            + "]"
        )

    def _argument(self, series: list[Node], i: int) -> str:
        text = series[0].arguments[i]
        if text.startswith("%"):
            name, node = self.names[text[1:]], series[0]
            if text[1:] not in self.small:
                return name
            large = [a for a in node.arguments if a.startswith("%") and a[1:] not in self.small]
            if large:  # beside a tensor of the model; a kernel takes what it is given
                return name if node.op == "lattice" else f"{name}.to({self.names[large[0][1:]]}.dtype)"
            return f"{name}.double()" if text[1:] in self.parameters else name
        return self._number([float(n.arguments[i]) for n in series])

    def _statement(self, node: Node, series: list[Node]) -> str:
        given = [self._argument(series, i) for i in range(len(node.arguments))]
        whole = lambda key: [int(v) for v in node.keys[key]]  # noqa: E731
        op = node.op
        if op == "full":  # among what is made of parameters
            value = self._number([n.keys["value"][0] for n in series])
            return f"torch.full({self._list(series, 'shape', 0, 0)}, {value}, dtype=torch.float64)"
        if op in INFIX and not node.keys and len(given) == 2:
            return f"{given[0]} {INFIX[op]} {given[1]}"
        if op in UNARY and not node.keys:
            return f"torch.ops.aten.{op}({given[0]})"
        if op in REDUCED and set(node.keys) <= {"dims", "keepdim", "finite"}:
            keepdim = bool(node.keys.get("keepdim", [0])[0])
            reduced = f"torch.ops.aten.{REDUCED[op]}({given[0]}, {whole('dims')}, {keepdim})"
            # Of a softmax: a row with an infinity is nan throughout.
            return f"{reduced}.nan_to_num(*3 * [math.nan])" if "finite" in node.keys else reduced
        if op == "reshape":
            return f"{given[0]}.reshape({self._list(series, 'shape', 0, 0)[1:-1] or '()'})"
        if op == "permute":
            return f"{given[0]}.permute({', '.join(map(str, whole('order')))})"
        if op == "clamp":
            bound = lambda key: self._number([n.keys[key][0] for n in series]) if key in node.keys else "None"  # noqa: E731
            return f"torch.ops.aten.clamp({given[0]}, {bound('lo')}, {bound('hi')})"
        if op == "gelu" and not node.keys:
            return f"torch.ops.aten.gelu({given[0]})"
        if op == "max_pool" and set(node.keys) <= {"kernel", "stride"}:
            return (
                f"torch.ops.aten.max_pool{len(node.keys['kernel'])}d({given[0]}, {whole('kernel')}, {whole('stride')})"
            )
        if op == "taps":
            matrix, rows = node.keys["matrix"], int(node.keys["rows"][0])
            if any(n.keys["matrix"] != matrix for n in series):
                raise Unstated("a matrix of taps that depends on sizes")
            width = len(matrix) // rows
            text = [[int(v) if v.is_integer() else v for v in matrix[r * width : (r + 1) * width]] for r in range(rows)]
            return f"taps({given[0]}, {int(node.keys['axis'][0])}, {text})"
        if op == "lattice":
            count = len(node.keys["out"])
            lists = [
                self._list(series, k, d, count)
                for k, d in (("up", 1), ("down", 1), ("dil", 1), ("offset", 0), ("out", 1))
            ]
            bias = given[2] if len(given) > 2 else "None"
            return f"lattice({given[0]}, {given[1]}, {bias}, {int(node.keys['groups'][0])}, {', '.join(lists)})"
        if op == "box_sums":
            ranges, at = [], 0
            for count in whole("counts"):
                items = [
                    "("
                    + ", ".join(self._number([n.keys[k][at + i] for n in series]) for k in ("los", "his", "steps"))
                    + ")"
                    for i in range(count)
                ]
                ranges.append("[" + ", ".join(items) + "]")
                at += count
            return f"box_sums({given[0]}, {whole('dims')}, [{', '.join(ranges)}])"
        raise Unstated(f"{op} is not written for the CPU")


@dataclass
class Part:
    """A region of the model in one mode; lines: its rewritten graph, or None where it is computed as written."""

    name: str
    sized: Sized
    names: list[str]
    lines: list[str] | None
    summary: dict

    @property
    def outputs(self) -> int:
        return self.sized.region.text.rpartition("return ")[2].count("%")

    @property
    def call(self) -> str:
        return f"{self.name.capitalize()}.apply"

    @property
    def told(self) -> str:
        return ""

    @property
    def plain(self) -> bool:
        return False


def stated(mode, prefix: str) -> None:
    calls = {n.target: n for n in mode.cut.graph_module.graph.nodes if n.op == "call_module"}
    for i, region in enumerate(mode.cut.regions):
        at = sized(region, calls[region.name])
        names = [functions.leaf_name(n) for n in at.names]
        try:
            lines = Printer(at, names).printed()
        except Unstated:
            lines = None
        told = library.summary(at.text(at.example), "cpu")
        mode.parts.append(Part(prefix if len(mode.cut.regions) == 1 else f"{prefix}_{i}", at, names, lines, told))


def write(found, ref, modes) -> str:
    parts = [part for mode in modes for part in mode.parts]
    regions = [_region(part) for part in parts]
    model = model_class(found, ref, modes)
    sections = [
        header.header(found, ref, modes, "cpu"),
        "import ctypes\nimport math\n\nimport torch\nimport torch.nn as nn\nfrom torch.utils.cpp_extension import load_inline\n"
        + lines_of(ref.imports),
        f'# The kernels; sizes are run-time values.\nSOURCE = r"""{SOURCE}"""',
        RUNTIME.replace("@KERNELS@", hashlib.sha256(SOURCE.encode()).hexdigest()[:12]),
        CONVOLVE if any(part.lines is None for part in parts) else "",
        helpers("\n".join(regions), model).replace(BATCH_NORM, BATCH_NORM_IN_FP32),
        DIFFERENTIATED,
        *regions,
        lines_of(ref.helpers).strip("\n"),
        model,
    ]
    text = "\n\n".join(s.strip("\n") for s in sections if s.strip()) + "\n"
    return re.sub(r"\n+((?:class|def) )", r"\n\n\n\1", text)


def _region(part: Part) -> str:
    at, region = part.sized, part.sized.region
    given = ", ".join(part.names)
    expected = functions.wrapped_list(
        [
            f'("{n}", ({", ".join(functions.extent_text(e) for e in shape)}{"," if len(shape) == 1 else ""}))'
            for n, shape in zip(part.names, at.shapes)
        ],
        "            ",
    )
    symbols = [s.name for s in at.symbols]
    written = as_written(region.eager, [*part.names, *symbols][: len(part.names) + len(at.numbers)])
    rewritten = ""
    computed = f"{part.name}_as_written(convolve, *leaves)"
    if part.lines is not None:
        sizes = ", ".join(f"{part.names[s.leaf]}.shape[{s.axis}]" for s in at.symbols)
        body = "\n".join(f"    {line}" for line in part.lines)
        computed = f"{part.name}_rewritten(*leaves)"
        rewritten = (
            f"def {part.name}_rewritten({given}):\n"
            '    """What the rules of the derivation made of the model; parameters alone are computed with in double."""\n'
            f"    {', '.join(symbols)}{',' if len(symbols) == 1 else ''} = {sizes}{',' if len(symbols) == 1 else ''}\n{body}\n\n\n"
        )
    results = f"out = [y.to(leaves[0].dtype) for y in {computed}]"
    if part.outputs > region.differentiable:  # statistics: what adds them to the running ones rounds them
        results = f"""own, wide = leaves[0].dtype, torch.promote_types(leaves[0].dtype, torch.float32)
        out = [y.to(own if i < {region.differentiable} else wide) for i, y in enumerate({computed})]
        ctx.mark_non_differentiable(*out[{region.differentiable}:])"""
    lines = "\n".join(f"    {line}" for line in written)
    return f'''{rewritten}def {part.name}_as_written(convolve, {given}):
    """In PyTorch's operators, convolutions apart: what backward differentiates."""
{lines}


class {part.name.capitalize()}(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *leaves):
        checked(
            leaves,
            [{expected}],
        )
        ctx.save_for_backward(*leaves)
        {results}
        return tuple(out)

    @staticmethod
    def backward(ctx, *gradients):
        return differentiated({part.name}_as_written, ctx.saved_tensors, gradients[:{region.differentiable}])'''
