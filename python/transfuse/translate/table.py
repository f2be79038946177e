"""ATen operators as statements of the graph's text form: a table, with a reason for everything that is refused.

A handler gets the translator and the operator's arguments in schema order and returns the name of its value (or, for an
operator with several results, a list of names, None for those that have no counterpart). It raises Unsupported with a
reason a user can read. The handlers are in translate_convolution.py, translate_pointwise.py, translate_reduction.py and
translate_shape.py; importing them fills the table."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable

import torch
from torch.fx import Node

from transfuse.native.library import DTYPES
from transfuse.pytorch.torch_private import OpOverload

TABLE: dict[str, Callable] = {}
FLOATS = tuple(DTYPES)


class Unsupported(Exception):
    """Why an operator stays with PyTorch."""


def op(*names: str):
    def register(handler):
        for name in names:
            TABLE["aten." + name] = handler
        return handler

    return register


def value_of(node):
    """The fake tensor (or symbolic number) a node stands for."""
    return node.meta.get("val") if isinstance(node, Node) else node


def is_tensor(argument) -> bool:
    return isinstance(argument, Node) and isinstance(value_of(argument), torch.Tensor)


def arguments_of(node: Node) -> list:
    """The arguments in schema order, defaults filled in."""
    values = list(node.args)
    for argument in node.target._schema.arguments[len(values) :]:
        if argument.name in node.kwargs:
            values.append(node.kwargs[argument.name])
        else:
            values.append(argument.default_value if argument.has_default_value() else None)
    return values


def op_name(node: Node) -> str:
    return str(node.target)


def functional_name(name: str) -> str:
    """aten.relu_.default → aten.relu.default"""
    return re.sub(r"^(aten\.\w+?)_\.", r"\1.", name)


def is_inplace(node: Node) -> bool:
    return (
        node.op == "call_function"
        and isinstance(node.target, OpOverload)
        and re.match(r"^aten\.\w*[a-z0-9]_\.", op_name(node)) is not None
        and not op_name(node).startswith("aten.__")
    )


class Translator:
    """Collects the statements of one region."""

    def __init__(self, size_nodes=None):
        """`size_nodes`: finds the nodes that compute symbolic sizes (sizes.SizeNodes)"""
        self.size_nodes = size_nodes
        self.statements: list[str] = []
        self.names: dict[Node, str | list] = {}
        self.leaves: dict[Node, str] = {}
        self.sizes: dict[Node, int] = {}  # numbers known only at the call, in order: $0, $1, …
        self.statistics: list[tuple[Node, float | None, Node, str]] = []  # (buffer, momentum, its node, new value)
        self.count = 0

    # Operands and attributes ------------------------------------------------------------------------------------------

    def operand(self, argument) -> str:
        if isinstance(argument, Node):
            name = self.names.get(argument)
            if name is None:
                value = value_of(argument)
                if not isinstance(value, torch.Tensor):
                    raise Unsupported("a number computed from sizes is an operand")
                if value.dtype not in DTYPES:
                    raise Unsupported(f"{str(value.dtype).removeprefix('torch.')} operand")
                name = self.names[argument] = self.leaves[argument] = f"%{argument.name}"
            if not isinstance(name, str):
                raise Unsupported("a tuple is an operand")
            return name
        return self.number(argument)

    def number(self, value) -> str:
        if isinstance(value, bool):
            return str(int(value))
        if isinstance(value, int):
            return str(value)
        if isinstance(value, float):
            if math.isnan(value):
                raise Unsupported("nan as a constant")
            return "inf" if value == math.inf else "-inf" if value == -math.inf else repr(value)
        raise Unsupported(f"a constant of type {type(value).__name__}")

    def size(self, value) -> str:
        """A whole number in an attribute; one that depends on the input's shape becomes $k."""
        if isinstance(value, Node):
            static = value_of(value)
            if isinstance(static, int):
                return str(static)
            if not isinstance(static, torch.SymInt):
                raise Unsupported("a size that is no integer")
            return f"${self.sizes.setdefault(value, len(self.sizes))}"
        if isinstance(value, int):
            return str(int(value))
        raise Unsupported(f"a size of type {type(value).__name__}")

    def told(self, value):
        """A whole number among an operator's arguments: itself, or the symbol of one that the call tells."""
        if isinstance(value, Node):
            self.size(value)  # PyTorch's own way of the region is given it too
            return value_of(value)
        return value

    def extents(self, sizes) -> list:
        """Sizes that may be symbols as attributes."""
        found = [s if isinstance(s, (int, Node)) else None for s in sizes]
        if None in found:
            symbols = [s for s in sizes if not isinstance(s, (int, Node))]
            nodes = self.size_nodes.shape(symbols) if self.size_nodes is not None else None
            if nodes is None:
                raise Unsupported("a size that only the call tells, and which is no expression of the inputs' sizes")
            nodes = iter(nodes)
            found = [next(nodes) if s is None else s for s in found]
        return found

    def shape(self, sizes) -> list:
        """The same for a reshape, which finds one of them by itself."""
        unknown = [not isinstance(s, (int, Node)) or (isinstance(s, int) and s == -1) for s in sizes]
        if sum(unknown) <= 1:
            return [-1 if free else s for free, s in zip(unknown, sizes)]
        return self.extents(sizes)

    def attribute(self, value) -> str:
        if isinstance(value, (list, tuple)):
            if any(isinstance(v, float) for v in value):
                return "[" + ",".join(self.number(v) for v in value) + "]"
            return "[" + ",".join(self.size(v) for v in value) + "]"
        if isinstance(value, str):
            return value
        return self.size(value) if isinstance(value, (Node, torch.SymInt)) else self.number(value)

    def emit(self, op: str, *operands, **attributes) -> str:
        """`operands` are names, nodes or numbers; returns the new value's name."""
        texts = [o if isinstance(o, str) else self.operand(o) for o in operands]
        name = f"%v{self.count}"
        self.count += 1
        tail = "".join(f" {key}={self.attribute(value)}" for key, value in attributes.items() if value is not None)
        self.statements.append(f"{name} = {op}({', '.join(texts)}){tail}")
        return name

    def cast(self, operand: str, dtype: torch.dtype) -> str:
        return self.emit("cast", operand, dtype=DTYPES[dtype])

    # Nodes ------------------------------------------------------------------------------------------------------------

    def translate(self, node: Node) -> None:
        if node.target is operator.getitem:
            results = self.names.get(node.args[0])
            index = node.args[1]
            if not isinstance(results, list):
                raise Unsupported("an element of a tuple that stays with PyTorch")
            if not isinstance(index, int) or results[index] is None:
                raise Unsupported(f"result {index} of {op_name(node.args[0])}")
            self.names[node] = results[index]
            return
        handler, arguments = check(node)
        self.result = value_of(node)
        arguments = self.autocast(node, arguments)
        self.names[node] = handler(self, *arguments)

    def autocast(self, node: Node, arguments: list) -> list:
        """Under autocast PyTorch casts the operands of some operators; the dtype it chose shows in the result."""
        result = value_of(node)
        if not isinstance(result, torch.Tensor) or result.dtype not in DTYPES or not CASTING.match(op_name(node)):
            return arguments

        def fix(argument):
            if is_tensor(argument) and value_of(argument).dtype != result.dtype and value_of(argument).dtype in DTYPES:
                if not (torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")):
                    raise Unsupported("operands of differing dtypes")
                key = (argument, result.dtype)
                if key not in self.names:
                    self.names[key] = self.cast(self.operand(argument), result.dtype)
                return Cast(argument, self.names[key], result)
            return argument

        return [fix(a) for a in arguments]


# Operators whose operands must be of one dtype in PyTorch, so that differing ones mean that autocast is on.
CASTING = re.compile(
    r"aten\.(conv\w*|linear|matmul|softmax|log_softmax|avg_pool\w*|adaptive_avg_pool\w*|prelu|upsample\w*)\."
)


class Cast(str):
    """The name of a cast operand that still knows the tensor it stands for."""

    def __new__(cls, node, name, like):
        self = super().__new__(cls, name)
        self.node, self.like = node, like
        return self


def tensor(argument):
    """The fake tensor behind an operand, cast or not."""
    return value_of(argument.node) if isinstance(argument, Cast) else value_of(argument)


def check(node: Node) -> tuple[Callable, list]:
    """The handler and the arguments of a node, or Unsupported."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        raise Unsupported("no ATen operator")
    name = functional_name(op_name(node)) if is_inplace(node) else op_name(node)
    handler = TABLE.get(name)
    if handler is None:
        raise Unsupported(f"{op_name(node)} has no counterpart")
    arguments = arguments_of(node)
    results = value_of(node)
    for result in results if isinstance(results, (list, tuple)) else [results]:
        if not isinstance(result, torch.Tensor):
            raise Unsupported("its result is no tensor")
        if result.layout is not torch.strided or result.device.type not in ("cpu", "cuda"):
            raise Unsupported(f"a {result.layout} tensor on {result.device.type}")
    first = results[0] if isinstance(results, (list, tuple)) else results
    if first.dtype not in DTYPES:
        raise Unsupported(f"{str(first.dtype).removeprefix('torch.')} result")
    return handler, arguments


def reason(node: Node, size_nodes=None) -> str | None:
    """Why a node cannot be taken; None if it can. Tuples are judged with the elements that are used."""
    translator = Translator(size_nodes)
    try:
        if node.target is operator.getitem:
            parent = node.args[0]
            if not isinstance(parent, Node) or parent.op != "call_function":
                raise Unsupported("an element of something PyTorch computes")
            translator.translate(parent)
            translator.translate(node)
            return None
        translator.translate(node)
        for user in node.users:
            if user.target is operator.getitem:
                translator.translate(user)
            elif isinstance(translator.names[node], list):
                raise Unsupported("its tuple is used whole")
        return None
    except Unsupported as refusal:
        return str(refusal)
