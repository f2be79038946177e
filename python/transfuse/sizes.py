"""Sizes that only the call tells: they are computed from sizes of inputs, so that they do not tie a region to itself, and reshapes
say them."""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, Node

from transfuse.translate import value_of

# Whose result is its operand in the result's shape.
_RESHAPES = tuple(
    f"aten.{name}"
    for name in (
        "flatten.using_ints", "unflatten.int", "unsqueeze.default", "squeeze.dim", "squeeze.dims", "squeeze.default",
        "view_as.default", "reshape_as.default",
    )
)  # fmt: skip


def lower_sizes(graph: Graph) -> None:
    """Every symbolic size that is read from an intermediate value is computed from sizes of placeholders instead; and where a
    reshape leaves two of them to be found, it is given them."""
    sizes = SizeNodes(graph)
    if not sizes.symbols:
        return
    for node in list(graph.nodes):
        if not sizes.made_here(node) and isinstance(value_of(node), torch.SymInt) and node.op != "placeholder":
            found = sizes.shape([value_of(node)])
            if found is not None and isinstance(found[0], Node):
                node.replace_all_uses_with(found[0])
                graph.erase_node(node)
    for node in list(graph.nodes):
        if node.op == "call_function" and isinstance(value_of(node), torch.Tensor):
            _spell_out(graph, node, sizes)


def _spell_out(graph: Graph, node: Node, sizes: SizeNodes) -> None:
    name, value = str(node.target), value_of(node)
    known = [isinstance(size, int) for size in value.shape]
    if known.count(False) < 2:
        return
    if name in _RESHAPES:
        before = value_of(node.args[0])
        if "squeeze" in name and sum(isinstance(size, int) for size in before.shape) == sum(known):
            return  # nothing known to be of extent one is left out
        operand = node.args[0]
    elif name == "aten.select.int":
        operand = _one_of_an_axis(graph, node)
    else:
        return
    shape = sizes.shape(value.shape)
    if operand is None or shape is None:
        return
    with graph.inserting_before(node):
        made = graph.call_function(torch.ops.aten.reshape.default, (operand, shape))
    made.meta = node.meta.copy()
    node.replace_all_uses_with(made)
    graph.erase_node(node)


def _one_of_an_axis(graph: Graph, node: Node) -> Node | None:
    """What select takes, with the axis that it then leaves out."""
    source, axis, index = node.args
    value = value_of(source)
    extent = value.shape[axis]
    if not isinstance(extent, int) or not isinstance(index, int):
        return None
    index %= extent
    with graph.inserting_before(node):
        made = graph.call_function(torch.ops.aten.slice.Tensor, (source, axis % value.dim(), index, index + 1))
    made.meta = {k: v for k, v in node.meta.items() if k != "val"} | {"val": value.narrow(axis, index, 1)}
    return made


class SizeNodes:
    """Nodes that compute expressions in the sizes of a graph's placeholders."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.symbols: dict = {}  # of each a placeholder and an axis with that extent
        self.made: dict = {}  # of each expression its node
        self.all: set[Node] = set()
        for node in graph.nodes:
            if node.op != "placeholder":
                continue
            self.cursor = node  # new nodes follow the placeholders, in the order they are made
            value = value_of(node)
            if isinstance(value, torch.Tensor):
                for axis, size in enumerate(value.shape):
                    if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                        self.symbols.setdefault(size.node.expr, (node, axis))

    def made_here(self, node: Node) -> bool:
        return node in self.all

    def shape(self, sizes) -> list[int | Node] | None:
        """Numbers and nodes for sizes of a fake tensor; None where one of them does not come from the inputs' sizes."""
        try:
            return [size if isinstance(size, int) else self._node(size.node.expr) for size in sizes]
        except KeyError:
            return None

    def _node(self, expression):
        if expression.is_Integer:
            return int(expression)
        if expression in self.made:
            return self.made[expression]
        if expression.is_Symbol:
            made = self._add(torch.ops.aten.sym_size.int, self.symbols[expression], expression)
        elif expression.is_Add or expression.is_Mul:
            step = operator.add if expression.is_Add else operator.mul
            parts = [self._node(a) for a in expression.args]
            made, so_far = parts[0], expression.args[0]
            for part, term in zip(parts[1:], expression.args[1:]):
                so_far = so_far + term if step is operator.add else so_far * term
                made = self._add(step, (made, part), so_far)
        elif type(expression).__name__ == "FloorDiv":
            made = self._add(operator.floordiv, tuple(self._node(a) for a in expression.args), expression)
        else:
            raise KeyError(expression)
        self.made[expression] = made
        return made

    def _add(self, target, arguments, expression) -> Node:
        with self.graph.inserting_after(self.cursor):
            node = self.cursor = self.graph.call_function(target, tuple(arguments))
        holder, axis = next(iter(self.symbols.values()))
        environment = value_of(holder).shape[axis].node.shape_env
        node.meta["val"] = environment.create_symintnode(expression, hint=int(environment.size_hint(expression)))
        self.all.add(node)
        return node
