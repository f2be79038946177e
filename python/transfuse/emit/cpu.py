"""A file for CPUs: the rewritten graph of every size, statement by statement; its convolutions and box sums in inline C++."""

from __future__ import annotations

import re
from dataclasses import dataclass

from transfuse.emit import launches, runtime, runtime_cpu
from transfuse.emit.captured import Call, Way
from transfuse.emit.header import header
from transfuse.emit.model_class import Method, function, model_class, regions_table, served, shapes_of
from transfuse.emit.source import Reference
from transfuse.native import library
from transfuse.problem import Problem, ProblemError
from transfuse.run.region import Region

LINE = re.compile(r"\s*%(\w+) = (\w+)\(([^)]*)\)(.*)")
NUMBER = re.compile(r"-?(?:\d+\.?\d*(?:e[+-]?\d+)?|inf)")
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
UNARY = {"neg", "abs", "exp", "log", "sqrt", "rsqrt", "square", "sin", "cos", "relu", "sigmoid", "tanh", "silu", "mish",
         "selu", "erf", "hardswish", "hardsigmoid", "reciprocal", "gelu", "softplus"}  # fmt: skip
REDUCED = {"sum": "sum.dim_IntList", "mean": "mean.dim", "amax": "amax", "amin": "amin", "logsumexp": "logsumexp"}

IMPORTS = """import ctypes
import functools
import hashlib
import math
import warnings

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
"""


class Unsaid(Exception):
    """A graph that no statements are written for."""


@dataclass
class Node:
    name: str
    op: str
    arguments: list[str]  # %names and numbers
    keys: dict[str, list[float]]


def _text_at(region: Region, call: Call) -> str:
    """The region's graph at one size."""
    text = region.text
    for k in reversed(range(len(call.sizes))):
        text = text.replace(f"${k}", str(int(call.sizes[k])))
    shapes = iter([list(t.shape) for t in call.leaves])
    return re.sub(r"(= (?:input|param) \w+)\[[^]]*\]", lambda m: f"{m[1]}[{','.join(map(str, next(shapes)))}]", text)


