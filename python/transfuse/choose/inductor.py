"""The rest of a cut graph goes to Inductor, with every region of ours as one operator in it (`region_operators.py`).

The graph is compiled as PyTorch's own backend would compile it, before AOTAutograd, so that training, dynamic sizes, layouts, modes and
caches are PyTorch's. Whether a region is ours is decided here, once, on made-up tensors like those of the first call: under CUDA graphs
nothing can be tried later, and what is PyTorch's goes into the graph operator by operator, where Inductor fuses it.
"""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, GraphModule, Node

from transfuse.choose import made_up
from transfuse.cut.regions import update_statistics
from transfuse.pytorch.torch_private import FakeTensor
from transfuse.run import region_operators
from transfuse.run.direct import region_of
from transfuse.translate.table import Unsupported, value_of


def patches(mode: str | None) -> dict:
    """Inductor's settings for a mode of torch.compile."""
    from torch._inductor import list_mode_options

    return dict(list_mode_options(mode)) if mode else {}


def compiled(graph_module: GraphModule, example_inputs: list, settings: dict):
    """For a backend of torch.compile."""
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(graph_module, example_inputs, config_patches=settings)


def graphs_calls(settings: dict) -> bool:
    """Whether Inductor records calls in CUDA graphs."""
    from torch._inductor import config

    return settings.get("triton.cudagraphs", config.triton.cudagraphs)


def reset() -> None:
    """As torch.compile resets its own backend: what CUDA graphs hold goes."""
    from torch._inductor.cudagraph_trees import reset_cudagraph_trees

    reset_cudagraph_trees()


def with_operators(graph_module: GraphModule, wants: list[bool], own_memory: bool) -> GraphModule:
    """A cut graph with its regions as operators; those that cannot run are PyTorch's, as they were. `wants`: of each input, whether a
    gradient may be asked for."""
    nodes = list(graph_module.graph.nodes)
    differentiable = made_up.differentiable(nodes, wants)
    regions, numbers = {}, {}
    for node in nodes:
        if (region := region_of(graph_module, node)) is not None:
            device = value_of(node.args[0]).device.type
            numbers[node], regions[node] = region_operators.numbered(region, device, own_memory)
    ours = {
        node
        for node, region in regions.items()
        if region.settle(*made_up.arguments(node, region.leaf_count, differentiable))
    }
    graph, copies = Graph(), {}
    for node in nodes:
        if node in ours:
            region, arguments = regions[node], [copies[a] for a in node.args]
            leaves, sizes = arguments[: region.leaf_count], arguments[region.leaf_count :]
            copies[node] = graph.call_function(torch.ops.transfuse.region.default, (leaves, numbers[node], sizes))
        elif node in regions:
            copies[node] = _inlined(graph, regions[node].eager, [copies[a] for a in node.args])
        elif node.target is operator.getitem and isinstance(copies.get(node.args[0]), tuple):
            copies[node] = copies[node.args[0]][node.args[1]]
        elif node.target is update_statistics:
            _update_statistics(graph, *torch.fx.map_arg(node.args, copies.__getitem__))
        elif node.op == "get_attr":
            copies[node] = _constant(graph, graph_module, node)
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    made = GraphModule(graph_module, graph)
    made.meta.update(graph_module.meta)
    return made


def keep_sources(made: GraphModule, given: GraphModule) -> None:
    """What Dynamo and AOTAutograd say of a graph's inputs: which are parameters, and so lie still."""
    pairs = zip(*[[n for n in g.graph.nodes if n.op == "placeholder"] for g in (made, given)], strict=True)
    for own, other in pairs:
        own.meta = {**own.meta, **other.meta}
        if hasattr(other, "_dynamo_source"):
            own._dynamo_source = other._dynamo_source
    made.meta.update(given.meta)
    if hasattr(given, "_param_name_to_source"):
        made._param_name_to_source = given._param_name_to_source


def plain(region, sizes: tuple) -> GraphModule:
    """PyTorch's version of a region for these sizes alone: leaves in, results out."""
    graph = Graph()
    inputs = [node.name for node in region.eager.graph.nodes if node.op == "placeholder"]
    leaves = [graph.placeholder(name) for name in inputs[: region.leaf_count]]
    graph.output(_inlined(graph, region.eager, [*leaves, *sizes]))
    return GraphModule({}, graph)


def _inlined(graph: Graph, eager: GraphModule, arguments: list) -> tuple:
    """PyTorch's own operators in the place of a region; its results."""
    given, copies = iter(arguments), {}
    for node in eager.graph.nodes:
        if node.op == "placeholder":
            copies[node] = next(given)
        elif node.op == "output":
            return tuple([copies[result] for result in node.args[0]])
        elif node.op == "get_attr":
            copies[node] = _constant(graph, eager, node)
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    raise AssertionError("a graph without an output")


def _update_statistics(graph: Graph, buffers, momentum, values) -> None:
    """In operators, which AOTAutograd's cache knows."""
    towards = [graph.call_function(torch.ops.aten.detach.default, (value,)) for value in values]
    graph.call_function(torch.ops.aten._foreach_lerp_.Scalar, (list(buffers), towards, momentum))


MOST_WRITTEN = 1 << 12  # numbers of a tensor


def _constant(graph: Graph, owner: GraphModule, node: Node) -> Node:
    """A tensor of the graph's own is written down, as Dynamo writes it: Inductor is given none with the graph."""
    value = getattr(owner, node.target)
    if not isinstance(value, torch.Tensor):
        return graph.node_copy(node)
    value = getattr(value, "constant", None) if isinstance(value, FakeTensor) else value
    if value is None or value.numel() > MOST_WRITTEN:
        raise Unsupported("a large tensor is written down in the graph")
    made = graph.call_function(torch.tensor, (value.tolist(),), {"dtype": value.dtype, "device": value.device})
    return graph.call_function(torch.ops.aten.reshape.default, (made, list(value.shape)))
