"""A collapsed model as its derivation leaves it, in PyTorch's operators: what an emitted file's backward differentiates.

Its gradients are collapsed as well: sums over boxes turn into a spread of a few numbers, and no large intermediate exists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from transfuse import library
from transfuse.emit.formula import Statement, Unstated, python_of, scalar
from transfuse.emit.sizes import Sized, samples

HELPERS = '''
def taps(t, axis, matrix):
    """Taps of a kernel along an axis, added up as the rows of the matrix say."""
    return (t.movedim(axis, -1) @ torch.as_tensor(matrix, dtype=t.dtype, device=t.device).T).movedim(-1, axis)


def box_sums(x, boxes):
    """Sums of x over boxes: of each axis the intervals (first, last, step) they are made of."""
    sums = x
    for axis, intervals in boxes.items():
        inside = x.new_zeros(len(intervals), x.shape[axis])
        for row, (first, last, step) in zip(inside, intervals):
            row[first : last + 1 : step] = 1
        sums = taps(sums, axis, inside.to(sums.dtype)).double()  # few numbers from here on
    return sums.reshape(x.shape[0], -1, *[1] * len(boxes))
'''

NODE = re.compile(r"  %(\w+) = (\w+)\(([^()]*)\)((?: \w+=\S+)*)$")
BINARY = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
UNARY = {"neg", "square", "sqrt", "rsqrt", "exp", "log", "tanh", "sigmoid", "relu", "abs", "softplus", "silu", "gelu"}
WHOLE = 12  # sizes at which the derivation must read alike


@dataclass
class Node:
    name: str
    op: str
    arguments: list[str]
    values: dict[str, str]

    def list_of(self, key: str) -> list[str]:
        return self.values[key].strip("[]").split(",")


def _nodes(graph: str) -> tuple[list[Node], list[str]]:
    nodes = []
    for line in graph.splitlines():
        if match := NODE.match(line):
            values = dict(word.split("=", 1) for word in match[4].split())
            nodes.append(Node(match[1], match[2], [a.strip() for a in match[3].split(",")], values))
    results = re.search(r"  return (.*)", graph)[1].split(", ")
    return nodes, [r.split("=")[-1].lstrip("%") for r in results]


def written(sized: Sized, leaves: list[str], extents: list[tuple[str, str]]) -> list[str] | None:
    """Statements that compute the region's differentiable outputs from `leaves`; None where nothing collapsed to a formula.
    `extents`: sizes of intermediates that have names, and their formulas."""
    try:
        return _Printer(sized, leaves, extents).statements()
    except (Unstated, library.CompileError):
        return None


class _Printer:
    def __init__(self, sized: Sized, leaves: list[str], extents: list[tuple[str, str]]):
        self.sized = sized
        derive = lambda sizes: _nodes(library.summary(sized.text(sizes), "cuda")["rewritten"])  # noqa: E731
        found = [(s, *derive(s)) for s in [sized.example, *samples(sized.symbols, 2 * WHOLE, 1, False)]]
        shape = lambda nodes: [(n.op, n.arguments if n.op not in BINARY else len(n.arguments)) for n in nodes]  # noqa: E731
        alike = [f for f in found if shape(f[1]) == shape(found[0][1])]
        if len(alike) < WHOLE:
            raise Unstated("the derivation is another one at other sizes")
        self.series = list(zip(*(nodes for _, nodes, _ in alike)))
        self.results = alike[0][2]
        names = [s.name for s in sized.symbols]
        self.statement = Statement({n: np.array([sizes[n] for sizes, _, _ in alike]) for n in names})
        for name, formula in extents:
            if not name.startswith("count_"):
                plain = python_of(formula, self.statement.named)
                self.statement.base(name, np.array([eval(plain, {}, sizes) for sizes, _, _ in alike]))
                self.statement.named.append((name, formula))
        self.texts = dict(zip(re.findall(r"%(\w+) = (?:input|param)", sized.region.text), leaves))
        self.lines: list[str] = []

    def statements(self) -> list[str]:
        if not any(nodes[0].op == "box_sums" for nodes in self.series):
            raise Unstated("nothing collapsed")
        uses = [a.lstrip("%") for nodes in self.series for a in nodes[0].arguments] + self.results * 2
        for nodes in self.series:
            node = nodes[0]
            text = self.expression(nodes)
            if uses.count(node.name) == 1 and len(text) < 70:
                self.texts[node.name] = text
                continue
            name = f"t{node.name}" if node.name.isdigit() else node.name
            self.lines.append(f"{name} = {text}")
            self.texts[node.name] = name
        wanted = self.results[: self.sized.region.differentiable]
        return [*self.lines, f"return [{', '.join(f'{self.texts[r]}.to(dtype)' for r in wanted)}]"]

    def value(self, argument: str, numbers: list[str]) -> str:
        if argument.startswith("%"):
            return self.texts[argument[1:]]
        return self.number(numbers)

    def number(self, texts: list[str]) -> str:
        if len(set(texts)) == 1:
            return texts[0]
        values = [float(t) for t in texts]
        if all(v == int(v) for v in values):
            return python_of(self.statement.state([int(v) for v in values]).text, self.statement.named)
        return f"({python_of(scalar(self.statement, values, False), self.statement.named, False)})"

    def listed(self, nodes, key: str) -> list[str]:
        return [self.number(list(column)) for column in zip(*(n.list_of(key) for n in nodes))]

    def expression(self, nodes) -> str:
        node = nodes[0]
        if node.op == "box_sums":
            return self._box_sums(nodes)
        given = [self.value(a, [n.arguments[i] for n in nodes]) for i, a in enumerate(node.arguments)]
        whole = [
            f"({g})" if re.search(r"(?<![(,]) [-+*/@] ", re.sub(r"\([^()]*\)|\[[^][]*\]", "", g)) else g for g in given
        ]
        if node.op in BINARY:
            return f"{whole[0]} {BINARY[node.op]} {whole[1]}"
        if node.op in UNARY:
            return f"torch.ops.aten.{node.op}({given[0]})"
        if node.op == "reshape":
            return f"{whole[0]}.reshape({', '.join(self.listed(nodes, 'shape')) or '()'})"
        if node.op == "permute":
            return f"{whole[0]}.permute({', '.join(node.list_of('order'))})"
        if node.op in ("mean", "sum", "logsumexp"):
            dims, keep = f"[{', '.join(node.list_of('dims'))}]", node.values.get("keepdim", "0") == "1"
            return f"{whole[0]}.{node.op}({dims}{', True' if keep else ''})"
        if node.op == "taps":
            rows, numbers = int(node.values["rows"]), node.list_of("matrix")
            columns = len(numbers) // rows
            matrix = ", ".join(f"[{', '.join(numbers[r * columns : (r + 1) * columns])}]" for r in range(rows))
            return f"taps({given[0]}, {node.values['axis']}, [{matrix}])"
        if node.op == "lattice" and set(node.values) == {"groups", "out"} and len(given) == 2:
            if node.values["groups"] == "1" and set(node.list_of("out")) == {"1"}:
                return f"({whole[0]}.flatten(1) @ {whole[1]}.flatten(2)[0])[..., {', '.join(['None'] * len(node.list_of('out')))}]"
        raise Unstated(f"{node.op} is not written in PyTorch's operators")

    def _box_sums(self, nodes) -> str:
        node = nodes[0]
        dims, counts = [int(d) for d in node.list_of("dims")], [int(c) for c in node.list_of("counts")]
        if dims != list(range(2, 2 + len(dims))) or len(dims) + 2 != len(self.sized.shapes[0]):
            raise Unstated("sums over some axes")
        bounds = list(zip(self.listed(nodes, "los"), self.listed(nodes, "his"), self.listed(nodes, "steps")))
        boxes, begin = [], 0
        for dim, count in zip(dims, counts):
            intervals = ", ".join(f"({lo}, {hi}, {step})" for lo, hi, step in bounds[begin : begin + count])
            boxes.insert(0, f"{dim}: [{intervals}]")  # the contiguous axis first
            begin += count
        x = self.texts[node.arguments[0][1:]]
        return f"box_sums({x}, {{{', '.join(boxes)}}})"
