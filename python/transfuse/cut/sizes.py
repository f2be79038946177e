"""Sizes that only the call tells: they are computed from sizes of inputs, so that they do not tie a region to itself."""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, Node

from transfuse.translate.table import value_of


def lower_sizes(graph: Graph) -> SizeNodes:
    """Every symbolic size that is read from an intermediate value is computed from sizes of placeholders instead; what is given
    back finds sizes that operators leave to be told."""
    sizes = SizeNodes(graph)
    if sizes.symbols:
        for node in list(graph.nodes):
            if not sizes.made_here(node) and isinstance(value_of(node), torch.SymInt) and node.op != "placeholder":
                found = sizes.shape([value_of(node)])
                if found is not None and isinstance(found[0], Node):
                    node.replace_all_uses_with(found[0])
                    graph.erase_node(node)
    return sizes


_STEPS = {
    "FloorDiv": operator.floordiv, "CleanDiv": operator.floordiv, "Mod": operator.mod, "PythonMod": operator.mod,
    "Max": torch.sym_max, "Min": torch.sym_min,
}  # fmt: skip


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

    def drop_unused(self) -> None:
        for node in reversed(self.graph.nodes):
            if node in self.all and not node.users:
                self.graph.erase_node(node)

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
        elif expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
            made = self._add(operator.pow, (self._node(expression.base), int(expression.exp)), expression)
        elif (step := _STEPS.get(type(expression).__name__)) is not None and len(expression.args) == 2:
            made = self._add(step, tuple(self._node(a) for a in expression.args), expression)
        else:
            raise KeyError(expression)
        self.made[expression] = made
        return made

    def _add(self, target, arguments, expression) -> Node:
        with self.graph.inserting_after(self.cursor):
            node = self.cursor = self.graph.call_function(target, tuple(arguments))
        holder, axis = next(iter(self.symbols.values()))
        environment = value_of(holder).shape[axis].node.shape_env
        hint = getattr(environment, "guarding_hint_or_throw", environment.size_hint)  # its name from 2.14 on
        node.meta["val"] = environment.create_symintnode(expression, hint=int(hint(expression)))
        self.all.add(node)
        return node
