"""Numbers that a model writes as tensors: torch.min(x, torch.tensor(0.0)).

They reach the graph as constants of no dimensions that are copied where they are used. Beside a tensor with dimensions such a constant
decides neither dtype nor shape, so the algebra may see the number itself; on CUDA it may even lie on the CPU."""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from transfuse.cut.functional import mutated, roots
from transfuse.pytorch.torch_private import FakeTensor

_COPIES = (torch.ops.aten.lift_fresh_copy.default, torch.ops.aten.lift_fresh.default)
_KEEPS = (
    torch.ops.aten.detach.default, torch.ops.aten.detach_.default, torch.ops.aten.clone.default, torch.ops.aten.alias.default,
    torch.ops.aten.to.dtype, torch.ops.aten.to.device, torch.ops.aten.to.dtype_layout, torch.ops.aten._to_copy.default,
)  # fmt: skip


def note_numbers(graph_module: GraphModule, constants: dict[str, torch.Tensor]) -> None:
    """Writes into node.meta["number"] what is known. `constants`: the tensors behind placeholders that hold constants. (The copy is
    what tells torch.tensor(…) in forward(), which never changes, from a tensor that the module keeps and may change.)"""
    root, changed = roots(graph_module.graph), mutated(graph_module.graph)
    for node in graph_module.graph.nodes:
        if root[node] in changed:
            continue
        if node.target in _COPIES:
            tensor = _tensor_of(graph_module, node.args[0], constants)
            if tensor is not None and tensor.dim() == 0 and not tensor.is_complex() and tensor.dtype is not torch.bool:
                node.meta["number"] = tensor.item()
        elif node.target in _KEEPS and isinstance(node.args[0], Node) and "number" in node.args[0].meta:
            value = torch.tensor(node.args[0].meta["number"], dtype=node.args[0].meta["val"].dtype)
            node.meta["number"] = value.to(node.meta["val"].dtype).item()


def _tensor_of(graph_module: GraphModule, node: Node, constants: dict) -> torch.Tensor | None:
    value = getattr(graph_module, node.target, None) if node.op == "get_attr" else constants.get(node.name)
    if isinstance(value, FakeTensor):
        value = value.constant
    return value if isinstance(value, torch.Tensor) else None


def as_tensor(graph, node: Node) -> Node:
    """The constant made anew, for a graph that does not hold it."""
    value = node.meta["val"]
    return graph.call_function(
        torch.scalar_tensor, (node.meta["number"],), {"dtype": value.dtype, "device": value.device}
    )
