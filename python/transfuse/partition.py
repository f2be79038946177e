"""Sets of nodes of a graph that can be taken together."""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

from transfuse.functional import mutated, roots, seen_by_parts
from transfuse.parts import KEPT
from transfuse.translate import op_name, value_of


def order_edges(graph: Graph) -> dict[Node, list[Node]]:
    """Predecessors that data flow does not show: touching a tensor that is changed in place, and drawing random numbers."""
    root = roots(graph)
    changed = mutated(graph).keys() | seen_by_parts(graph, root)
    last: dict[object, Node] = {}
    edges: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        touched = {root[n] for n in [node, *node.all_input_nodes] if root[n] in changed}
        if isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags:
            touched.add("random numbers")
        if KEPT in node.meta:  # whatever hooks do, they do in order
            touched.add("random numbers")
        for what in touched:
            if what in last:
                edges.setdefault(node, []).append(last[what])
            last[what] = node
    return edges


def partition(graph: Graph, verdicts: dict[Node, str | None]) -> list[list[Node]]:
    """Connected sets of takeable nodes, as large as convexity allows: no path may leave a set and come back."""
    nodes = list(graph.nodes)
    number = {node: i for i, node in enumerate(nodes)}
    ancestors = []  # bit sets
    extra = order_edges(graph)
    for node in nodes:
        bits = 0
        for source in [*node.all_input_nodes, *extra.get(node, ())]:
            bits |= ancestors[number[source]] | 1 << number[source]
        ancestors.append(bits)
    group: dict[int, int] = {}  # node → id
    members: dict[int, int] = {}  # id → bit set
    device: dict[int, str] = {}

    def bits_of(mask):
        while mask:
            low = mask & -mask
            yield low.bit_length() - 1
            mask ^= low

    def convex(mask: int) -> bool:
        above = 0
        for i in bits_of(mask):
            above |= ancestors[i]
        outside = above & ~mask
        # A node outside that feeds the set must not itself depend on the set.
        return all(not ancestors[i] & mask for i in bits_of(outside))

    for i, node in enumerate(nodes):
        if verdicts.get(node, "") is not None:
            continue
        mine = 1 << i
        kind = _device_of(node)
        for source in node.all_input_nodes:
            other = group.get(number[source])
            if other is None or device[other] != kind:
                continue
            if members[other] & mine:
                continue
            merged = mine | members[other]
            if convex(merged):
                mine = merged
        for j in bits_of(mine):
            members.pop(group.get(j, -1), None)
        members[i], device[i] = mine, kind
        for j in bits_of(mine):
            group[j] = i
    return [[nodes[j] for j in bits_of(mask)] for mask in members.values()]


def _device_of(node: Node) -> str:
    value = value_of(node)
    value = value[0] if isinstance(value, (list, tuple)) and value else value
    return str(value.device) if isinstance(value, torch.Tensor) else ""


# Operators that move or copy but compute nothing: not worth a place at the border of a region.
_IDLE = ("clone", "contiguous", "alias", "detach", "dropout", "to", "_to_copy", "view", "reshape", "flatten", "unsqueeze", "squeeze",
         "permute", "transpose", "expand")  # fmt: skip
# Part of a tensor: what else there is of it need not be computed, unless somebody asks for it too.
_PARTS = ("slice", "select", "narrow")
_SPLITS = ("split", "split_with_sizes", "chunk")


def trim(nodes: list[Node]) -> list[Node]:
    """Without operators at the outputs that only copy or rename: PyTorch does those as views, and they stay views."""
    kept = set(nodes)
    for node in reversed(nodes):
        name = op_name(node).split(".")[1:2]
        source = node.args[0] if node.args else None
        if name and name[0] in _SPLITS and source in kept and len(node.users) > 1:
            if not any(user in kept for part in node.users for user in part.users):
                kept -= {node, *node.users}
        if not name or source not in kept or any(user in kept for user in node.users):
            continue
        shared = any(user not in kept for user in _written_as(source).users)
        if name[0] in _IDLE or (name[0] in _PARTS and (shared or _written_as(node) is not node)):
            kept.discard(node)
    return [node for node in nodes if node in kept]


def _written_as(node: Node) -> Node:
    """What y[:] is a slice of."""
    while op_name(node) == "aten.slice.Tensor" and value_of(node).shape == value_of(node.args[0]).shape:
        node = node.args[0]
    return node
