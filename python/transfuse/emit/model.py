"""The Python side of an emitted file: constructor, forward and gradient, printed from the captured graph."""

from __future__ import annotations

import inspect
import operator

import torch
from torch.fx import Node

from transfuse.emit.source import Reference
from transfuse.problem import ProblemError
from transfuse.regions import batch_norm_statistics, update_statistics


def attribute(target: str) -> str:
    return "self" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in target.split("."))


CONVOLUTIONS = {f"aten.conv_transpose{n}d.{'default' if n == 1 else 'input'}": (True, n) for n in (1, 2, 3)}
CONVOLUTIONS |= {f"aten.conv{n}d.default": (False, n) for n in (1, 2, 3)} | {"aten.convolution.default": (False, None)}


def lines_of(text: str) -> str:
    return text + "\n" if text else ""


SIGNS = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.floordiv: "//", operator.mod: "%"}


def _size(node: Node) -> bool:
    """Whether a node is a number made of sizes: it stands where it is used."""
    return node.target is torch.ops.aten.sym_size.int or node.target in SIGNS


class Printer:
    """Statements of a graph whose placeholders have Python texts."""

    def __init__(self, texts: dict[Node, str]):
        self.texts = dict(texts)
        self.lines: list[str] = []

    def argument(self, value) -> str:
        if isinstance(value, Node):
            return self.texts[value]
        if isinstance(value, (list, tuple)):
            items = ", ".join(self.argument(v) for v in value)
            return f"[{items}]" if isinstance(value, list) or not value else f"({items},)"
        if isinstance(value, torch.dtype) or isinstance(value, torch.device):
            return f"torch.device({str(value)!r})" if isinstance(value, torch.device) else str(value)
        return repr(value)

    def call(self, node: Node) -> str:
        arguments = [self.argument(a) for a in node.args] + [f"{k}={self.argument(v)}" for k, v in node.kwargs.items()]
        if node.target is operator.getitem:
            return f"{arguments[0]}[{arguments[1]}]"
        if str(node.target) in CONVOLUTIONS:
            return self.convolution(node)
        if node.target is torch.ops.aten.sym_size.int:
            return f"{arguments[0]}.shape[{arguments[1]}]"
        if isinstance(node.target, torch._ops.OpOverload):
            name = str(node.target).removesuffix(".default")
            return f"torch.ops.{name}({', '.join(arguments)})"
        if node.target is batch_norm_statistics:
            return f"batch_norm({', '.join(arguments[:4])})"
        if node.target in SIGNS:
            return f"({arguments[0]} {SIGNS[node.target]} {arguments[1]})"
        if getattr(node.target, "__module__", "") in ("_operator", "operator", "math"):
            return f"{'math.' if node.target.__module__ == 'math' else 'operator.'}{node.target.__name__}({', '.join(arguments)})"
        raise ProblemError(f"{node.target} cannot be written into a file")

    def convolution(self, node: Node) -> str:
        given = {
            a.name: node.args[i] if i < len(node.args) else node.kwargs.get(a.name, a.default_value)
            for i, a in enumerate(node.target._schema.arguments)
        }
        transposed, axes = CONVOLUTIONS[str(node.target)]
        if axes is None:
            return f"convolve({', '.join(self.argument(a) for a in node.args)})"
        whole = lambda value: list(value) * axes if len(value) == 1 else list(value)  # noqa: E731
        extra = whole(given["output_padding"]) if transposed else [0] * axes
        lists = [whole(given[name]) for name in ("stride", "padding", "dilation")]
        values = [given["weight"], given["bias"], *lists, transposed, extra, given["groups"]]
        x, told = self.argument(given["input"]), ", ".join(self.argument(v) for v in values)
        one = node.meta.get("rank") == axes + 1  # image, without a batch
        return f"convolve({x}.unsqueeze(0), {told}).squeeze(0)" if one else f"convolve({x}, {told})"

    def statement(self, node: Node) -> None:
        if node.target is update_statistics:
            buffers, momentum, values = (self.argument(a) for a in node.args)
            self.lines.append(f"update({buffers}, {values}, {momentum})")
        elif str(node.target) == "aten.add_.Tensor":
            self.lines.append(f"{self.argument(node.args[0])}.add_({self.argument(node.args[1])})")
            self.texts[node] = self.argument(node.args[0])
        elif node.target is operator.getitem or _size(node):
            self.texts[node] = self.call(node)
        else:
            self.lines.append(f"{node.name} = {self.call(node)}")
            self.texts[node] = node.name


def as_written(eager, names: list[str]) -> list[str]:
    """The region in PyTorch's own operators; `convolve` computes convolutions as torch.ops.aten.convolution does."""
    nodes = list(eager.graph.nodes)
    printer = Printer(dict(zip([n for n in nodes if n.op == "placeholder"], names)))
    for node in nodes:
        if node.op == "call_function":
            printer.statement(node)
    results = ", ".join(printer.argument(r) for r in nodes[-1].args[0])
    return [*printer.lines, f"return [{results}]"]


def user_inputs(ref: Reference, count: int) -> list[str]:
    if ref.star is None:
        if len(ref.names) < count:
            raise ProblemError("forward takes other inputs than tensors, which a file cannot")
        return ref.names[:count]
    plain = ref.names
    return [*plain, *(f"{ref.star}[{i}]" for i in range(count - len(plain)))]


def defaults(module) -> inspect.Signature:
    return inspect.signature(module.Model.__init__)
