"""A cut graph as a plain function: what an eager call runs. (Tracers see the graph itself, whose regions are modules.)"""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, GraphModule, Node

from transfuse.run.region import RegionCall


def extent(tensor: torch.Tensor, axis: int) -> int:
    """aten.sym_size, without the way through the dispatcher."""
    return tensor.shape[axis]


def direct(graph_module: GraphModule):
    """The graph's forward with every region called at once, through no module."""
    graph, copies = Graph(), {}
    for node in graph_module.graph.nodes:
        region = region_of(graph_module, node)
        if region is not None:
            copies[node] = graph.call_function(_named(region), tuple(copies[a] for a in node.args))
        elif node.target is torch.ops.aten.sym_size.int:
            copies[node] = graph.call_function(extent, (copies[node.args[0]], node.args[1]))
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return GraphModule(graph_module, graph).forward


def alone(graph_module: GraphModule):
    """A graph that is one region and gives one of its results: the region, the places of its arguments among the
    graph's inputs, the place of the result among the region's. None: it is more."""
    nodes = list(graph_module.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    rest = nodes[len(inputs) :]
    if [node.op for node in rest] != ["call_module", "call_function", "output"]:
        return None
    call, result, output = rest
    region = region_of(graph_module, call)
    given = result.target is operator.getitem and result.args[0] is call and list(output.args[0]) == [result]
    if region is None or not given or not all([a in inputs for a in call.args]):
        return None
    return region, [inputs.index(a) for a in call.args], result.args[1]


def region_of(graph_module: GraphModule, node: Node):
    if node.op != "call_module":
        return None
    module = graph_module.get_submodule(node.target)
    return module.region if isinstance(module, RegionCall) else None


def _named(region):
    """Generated code calls functions by name."""
    run = region.caller()
    run.__name__ = run.__qualname__ = region.name
    return run
