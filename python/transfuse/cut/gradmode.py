"""no_grad inside a model: what is computed there becomes detached values, so that regions need not end at its borders."""

from __future__ import annotations

import operator

import torch
from torch.fx import GraphModule, Node

from transfuse.pytorch.torch_private import OpOverload, set_grad_enabled
from transfuse.translate.table import Unsupported, is_inplace, op_name

_WRAPPED = torch.ops.higher_order.wrap_with_set_grad_enabled


def detach_what_needs_no_gradient(graph_module: GraphModule) -> None:
    """Replaces torch.no_grad() in a graph, written by torch.export as an operator around a graph of its own and by
    torch.compile as switches between nodes, by aten.detach at its borders."""
    for node in list(graph_module.graph.nodes):
        if node.target is _WRAPPED and node.args[0] is False:
            _inline(graph_module, node)
    _remove_switches(graph_module)


def _cut_off(graph_module: GraphModule, block: list[Node]) -> None:
    """Detaches what leaves a block, where it can still share work with the rest; or what enters it, if it writes to tensors:
    PyTorch refuses to write where a gradient would flow."""
    inside = set(block)
    if any(op_name(node).startswith("aten.set_.") for node in block):
        raise Unsupported("a tensor is given other memory")
    _read_what_was_written(block, inside)
    writes = any(isinstance(n.target, OpOverload) and n.target._schema.is_mutable for n in block)
    border: dict[Node, list[Node]] = {}
    for node in block:
        if writes:
            running = (
                node.args[3:5] if node.target is torch.ops.aten.batch_norm.default else ()
            )  # no gradient flows there
            for operand in node.all_input_nodes:
                if operand not in inside and operand not in running:
                    border.setdefault(operand, []).append(node)
        elif outside := [user for user in node.users if user not in inside]:
            border[node] = outside
    for node, users in border.items():
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            continue
        place = block[0].prev if writes else node
        with graph_module.graph.inserting_after(place):
            made = graph_module.graph.call_function(torch.ops.aten.detach.default, (node,))
        made.meta = {k: v for k, v in node.meta.items() if k in ("val", "nn_module_stack")}
        node.replace_all_uses_with(made, delete_user_cb=lambda user, users=users: user in users)


def _read_what_was_written(block: list[Node], inside: set[Node]) -> None:
    """An in-place operator gives the tensor that it wrote to. Outside of the block that is the tensor as it was before it entered:
    a parameter that is clamped under no_grad still wants its gradient."""
    for node in block:
        source = node
        while source in inside and is_inplace(source) and isinstance(source.args[0], Node):
            source = source.args[0]
        if source not in inside:
            node.replace_all_uses_with(source, delete_user_cb=lambda user: user not in inside)


def _inline(graph_module: GraphModule, node: Node) -> None:
    _, inner, *operands = node.args
    body = getattr(graph_module, inner.target).graph
    placeholders = [n for n in body.nodes if n.op == "placeholder"]
    if any(n.op not in ("placeholder", "call_function", "output") for n in body.nodes) or len(placeholders) != len(
        operands
    ):
        return  # graphs inside graphs: PyTorch runs it
    if any(user.target is not operator.getitem for user in node.users):
        return
    copies: dict[Node, Node] = dict(zip(placeholders, operands))
    graph, block = graph_module.graph, []
    with graph.inserting_before(node):
        for inside in body.nodes:
            if inside.op == "call_function":
                copies[inside] = graph.node_copy(inside, lambda n: copies[n])
                block.append(copies[inside])
    (results,) = body.output_node().args
    for user in list(node.users):
        user.replace_all_uses_with(copies[results[user.args[1]]])
        graph.erase_node(user)
    graph.erase_node(node)
    if not inner.users:
        graph.erase_node(inner)
    if block:
        _cut_off(graph_module, block)


def _remove_switches(graph_module: GraphModule) -> None:
    graph = graph_module.graph
    settings = [n.args[0] for n in graph.nodes if n.target is set_grad_enabled]
    if not settings:
        return
    if settings[0] or not settings[-1]:
        raise Unsupported("gradients are switched on inside, or are left switched off")
    blocks: list[list[Node]] = []
    enabled = True
    for node in list(graph.nodes):
        if node.target is set_grad_enabled:
            if enabled and not node.args[0]:
                blocks.append([])
            enabled = node.args[0]
            graph.erase_node(node)
        elif not enabled and node.op == "call_function":
            blocks[-1].append(node)
    for block in blocks:
        if block:
            _cut_off(graph_module, block)
