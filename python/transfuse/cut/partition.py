"""Sets of nodes of a graph that can be taken together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Graph, Node

from transfuse.capture.parts import KEPT
from transfuse.cut.functional import mutated, roots, seen_by_parts
from transfuse.pytorch.torch_private import OpOverload
from transfuse.translate.table import op_name, value_of


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
        if isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags:
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
    above, below = _reachable(graph, nodes, number)
    found: dict[int, Group] = {}  # by their last member
    inside: dict[int, int] = {}  # node → the last member of a group that it was in

    def group_of(i: int) -> int:
        path = []
        while (last := inside[i]) != i:
            path.append(i)
            i = last
        for j in path:
            inside[j] = i
        return i

    for i, node in enumerate(nodes):
        if verdicts.get(node, "") is not None:
            continue
        mine = Group(1 << i, above[i], below[i], _device_of(node))
        inside[i] = i
        for source in node.all_input_nodes:
            if number[source] not in inside:
                continue
            other = group_of(number[source])
            if other == i or found[other].device != mine.device:
                continue
            merged = mine.joined(found[other])
            if merged.is_convex():
                mine = merged
                inside[other] = i
                del found[other]
        found[i] = mine
    return [[nodes[j] for j in _bits(group.members)] for group in found.values()]


@dataclass
class Group:
    """Nodes, and all before and behind them, as bit sets."""

    members: int
    above: int
    below: int
    device: str

    def joined(self, other: Group) -> Group:
        return Group(self.members | other.members, self.above | other.above, self.below | other.below, self.device)

    def is_convex(self) -> bool:
        """Nothing outside lies both before a member and behind one."""
        return not self.above & self.below & ~self.members


def _reachable(graph: Graph, nodes: list[Node], number: dict[Node, int]) -> tuple[list[int], list[int]]:
    """Of each node all that lie before it, and all behind it."""
    extra = order_edges(graph)
    sources = [[number[source] for source in (*node.all_input_nodes, *extra.get(node, ()))] for node in nodes]
    above, below = [0] * len(nodes), [0] * len(nodes)
    for i, before in enumerate(sources):
        for j in before:
            above[i] |= above[j] | 1 << j
    for i in reversed(range(len(nodes))):
        for j in sources[i]:
            below[j] |= below[i] | 1 << i
    return above, below


def _bits(mask: int):
    for i, bit in enumerate(reversed(f"{mask:b}")):
        if bit == "1":
            yield i


def _device_of(node: Node) -> str:
    value = value_of(node)
    value = value[0] if isinstance(value, (list, tuple)) and value else value
    return str(value.device) if isinstance(value, torch.Tensor) else ""


# Operators that move or copy but compute nothing: not worth a place at the border of a region.
_IDLE = ("clone", "contiguous", "alias", "detach", "dropout", "to", "_to_copy", "view", "reshape", "flatten", "unsqueeze", "squeeze",
         "permute", "transpose", "expand")  # fmt: skip
_MOVES = ("permute", "transpose", "swapaxes", "movedim", "moveaxis")
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
        if name[0] in ("reshape", "flatten") and _copies(node):
            continue
        shared = any(user not in kept for user in _written_as(source).users)
        if name[0] in _IDLE or (name[0] in _PARTS and (shared or _written_as(node) is not node)):
            kept.discard(node)
    return [node for node in nodes if node in kept]


def _copies(node: Node) -> bool:
    """Whether a reshape of permuted axes is no view: then a product can write its result where it belongs."""
    if op_name(node.args[0]).split(".")[1:2] not in ([name] for name in _MOVES):
        return False
    try:
        value_of(node.args[0]).view(value_of(node).shape)
    except (RuntimeError, ValueError):
        return True
    return False


def _written_as(node: Node) -> Node:
    """What y[:] is a slice of."""
    while op_name(node) == "aten.slice.Tensor" and value_of(node).shape == value_of(node.args[0]).shape:
        node = node.args[0]
    return node
