"""Inductor's own version of a graph, and of each convolution in it, timed beside ours.

Inductor calls the libraries' convolutions, so it takes no less than they do alone. Where ours is far ahead of these, nothing is
compiled for comparison. A region that Inductor runs faster is left to it. Of one with several convolutions those are left that are
faster there together with what stands behind them (a norm, an activation), and the region is cut at them. What each takes shows in one
run of Inductor's version: from the call of a convolution to that of the next. Ours is timed for each such part alone.
"""

from __future__ import annotations

import functools
import operator
import time
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch.fx import Graph, GraphModule, Interpreter, Node

from transfuse.choose import made_up
from transfuse.cut import regions
from transfuse.pytorch.torch_private import FakeTensorMode, TorchDispatchMode, apart_from_dynamo
from transfuse.run.clock import fastest_on_device, fill_queue, seconds, step
from transfuse.run.direct import region_of
from transfuse.run.region import Region
from transfuse.translate.table import value_of

CLEAR = 0.97  # of the time of the best otherwise: what a cut must promise
RUNS = 5
BRIEF = (4, 0.05)  # rounds and seconds of what is looked at in passing


def version(graph_module: GraphModule, inputs: tuple, settings: dict):
    """Inductor's, as a function of inputs like these. (Without CUDA graphs: the device's time is compared.)"""
    from torch._inductor.compile_fx import compile_fx

    with apart_from_dynamo():
        call = compile_fx(graph_module, list(inputs), config_patches={**settings, "triton.cudagraphs": False})
        step(call, inputs)
    return call


# A convolution's problem as far as Inductor leaves it alone: it adds and drops axes of extent one.
Problem = tuple[tuple[int, ...], ...]


def problem(*tensors) -> Problem:
    return tuple([tuple([n for n in t.shape if n != 1]) for t in tensors])


def problem_of(convolution: Node) -> Problem:
    return problem(*[value_of(operand) for operand in convolution.args[:2]], value_of(convolution))


_FORWARD, _BACKWARD = "aten.convolution.", "aten.convolution_backward."


class Alone(TorchDispatchMode):
    """Adds up what the libraries' convolutions take by themselves, in planes or channels last, whichever is faster."""

    def __init__(self):
        super().__init__()
        self.known: dict[tuple, float] = {}
        self.seconds = 0.0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if str(function).startswith((_FORWARD, _BACKWARD)):
            tensors = [a for a in args if isinstance(a, torch.Tensor)]
            numbers = [a for a in args if not isinstance(a, torch.Tensor)]
            key = (function, *[(a.shape, a.stride(), a.dtype) for a in tensors], str(numbers))
            if key not in self.known:
                last = [_channels_last(a) if isinstance(a, torch.Tensor) else a for a in args]
                both = partial(function, *args), partial(function, *last)
                self.known[key] = min(fastest_on_device(both, tensors[0], *BRIEF))
            self.seconds += self.known[key]
        return function(*args, **(kwargs or {}))


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    form = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim())
    return tensor if form is None else tensor.contiguous(memory_format=form)


def least(region, leaves: tuple, sizes: tuple) -> float:
    """Seconds that PyTorch's convolutions take, without anything around them."""
    with Alone() as seen:
        step(lambda *given: region.eager(*given, *sizes), leaves)
    return seen.seconds


class Stopwatch(TorchDispatchMode):
    """Notes when convolutions are called, forward and backward."""

    def __init__(self, like: torch.Tensor):
        super().__init__()
        self.cuda, self.marks = like.is_cuda, []

    def mark(self):
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        if not name.startswith((_FORWARD, _BACKWARD)):
            return function(*args, **(kwargs or {}))
        when, result = self.mark(), function(*args, **(kwargs or {}))
        forward = name.startswith(_FORWARD)
        self.marks.append((problem(*args[:2], result) if forward else problem(*args[1:3], args[0]), forward, when))
        return result

    def spans(self, end) -> dict[Problem, float]:
        """Seconds from one call to the next; of a problem that is met several times the mean of these."""
        if self.cuda:
            end.synchronize()
        found, often = {}, {}
        for (what, forward, begin), (_, _, next) in zip(self.marks, [*self.marks[1:], (None, None, end)]):
            took = begin.elapsed_time(next) / 1e3 if self.cuda else next - begin
            found[what] = found.get(what, 0.0) + took
            often[what] = often.get(what, 0) + forward
        return {what: took / often[what] for what, took in found.items() if often[what]}


def spans(call, inputs: tuple, like: torch.Tensor) -> dict[Problem, float]:
    """What each convolution of a compiled graph takes with all up to the next one; the least of a few runs."""
    best: dict[Problem, float] = {}
    took = seconds(lambda: step(call, inputs), 1, like)
    for _ in range(RUNS):
        if like.is_cuda:
            fill_queue(2 * took)  # it is looked at on its way
        with Stopwatch(like) as watch:
            step(call, inputs)
            found = watch.spans(watch.mark())
        best = {what: min(took, best.get(what, took)) for what, took in found.items()}
    return best


