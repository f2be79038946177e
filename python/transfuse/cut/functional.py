"""Prepares an ATen graph for being cut: in-place operators become functional where no alias can tell."""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, Node

from transfuse.capture.parts import KEPT
from transfuse.pytorch.torch_private import HigherOrderOperator, OpOverload
from transfuse.translate.table import TABLE, arguments_of, functional_name, is_inplace, is_tensor, op_name, value_of

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


HELD = "held"  # in node.meta of a placeholder: a parameter, buffer or constant of the model, no input of the call


def may_alias(node: Node) -> bool:
    if node.target is operator.getitem:
        return True
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return False
    if op_name(node).split(".")[1] in _MAY_ALIAS or is_inplace(node):
        return True
    return any(r.alias_info is not None for r in node.target._schema.returns)


def roots(graph: Graph) -> dict[Node, Node]:
    """For each node the node whose memory it may share. Inputs of a call may be views of one another: where one of them is
    changed, all of them count as one."""
    found: dict[Node, Node] = {}
    for node in graph.nodes:
        base = node
        if node.target is operator.getitem and KEPT in getattr(node.args[0], "meta", ()):
            owner, result = node.args
            same = owner.meta[KEPT].same
            base = found[owner.args[same[result]]] if result in same else node
        elif may_alias(node) and node.args and isinstance(node.args[0], Node):
            base = found.get(node.args[0], node.args[0])
        found[node] = base
    given = {n for n in graph.nodes if n.op == "placeholder" and HELD not in n.meta and is_tensor(n)}
    if len(given) > 1 and any(found[node] in given for node in _written(graph)):
        one = next(n for n in graph.nodes if n in given)
        found = {node: one if base in given else base for node, base in found.items()}
    return found


def seen_by_parts(graph: Graph, root: dict[Node, Node]) -> set[Node]:
    """Roots of tensors that parts of the model are given or give, whose hooks may keep them, or write to them."""
    nodes = [node for node in graph.nodes if KEPT in node.meta]
    nodes += [element for node in nodes for element in node.users]
    return {root[n] for node in nodes for n in [node, *node.all_input_nodes] if is_tensor(n)}


def drop_unused_elements(graph: Graph) -> None:
    for node in reversed(list(graph.nodes)):
        if node.target is operator.getitem and not node.users:
            graph.erase_node(node)


def functionalize(graph: Graph) -> None:
    """x.relu_() → x.relu() where x was made here and no other alias of it is read later."""
    drop_unused_elements(graph)
    order = {node: i for i, node in enumerate(graph.nodes)}
    root = roots(graph)
    shown = seen_by_parts(graph, root)
    aliases: dict[Node, list[Node]] = {}
    for node, base in root.items():
        aliases.setdefault(base, []).append(node)
    for node in list(graph.nodes):
        if not is_inplace(node) or functional_name(op_name(node)) not in TABLE or not is_tensor(node.args[0]):
            continue
        base = node.args[0]
        here = order[node]
        if root[base].op != "call_function" or not isinstance(root[base].target, OpOverload):
            continue
        seen_later = any(
            alias is not base and alias is not node and any(order[user] > here for user in alias.users)
            for alias in aliases[root[base]]
            if order[alias] < here
        )
        tensors = [a for a in node.args[1:] if is_tensor(a)]
        promotes = any(value_of(a).dtype != value_of(base).dtype and value_of(a).dim() > 0 for a in tensors)
        if root[base] in shown or seen_later or promotes or value_of(base).shape != value_of(node).shape:
            continue
        packet, overload = functional_name(op_name(node)).split(".")[1:]
        try:
            node.target = getattr(getattr(torch.ops.aten, packet), overload)
        except AttributeError:
            continue
        base.replace_all_uses_with(node, delete_user_cb=lambda user, here=here: order[user] > here)


def _written(graph: Graph) -> list[Node]:
    """What operators of the graph write to."""
    return [tensor for _, tensor in _writes(graph)]


def _writes(graph: Graph) -> list[tuple[Node, Node]]:
    """Operators of the graph and what they write to, in order."""
    found = []
    for node in graph.nodes:
        if KEPT in node.meta:
            found += [(node, node.args[i]) for i in node.meta[KEPT].written]
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            continue
        arguments = node.target._schema.arguments
        values = [*zip(arguments, node.args), *((a, node.kwargs.get(a.name)) for a in arguments)]
        found += [
            (node, value)
            for argument, value in values
            if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, Node)
        ]
        running = _running(node)
        found += [(node, b) for b in running if any(b not in _running(user) for user in _readers(b))]
    return found


def _running(node: Node) -> list[Node]:
    """The running averages that a batch norm in training updates, which its schema does not say."""
    if op_name(node) != "aten.batch_norm.default" or not arguments_of(node)[5]:
        return []
    return [buffer for buffer in node.args[3:5] if isinstance(buffer, Node)]


def _readers(node: Node) -> list[Node]:
    return [user for user in node.users if user.op != "output"]


def mutated(graph: Graph) -> dict[Node, Node]:
    """Roots of tensors that something in the graph changes in place, each with what changes it last."""
    root, order = roots(graph), {node: i for i, node in enumerate(graph.nodes)}
    writes = _writes(graph)
    for node in graph.nodes:
        if node.op == "call_function" and isinstance(node.target, HigherOrderOperator):
            held = [a for a in node.all_input_nodes if root[a].op == "placeholder" and a.name.startswith("b_")]
            writes += [(node, buffer) for buffer in held]
    return {root[tensor]: node for node, tensor in sorted(writes, key=lambda write: order[write[0]])}


def drop_empty_operands(graph: Graph) -> None:
    """torch.cat passes over tensors of shape [0], with which code begins that collects results: the graph does, too."""
    for node in graph.nodes:
        if op_name(node) not in ("aten.cat.default", "aten.concat.default"):
            continue
        kept = [a for a in node.args[0] if not (is_tensor(a) and tuple(value_of(a).shape) == (0,))]
        if kept and len(kept) < len(node.args[0]) and all(value_of(a).dtype == value_of(node).dtype for a in kept):
            node.args = (kept, *node.args[1:])
