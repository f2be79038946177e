"""Statements of captured graphs as Python."""

from __future__ import annotations

import operator

import torch
from torch.fx import Node

from transfuse.cut.regions import batch_norm_statistics, update_statistics
from transfuse.problem import ProblemError

SIGNS = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.floordiv: "//", operator.mod: "%"}


def attribute(target: str) -> str:
    return "self" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in target.split("."))


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
        if isinstance(value, torch.device):
            return f"torch.device({str(value)!r})"
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            return f'float("{value}")'
        return str(value) if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)) else repr(value)

    def call(self, node: Node) -> str:
        target = node.target
        arguments = [self.argument(a) for a in node.args] + [f"{k}={self.argument(v)}" for k, v in node.kwargs.items()]
        if target is operator.getitem:
            return f"{arguments[0]}[{arguments[1]}]"
        if target is torch.ops.aten.sym_size.int:
            return f"{arguments[0]}.shape[{arguments[1]}]"
        if isinstance(target, torch._ops.OpOverload):
            return f"torch.ops.{str(target).removesuffix('.default')}({', '.join(arguments)})"
        if target is batch_norm_statistics:
            return f"batch_norm({', '.join(arguments[:4])})"
        if target in SIGNS:
            return f"({arguments[0]} {SIGNS[target]} {arguments[1]})"
        if getattr(target, "__module__", "") == "math":
            return f"math.{target.__name__}({', '.join(arguments)})"
        if (name := getattr(target, "__name__", "")) and getattr(torch, name, None) is target:
            return f"torch.{name}({', '.join(arguments)})"
        raise ProblemError(f"{target} cannot be written into a file")

    def statement(self, node: Node) -> None:
        if node.target is update_statistics:
            buffers, momentum, values = (self.argument(a) for a in node.args)
            self.lines.append(f"update({buffers}, {values}, {momentum})")
        elif node.target is operator.getitem or node.target in SIGNS or node.target is torch.ops.aten.sym_size.int:
            self.texts[node] = self.call(node)
        else:
            self.lines.append(f"{node.name} = {self.call(node)}")
            self.texts[node] = node.name


def as_written(eager, names: list[str]) -> list[str]:
    """A region in PyTorch's own operators, as the body of a function."""
    nodes = list(eager.graph.nodes)
    printer = Printer(dict(zip([n for n in nodes if n.op == "placeholder"], names)))
    for node in nodes:
        if node.op == "call_function":
            printer.statement(node)
    results = ", ".join(printer.argument(r) for r in nodes[-1].args[0])
    return [*printer.lines, f"return [{results}]"]


def returned(spec, results) -> str:
    """What forward returns: tensors in tuples, lists and dictionaries."""
    if spec.is_leaf():
        return next(results)
    items = [returned(child, results) for child in spec.children()]
    if spec.type is tuple:
        return f"({', '.join(items)}{',' * (len(items) == 1)})"
    if spec.type is list:
        return f"[{', '.join(items)}]"
    if spec.type is dict:
        return f"{{{', '.join(f'{key!r}: {item}' for key, item in zip(spec.context, items))}}}"
    raise ProblemError(
        f"forward returns a {spec.type.__name__}; a file can return tensors in tuples, lists and dictionaries"
    )