class Printer:
    """Statements of a rewritten graph."""

    def __init__(self, region: Region, text: str, names: list[str]):
        leaves = re.findall(r"%(\w+) = (?:input|param) ", text)
        self.names = dict(zip(leaves, names))
        self.parameters = {leaf for i, leaf in enumerate(leaves) if i not in region.inputs}
        self.small = set(self.parameters)  # made of parameters alone
        rewritten = library.summary(text, "cpu")["rewritten"]
        self.lines: list[str] = []
        for line in rewritten.split("\n"):
            if match := LINE.match(line):
                keys = {k: [float(n) for n in NUMBER.findall(v)] for k, v in re.findall(r"(\w+)=(\S+)", match[4])}
                given = [a.strip() for a in match[3].split(",") if a.strip()]
                self._print(Node(match[1], match[2], given, keys))
        results = re.findall(r"%(\w+)", rewritten.rpartition("return ")[2])
        self.lines.append(f"return [{', '.join(self.names[o] for o in results)}]")

    def _print(self, node: Node) -> None:
        name = f"t{node.name}" if node.name.isdigit() else node.name
        text = self._statement(node)
        if all(a[1:] in self.small for a in node.arguments if a.startswith("%")):
            self.small.add(node.name)
        self.lines.append(f"{name} = {text}")
        self.names[node.name] = name

    def _argument(self, node: Node, text: str) -> str:
        if not text.startswith("%"):
            return _number(float(text))
        name = self.names[text[1:]]
        if text[1:] not in self.small:
            return name
        large = [a[1:] for a in node.arguments if a.startswith("%") and a[1:] not in self.small]
        if large:  # beside a tensor of the model; a kernel takes what it is given
            return name if node.op == "lattice" else f"{name}.to({self.names[large[0]]}.dtype)"
        return f"{name}.double()" if text[1:] in self.parameters else name

    def _statement(self, node: Node) -> str:
        op, keys = node.op, node.keys
        given = [self._argument(node, a) for a in node.arguments]
        whole = lambda key, default=0, count=0: [int(v) for v in keys.get(key, [default] * count)]  # noqa: E731
        if op == "full":  # among what is made of parameters
            return f"torch.full({whole('shape')}, {_number(keys['value'][0])}, dtype=torch.float64)"
        if op in INFIX and not keys and len(given) == 2:
            return f"{given[0]} {INFIX[op]} {given[1]}"
        if op in UNARY and not keys:
            return f"torch.ops.aten.{op}({given[0]})"
        if op in REDUCED and set(keys) <= {"dims", "keepdim", "finite"}:
            wide = op in ("sum", "mean") and node.arguments[0][1:] not in self.small
            reduced = f"torch.ops.aten.{REDUCED[op]}({given[0]}, {whole('dims')}, {bool(keys.get('keepdim', [0])[0])}"
            reduced += f", dtype=torch.float64).to({given[0]}.dtype)" if wide else ")"
            # Of a softmax: a row with an infinity is nan throughout.
            return f"{reduced}.nan_to_num(*3 * [math.nan])" if "finite" in keys else reduced
        if op == "reshape":
            return f"{given[0]}.reshape({', '.join(map(str, whole('shape'))) or '()'})"
        if op == "var":
            last = f"{whole('dims')}, correction={whole('correction', 1, 1)[0]}, keepdim={bool(keys.get('keepdim', [0])[0])}"
            return f"torch.ops.aten.var.correction({given[0]}.double(), {last}).to({given[0]}.dtype)"
        if op == "concat":
            return f"torch.cat([{', '.join(given)}], {whole('axis', 0, 1)[0]})"
        if op == "flip":
            return f"torch.flip({given[0]}, {whole('dims')})"
        if op == "slice" and {"axis", "end"} <= set(keys):
            last = [*whole("axis"), *whole("start", 0, 1), *whole("end"), *whole("step", 1, 1)]
            return f"torch.ops.aten.slice.Tensor({given[0]}, {', '.join(map(str, last))})"
        if op in ("leaky_relu", "elu") and len(keys) <= 1:
            return f"torch.ops.aten.{op}({', '.join([given[0], *(_number(v[0]) for v in keys.values())])})"
        if op in ("minimum", "maximum"):
            tensors, numbers = (
                [g for g, a in zip(given, node.arguments) if a.startswith("%") == t] for t in (True, False)
            )
            clamp = f"torch.ops.aten.clamp_{'max' if op == 'minimum' else 'min'}"
            return f"torch.{op}({', '.join(tensors)})" if not numbers else f"{clamp}({tensors[0]}, {numbers[0]})"
        if op == "expand":
            return f"{given[0]}.expand({whole('shape')})"
        if op == "permute":
            return f"{given[0]}.permute({', '.join(map(str, whole('order')))})"
        if op == "clamp":
            low, high = (_number(keys[key][0]) if key in keys else "None" for key in ("lo", "hi"))
            return f"torch.ops.aten.clamp({given[0]}, {low}, {high})"
        if op == "max_pool" and set(keys) <= {"kernel", "stride"}:
            return f"torch.ops.aten.max_pool{len(keys['kernel'])}d({given[0]}, {whole('kernel')}, {whole('stride')})"
        if op == "taps":
            rows, numbers = int(keys["rows"][0]), [_number(v) for v in keys["matrix"]]
            width = len(numbers) // rows
            matrix = ", ".join(f"[{', '.join(numbers[r * width : (r + 1) * width])}]" for r in range(rows))
            return f"taps({given[0]}, {whole('axis')[0]}, [{matrix}])"
        if op == "lattice":
            count = len(keys["out"])
            lists = [whole(k, d, count) for k, d in (("up", 1), ("down", 1), ("dil", 1), ("offset", 0), ("out", 1))]
            bias = given[2] if len(given) > 2 else "None"
            told = ", ".join(map(str, [*whole("groups", 1, 1), *lists]))
            return f"lattice({given[0]}, {given[1]}, {bias}, {told})"
        if op == "box_sums":
            numbers = iter(zip(*(whole(k) for k in ("los", "his", "steps"))))
            ranges = [[next(numbers) for _ in range(count)] for count in whole("counts")]
            return f"box_sums({given[0]}, {whole('dims')}, {ranges})"
        raise Unsaid(op)


