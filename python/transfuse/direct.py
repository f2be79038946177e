"""A cut graph as a plain function: what an eager call runs. (Tracers see the graph itself, whose regions are modules.)"""

from __future__ import annotations

import torch
from torch.fx import Graph, GraphModule, Node

from transfuse.region import RegionCall


def extent(tensor: torch.Tensor, axis: int) -> int:
    """aten.sym_size, without the way through the dispatcher."""
    return tensor.shape[axis]


def direct(graph_module: GraphModule):
    """The graph's forward with every region called at once, through no module."""
    graph, copies = Graph(), {}
    for node in graph_module.graph.nodes:
        region = _region(graph_module, node)
        if region is not None:
            copies[node] = graph.call_function(_named(region), tuple(copies[a] for a in node.args))
        elif node.target is torch.ops.aten.sym_size.int:
            copies[node] = graph.call_function(extent, (copies[node.args[0]], node.args[1]))
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return GraphModule(graph_module, graph).forward


def _region(graph_module: GraphModule, node: Node):
    if node.op != "call_module":
        return None
    module = graph_module.get_submodule(node.target)
    return module.region if isinstance(module, RegionCall) else None


def _named(region):
    """Generated code calls functions by name."""
    run = region.caller()
    run.__name__ = run.__qualname__ = region.name
    return run
