"""Prepares an ATen graph for being cut: in-place operators become functional where no alias can tell."""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, Node

from transfuse.translate import TABLE, functional_name, is_inplace, is_tensor, op_name, value_of

# Operators that may return their first operand itself, beside those whose schema says so.
_MAY_ALIAS = (
    "reshape",
    "flatten",
    "contiguous",
    "to",
    "dropout",
    "feature_dropout",
    "alpha_dropout",
    "expand_as",
    "type_as",
    "view_as",
)


def may_alias(node: Node) -> bool:
    if node.target is operator.getitem:
        return True
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    if op_name(node).split(".")[1] in _MAY_ALIAS or is_inplace(node):
        return True
    return any(r.alias_info is not None for r in node.target._schema.returns)


def roots(graph: Graph) -> dict[Node, Node]:
    """For each node the node whose memory it may share."""
    found: dict[Node, Node] = {}
    for node in graph.nodes:
        base = node
        if may_alias(node) and node.args and isinstance(node.args[0], Node):
            base = found.get(node.args[0], node.args[0])
        found[node] = base
    return found


def drop_unused_elements(graph: Graph) -> None:
    for node in reversed(list(graph.nodes)):
        if node.target is operator.getitem and not node.users:
            graph.erase_node(node)


def functionalize(graph: Graph) -> None:
    """x.relu_() → x.relu() where x was made here and no other alias of it is read later."""
    drop_unused_elements(graph)
    order = {node: i for i, node in enumerate(graph.nodes)}
    root = roots(graph)
    aliases: dict[Node, list[Node]] = {}
    for node, base in root.items():
        aliases.setdefault(base, []).append(node)
    for node in list(graph.nodes):
        if not is_inplace(node) or functional_name(op_name(node)) not in TABLE or not is_tensor(node.args[0]):
            continue
        base = node.args[0]
        here = order[node]
        if root[base].op != "call_function" or not isinstance(root[base].target, torch._ops.OpOverload):
            continue
        seen_later = any(
            alias is not base and alias is not node and any(order[user] > here for user in alias.users)
            for alias in aliases[root[base]]
            if order[alias] < here
        )
        tensors = [a for a in node.args[1:] if is_tensor(a)]
        promotes = any(value_of(a).dtype != value_of(base).dtype and value_of(a).dim() > 0 for a in tensors)
        if seen_later or promotes or value_of(base).shape != value_of(node).shape:
            continue
        packet, overload = functional_name(op_name(node)).split(".")[1:]
        try:
            node.target = getattr(getattr(torch.ops.aten, packet), overload)
        except AttributeError:
            continue
        base.replace_all_uses_with(node, delete_user_cb=lambda user, here=here: order[user] > here)


def mutated(graph: Graph) -> set[Node]:
    """Roots of tensors that something in the graph changes in place."""
    root = roots(graph)
    changed = set()
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if isinstance(node.target, torch._ops.OpOverload):
            for argument, value in zip(node.target._schema.arguments, node.args):
                if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, Node):
                    changed.add(root[value])
            for argument in node.target._schema.arguments:
                value = node.kwargs.get(argument.name)
                if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, Node):
                    changed.add(root[value])
        elif isinstance(node.target, torch._ops.HigherOrderOperator):
            changed.update(
                root[a] for a in node.all_input_nodes if root[a].op == "placeholder" and a.name.startswith("b_")
            )
    return changed