def _number(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return "math.inf" if value > 0 else "-math.inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def write(found: Problem, ref: Reference, methods: list[Method], of: list[tuple[Way, Method]], request):
    bodies: dict[str, str] = {}  # by what a function does → its name
    functions, plans, entries, left = [], {}, {}, {}
    for way, method in of:
        for part in method.parts:
            region = next(r for r in way.cut.regions if r.name == part.region.name)
            names = part.leaves
            for call in way.calls[region.name]:
                text = _text_at(region, call)
                given = tuple((library.DTYPES[t.dtype], tuple(t.shape), tuple(t.stride())) for t in call.leaves)
                plan = None
                try:
                    lines = "\n".join(f"    {line}" for line in Printer(region, text, names).lines)
                    body = f"({', '.join(names)}):\n{lines}\n"
                    if (part.name, body) not in bodies:
                        bodies[part.name, body] = f"{part.name}_{len(bodies) + 1}" if bodies else part.name
                        functions.append(f"def {bodies[part.name, body]}_rewritten{body}")
                    plan = bodies[part.name, body]
                    plans[plan] = [launches.DTYPES[kind.partition("[")[0]] for kind in library.infer(text)]
                except Unsaid as error:
                    left[part.name] = f"{part.name} (its {error} is not written for CPUs)"
                entries[part.name, given] = (part.name, given, {("inference",): (plan, plan)})
    if not functions:
        raise ProblemError(f"{found.path}: PyTorch's operators would compute all of it: {'; '.join(left.values())}")
    parts = [part for method in methods for part in method.parts]
    notes = _notes(of, request, list(left.values()))
    regions = [function(part) for part in parts]
    text = "\n".join(regions) + "\n".join(line for m in methods for line in m.lines)
    table = "\n".join([f'    "{name}": ({name}_rewritten, [{", ".join(dtypes)}]),' for name, dtypes in plans.items()])
    sections = [
        header(found.path.name, parts, notes, "cpu"),
        IMPORTS + (ref.imports + "\n" if ref.imports else ""),
        f'FILE = "{found.path.name}"',
        f'# The kernels; sizes are run-time values.\nSOURCE = r"""{runtime_cpu.SOURCE}"""',
        runtime_cpu.RUNTIME,
        "# What the rules of the derivation made of the model, size by size; parameters alone are computed with in double.",
        *functions,
        "# Of each: the function, and the dtypes of its results.\nPLANS = {\n" + table + "\n}",
        launches.calls(list(entries.values())),
        "# No gradient has a plan.\nSAVED, GRADIENTS = {}, {}",
        "# The model's regions in PyTorch's operators, which gradients are made of.",
        *regions,
        regions_table(parts),
        (runtime_cpu.BATCH_NORM if "batch_norm(" in text else "") + (runtime.UPDATE if "update(" in text else ""),
        served(found, ref, of),
        runtime.COMMON,
        ref.helpers,
        model_class(ref, methods),
    ]
    return "\n\n\n".join(s.strip("\n") for s in sections if s.strip()) + "\n", notes


def _notes(of, request, left: list[str]) -> list[str]:
    shapes = shapes_of(of)
    everything = [
        "other sizes, dtypes and layouts",
        "autocast",
        "torch.compile",
        "torch.func",
        "other devices",
        "gradients",
        *left,
    ]
    return [
        f"Kernels for inputs of {'; '.join(shapes)}, in {', '.join(request.dtypes)}, on CPUs.",
        f"PyTorch's operators compute everything else, with one warning: {'; '.join(everything)}.",
    ]