def with_values(region, leaves: tuple, sizes: tuple) -> GraphModule:
    """PyTorch's version of a region for these sizes alone; each node knows its value."""
    graph, copies, given = Graph(), {}, iter([*leaves, *sizes])
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    inputs = []
    for node in region.eager.graph.nodes:
        if node.op == "placeholder":
            value = next(given)
            if isinstance(value, torch.Tensor):
                inputs.append(fake.from_tensor(value.detach()))
                copies[node] = graph.placeholder(node.name)
            else:
                copies[node] = value
        elif node.target is regions.batch_norm_statistics:
            x, weight, bias, eps, _ = torch.fx.map_arg(node.args, copies.__getitem__)
            norm = (x, weight, bias, None, None, True, 0.0, eps, True)
            copies[node] = graph.call_function(torch.ops.aten.batch_norm.default, norm)
        elif node.target is operator.getitem and node.args[0].target is regions.batch_norm_statistics:
            copies[node] = copies[node.args[0]]  # (the statistics themselves are small beside it)
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    made = GraphModule(region.eager, graph)
    with fake, torch.no_grad():
        _Values(made).run(*inputs)
    return made


class _Values(Interpreter):
    def run_node(self, node: Node):
        node.meta["val"] = result = super().run_node(node)
        return result


def parts(graph_module: GraphModule) -> dict[Node, list[Node]]:
    """Of each convolution the nodes behind it that no later one lies before; what lies before all is the next one's."""
    nodes = list(graph_module.graph.nodes)
    order = {node: i for i, node in enumerate(nodes)}
    last: dict[Node, Node | None] = {}
    for node in nodes:
        before = [last[a] for a in node.all_input_nodes if last[a] is not None]
        last[node] = node if regions.is_convolution(node) else max(before, key=order.__getitem__, default=None)
    for node in reversed(nodes):
        users = [last[user] for user in node.users if last[user] is not None]
        if last[node] is None and users:
            last[node] = min(users, key=order.__getitem__)
    found: dict[Node, list[Node]] = {}
    for node in nodes:
        if node.op not in ("placeholder", "output") and last[node] is not None:
            found.setdefault(last[node], []).append(node)
    return found


def alone(graph_module: GraphModule, nodes: list[Node]) -> GraphModule:
    """These nodes as a graph."""
    graph, copies, inside = Graph(), {}, set(nodes)
    for operand in dict.fromkeys([a for node in nodes for a in node.all_input_nodes if a not in inside]):
        copies[operand] = graph.placeholder(operand.name)
        copies[operand].meta = dict(operand.meta)
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    used = [node for node in nodes if any(user not in inside for user in node.users)]
    graph.output(tuple([copies[node] for node in used if isinstance(value_of(node), torch.Tensor)]))
    return GraphModule(graph_module, graph)


@dataclass
class Call:
    """Of a region in a graph; `wanted`: what gradients may be asked of."""

    region: Region
    node: Node
    wanted: set[Node]

    @functools.cached_property
    def question(self) -> tuple:
        """Calls of which this is equal take equally long."""
        forms = [made_up.form(value_of(leaf), leaf in self.wanted) for leaf in self.node.args[: self.region.leaf_count]]
        sizes = [made_up.hint(value_of(size)) for size in self.node.args[self.region.leaf_count :]]
        return self.region.form, tuple(forms), tuple(sizes), tuple(self.region.inputs)

    @property
    def device(self) -> torch.device:
        return value_of(self.node.args[0]).device

    @property
    def grad(self) -> bool:
        return any([leaf in self.wanted for leaf in self.node.args[: self.region.leaf_count]])

    def arguments(self) -> tuple[tuple, tuple]:
        """Tensors and sizes to try it on."""
        return made_up.arguments(self.node, self.region.leaf_count, self.wanted)

    def seconds(self) -> float:
        """Of ours."""
        leaves, sizes = self.arguments()
        given, ours = self.region.timed(leaves, sizes, self.region.settled_mode(leaves, sizes, self.grad), self.grad)
        return fastest_on_device((partial(step, ours, given),), leaves[0])[0]


def calls(graph_module: GraphModule, wanted: set[Node]) -> list[Call]:
    found = [(region_of(graph_module, node), node) for node in graph_module.graph.nodes]
    return [Call(region, node, wanted) for region, node in found if region is not None]


def pieces(region, graph_module: GraphModule, wants: list[bool]) -> dict[Node, list[Call]]:
    """Of each convolution of a region the calls of ours that compute it with its part of the chain; no entry where that cannot be
    taken alone."""
    nodes = list(graph_module.graph.nodes)
    wanted = {node.name for node in made_up.differentiable(nodes, wants)}
    inputs = [node for node in nodes if node.op == "placeholder"]
    parameters = {node.name for i, node in enumerate(inputs) if i not in region.inputs}
    options = replace(
        region.options, never_slower=False, rest="eager", min_block_size=1, require_full_compilation=False
    )
    found: dict[Node, list[Call]] = {}
    for convolution, part in parts(graph_module).items():
        cut = regions.cut(alone(graph_module, part), parameters, options)
        if not any(line.left for line in cut.lines):
            graph = cut.graph_module
            found[convolution] = calls(graph, {node for node in graph.graph.nodes if node.name in wanted})
    return found
