"""Finds the maximal regions around convolutions that can be taken, and cuts them out of an ATen graph."""

from __future__ import annotations

import collections
import copy
import heapq
import itertools
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch.fx import Graph, GraphModule, Node

from transfuse.capture.parts import KEPT
from transfuse.cut.constants import as_tensor, note_numbers
from transfuse.cut.functional import HELD, drop_empty_operands, functionalize, mutated, roots
from transfuse.cut.gradmode import detach_what_needs_no_gradient
from transfuse.cut.partition import order_edges, partition, trim
from transfuse.cut.sizes import SizeNodes, lower_sizes
from transfuse.native import library
from transfuse.options import Options
from transfuse.pytorch.torch_private import HigherOrderOperator, OpOverload, move_each_
from transfuse.run.region import Region
from transfuse.translate.table import Translator, Unsupported, arguments_of, functional_name, op_name, reason, value_of

CONVOLUTIONS = ("conv_transpose", "conv1d", "conv2d", "conv3d", "convolution")


@dataclass
class Line:
    """What became of one operator."""

    op: str
    module: str
    taken: str | None  # name of the region
    reason: str | None = None
    idle: bool = False  # a constant, or only renames what a region made: nothing is computed
    node: str = ""
    compared: str | None = None  # times that decided of it

    @property
    def left(self) -> bool:
        return self.taken is None and not self.idle


@dataclass
class Cut:
    graph_module: GraphModule
    regions: list[Region]
    options: Options
    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what was compared, of a graph whose rest is compiled
    again: Callable[[dict[str, str]], Cut] | None = (
        None  # the same graph, convolutions of these names left, with a reason each
    )

    def become(self, other: Cut) -> None:
        """What it can be cut into again stays."""
        self.graph_module, self.regions, self.lines, self.notes = (
            other.graph_module,
            other.regions,
            other.lines,
            other.notes,
        )

    def lost_to_sizes(self) -> bool:
        return any(line.reason and "only the call tells" in line.reason for line in self.lines)


def is_convolution(node: Node) -> bool:
    name = op_name(node)
    return node.op == "call_function" and name.startswith("aten.") and name.split(".")[1].startswith(CONVOLUTIONS)


def is_linear(node: Node) -> bool:
    return node.op == "call_function" and op_name(node) in ("aten.linear.default", "aten.matmul.default")


def module_of(node: Node) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    path = ""
    for value in stack.values():
        path = value[0] if isinstance(value, tuple) else str(value)
    return path.removeprefix("L['self'].").replace("slice(None, None, None)", "")


def excluded(node: Node, ops: tuple) -> bool:
    names = {str(o).removeprefix("torch.ops.") for o in ops}
    name = op_name(node)
    packet = ".".join(name.split(".")[:2])
    return bool(names & {name, packet, packet.removeprefix("aten."), functional_name(name)})


def judge(graph: Graph, options: Options, sizes: SizeNodes, left: dict[str, str]) -> dict[Node, str | None]:
    """For each computing node: None if it can be taken, else why not. `left`: nodes' names and reasons."""
    root, changed = roots(graph), mutated(graph)
    order = {node: i for i, node in enumerate(graph.nodes)}
    verdicts: dict[Node, str | None] = {}

    def unsettled(operand: Node) -> bool:
        """Whether it will be changed. (What has been changed for the last time is as good as any, and so is memory of a result's own
        that somebody changes later.)"""
        return root.get(operand) in changed and order[operand] < order[changed[root[operand]]]

    for node in graph.nodes:
        if node.op not in ("call_function", "call_module", "call_method"):
            continue
        if "number" in node.meta:
            verdicts[node] = "a constant"
        elif KEPT in node.meta:
            verdicts[node] = node.meta[KEPT].reason
        elif excluded(node, options.torch_executed_ops):
            verdicts[node] = "listed in torch_executed_ops"
        elif node.name in left:
            verdicts[node] = left[node.name]
        elif (root[node] in changed and root[node] is not node) or any(map(unsettled, node.all_input_nodes)):
            verdicts[node] = "it reads or makes a tensor that is changed in place"
        else:
            verdicts[node] = reason(node, sizes)
    for node in graph.nodes:  # a tuple and its elements go together
        if node.target is operator.getitem and node.args[0] in verdicts:
            verdicts[node] = verdicts[node] or verdicts[node.args[0]]
            verdicts[node.args[0]] = verdicts[node.args[0]] or verdicts[node]
    for node in graph.nodes:
        if node.target is operator.getitem and verdicts.get(node.args[0]):
            verdicts[node] = verdicts[node.args[0]]
    return verdicts


def _types(node: Node, parameters: set[Node]) -> str:
    value = value_of(node)
    sizes = ",".join(str(int(s) if isinstance(s, int) else s.node.hint) for s in value.shape)
    return f"{'param' if node in parameters else 'input'} {library.DTYPES[value.dtype]}[{sizes}]"


def cut(
    graph_module: GraphModule,
    parameter_names: set[str],
    options: Options,
    constants: dict[str, torch.Tensor] | None = None,
    left: dict[str, str] | None = None,
) -> Cut:
    """Replaces every region of a graph by a call; the rest stays as it is. `left`: what is not to be taken, by name, and why."""
    again = None
    if options.rest == "inductor" and not left:
        uncut = _copied(graph_module)
        again = lambda left: cut(_copied(uncut), parameter_names, options, constants, left)  # noqa: E731
    graph = graph_module.graph
    for node in graph.nodes:
        if node.op == "placeholder" and node.name in parameter_names:
            node.meta[HELD] = True
    detach_what_needs_no_gradient(graph_module)
    drop_empty_operands(graph)
    functionalize(graph)
    note_numbers(graph_module, constants or {})
    sizes = lower_sizes(graph)
    verdicts = judge(graph, options, sizes, left or {})
    parameters = _parameter_expressions(graph, parameter_names)
    if options.freeze:  # what PyTorch computes from parameters it computes at every call
        parameters = {node for node in parameters if node.op == "placeholder"}
    regions: list[Region] = []
    where: dict[Node, str] = {}
    for nodes in partition(graph, verdicts):
        nodes = trim(nodes)
        count = sum(node.target is not operator.getitem for node in nodes)
        refusal = None
        if not any(is_convolution(node) for node in nodes):
            refusal = "no convolution beside it"
        elif count < options.min_block_size:
            refusal = f"a region of {count} operators, min_block_size is {options.min_block_size}"
        else:
            try:
                region = _replace(graph_module, nodes, f"region_{len(regions)}", parameters, options, sizes)
                regions.append(region)
                where.update({node: region.name for node in nodes})
                continue
            except (Unsupported, library.CompileError) as error:
                refusal = str(error)
        for node in nodes:
            verdicts[node] = refusal
    lines = _lines(verdicts, where)
    for region in regions:
        for node in region.nodes_to_erase:
            graph.erase_node(node)
        region.nodes_to_erase = []
    for node in reversed(list(graph.nodes)):
        if "number" in node.meta and not node.users:
            graph.erase_node(node)
    sizes.drop_unused()
    _count_together(graph)
    graph.lint()
    return Cut(_apart(graph_module, regions), regions, options, lines, again=again)


def _copied(graph_module: GraphModule) -> GraphModule:
    return GraphModule(graph_module, copy.deepcopy(graph_module.graph))


def _apart(graph_module: GraphModule, regions: list[Region]) -> GraphModule:
    """The graph in nodes of its own: torch.export holds those of the last graph that it made, and through them its modules."""
    graph = Graph()
    graph.output(graph.graph_copy(graph_module.graph, {}))
    made = GraphModule(graph_module, graph)
    for region in regions:
        graph_module.delete_submodule(region.name)
    return made


def _count_together(graph: Graph) -> None:
    """Batch norms count their batches: all counters that nobody else looks at go up in one launch."""
    groups: dict[tuple, list[Node]] = {}
    for node in graph.nodes:
        if op_name(node) != "aten.add_.Tensor" or node.users or len(node.args) != 2 or node.kwargs:
            continue
        counter, step = node.args
        if not isinstance(counter, Node) or counter.op != "placeholder" or len(counter.users) != 1:
            continue
        value = value_of(counter)
        if isinstance(step, int) and isinstance(value, torch.Tensor) and value.dim() == 0:
            groups.setdefault((value.dtype, value.device, step), []).append(node)
    for (_, _, step), nodes in groups.items():
        if len(nodes) < 2:
            continue
        with graph.inserting_before(nodes[0]):
            graph.call_function(torch.ops.aten._foreach_add_.Scalar, ([node.args[0] for node in nodes], step))
        for node in nodes:
            graph.erase_node(node)


def _lines(verdicts, where) -> list[Line]:
    lines = []
    for node, refusal in verdicts.items():
        if KEPT in node.meta:
            kept = node.meta[KEPT]
            lines.append(Line(kept.title, kept.path, None, refusal, node=node.name))
            continue
        if node.target is operator.getitem or not isinstance(node.target, (OpOverload, HigherOrderOperator)):
            continue
        if op_name(node).startswith(("aten.sym_", "aten._assert", "aten.add_.Tensor")) and node not in where:
            value = value_of(node)
            if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                continue
        taken = where.get(node)
        idle = not taken and (not refusal or "number" in node.meta)
        why = None if taken else refusal or "only a view of what a region made"
        lines.append(Line(op_name(node), module_of(node), taken, why, idle, node.name))
    return lines


def _parameter_expressions(graph: Graph, names: set[str]) -> set[Node]:
    """Placeholders of parameters and buffers, and what is computed from them alone."""
    found = set()
    for node in graph.nodes:
        if node.op == "placeholder" and node.name in names:
            found.add(node)
        elif node.op == "call_function" and node.all_input_nodes and all(a in found for a in node.all_input_nodes):
            found.add(node)
    return found


def _replace(
    graph_module: GraphModule, nodes: list[Node], name: str, parameters: set[Node], options: Options, symbols: SizeNodes
) -> Region:
    graph = graph_module.graph
    inside = set(nodes)
    translator = Translator(symbols)
    for node in nodes:
        translator.translate(node)
    outputs = [n for n in nodes if isinstance(translator.names[n], str) and any(user not in inside for user in n.users)]
    statistics = translator.statistics
    # Buffers last: in eval mode a region has the leaves it has in train mode, then its statistics.
    leaves, sizes = sorted(translator.leaves, key=lambda leaf: leaf.name.startswith("b_")), list(translator.sizes)
    if not outputs:
        raise Unsupported("nothing that it computes is used")
    lines = [f"  {translator.leaves[leaf]} = {_types(leaf, parameters)}" for leaf in leaves]
    lines += [f"  {statement}" for statement in translator.statements]
    results = [translator.names[n] for n in outputs] + [value for *_, value in statistics]
    for i, result in enumerate(results):  # an output is a value of its own, never a leaf and never named twice
        if result in translator.leaves.values() or result in results[:i]:
            results[i] = f"%out{i}"
            lines.append(f"  %out{i} = identity({result})")
    text = f"graph {name} {{\n" + "\n".join(lines) + f"\n  return {', '.join(results)}\n}}\n"
    example = re.sub(r"\$(\d+)", lambda number: str(value_of(sizes[int(number[1])]).node.hint), text)
    _agree(library.infer(example), outputs)

    region = Region(
        name=name, text=text, example=example, eager=_eager(nodes, leaves, sizes, outputs, statistics),
        leaf_count=len(leaves), size_count=len(sizes), inputs=[i for i, leaf in enumerate(leaves) if leaf not in parameters],
        differentiable=len(outputs), reach=_reach(nodes, leaves, outputs), multiplied=_multiplied(nodes, leaves),
        weights=_weights(nodes, leaves, is_convolution), linear=sorted(set().union(*_weights(nodes, leaves, is_linear))),
        options=options, ops=[op_name(n) for n in nodes if n.target is not operator.getitem],
    )  # fmt: skip
    graph_module.add_submodule(name, region.module())
    # After everything it reads, before everything that reads it: right after the last of its nodes' operands.
    order = {node: i for i, node in enumerate(graph.nodes)}
    last = max([*leaves, *sizes], key=order.__getitem__)
    users = [user for node in outputs for user in node.users if user not in inside]
    with graph.inserting_after(_after_placeholders(graph, last)):
        call = graph.call_module(name, tuple(leaves) + tuple(sizes))
    cursor = call
    for i, node in enumerate(outputs):
        with graph.inserting_after(cursor):
            cursor = graph.call_function(operator.getitem, (call, i))
        cursor.meta = dict(node.meta)
        node.replace_all_uses_with(
            cursor, delete_user_cb=lambda user, made=cursor: user not in inside and user is not made
        )
    # A norm that is called several times moves its buffers one step after another: those of one launch are different ones.
    steps: collections.Counter[Node] = collections.Counter()
    updates: dict[
        tuple[int, float], list[tuple[Node, Node]]
    ] = {}  # step, momentum → buffers and what they move towards
    for i, (buffer, momentum, _, _) in enumerate(statistics):
        with graph.inserting_after(cursor):
            cursor = graph.call_function(operator.getitem, (call, len(outputs) + i))
        updates.setdefault((steps[buffer], momentum), []).append((buffer, cursor))
        steps[buffer] += 1
    for (_, momentum), pairs in sorted(updates.items(), key=lambda update: update[0][0]):
        with graph.inserting_after(cursor):
            cursor = graph.call_function(update_statistics, ([b for b, _ in pairs], momentum, [v for _, v in pairs]))
    region.nodes_to_erase = list(reversed(nodes))
    if any(order[user] <= order[last] for user in users):
        _sort(graph)
    return region


def _flow(nodes: list[Node], leaves: list[Node]) -> dict[Node, set[int]]:
    """For each node the leaves that a gradient can flow to: not through detach."""
    found: dict[Node, set[int]] = {leaf: {i} for i, leaf in enumerate(leaves)}
    for node in nodes:
        sources = [] if op_name(node) == "aten.detach.default" else node.all_input_nodes
        found[node] = set().union(*(found.get(source, set()) for source in sources))
    return found


def _reach(nodes: list[Node], leaves: list[Node], outputs: list[Node]) -> list[list[int]]:
    flow = _flow(nodes, leaves)
    return [sorted(flow[node]) for node in outputs]


def _multiplied(nodes: list[Node], leaves: list[Node]) -> list[int]:
    """The leaves that reach the input or the weight of a convolution: its backward multiplies what comes back to them."""
    flow = _flow(nodes, leaves)
    operands = [operand for node in nodes if is_convolution(node) for operand in node.args[:2]]
    return sorted(set().union(*(flow.get(operand, set()) for operand in operands)))


def _weights(nodes: list[Node], leaves: list[Node], kind: Callable[[Node], bool]) -> list[list[int]]:
    """Of each convolution (or linear layer), in their order, the leaves that its weight is made of: not those behind another one."""
    made: dict[Node, set[int]] = {leaf: {i} for i, leaf in enumerate(leaves)}
    for node in nodes:
        sources = [] if kind(node) else node.all_input_nodes
        made[node] = set().union(*(made.get(source, set()) for source in sources))
    return [sorted(made.get(node.args[1], ())) for node in nodes if kind(node)]


def _after_placeholders(graph: Graph, node: Node) -> Node:
    if node.op != "placeholder":
        return node
    last = node
    while last.next.op == "placeholder":
        last = last.next
    return last


def _sort(graph: Graph) -> None:
    """Moves the call's users behind it where the cut has put them before: a stable topological order."""
    position = {node: i for i, node in enumerate(graph.nodes)}
    edges = order_edges(graph)
    sources = {node: {*node.all_input_nodes, *edges.get(node, ())} for node in graph.nodes}
    users: dict[Node, list[Node]] = {}
    for node, before in sources.items():
        for source in before:
            users.setdefault(source, []).append(node)
    waiting = {node: len(before) for node, before in sources.items()}
    ready = [position[n] for n, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    by_position = {i: n for n, i in position.items()}
    ordered = []
    while ready:
        node = by_position[heapq.heappop(ready)]
        ordered.append(node)
        for user in users.get(node, ()):
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, position[user])
    if len(ordered) != len(position):
        raise Unsupported("a cycle through what stays with PyTorch")
    for earlier, later in itertools.pairwise(ordered):
        if earlier.next is not later:
            earlier.append(later)


def _agree(types: list[str], outputs: list[Node]) -> None:
    for text, node in zip(types, outputs):
        value = value_of(node)
        sizes = ",".join(str(int(s) if isinstance(s, int) else s.node.hint) for s in value.shape)
        expected = f"{library.DTYPES[value.dtype]}[{sizes}]"
        if text != expected:
            raise Unsupported(f"{op_name(node)} would give {text}, PyTorch gives {expected}")


def batch_norm_statistics(x, weight, bias, eps, dtype):
    """Training batch norm, its batch mean and its unbiased variance, as PyTorch computes them for the running averages."""
    mean = torch.zeros(x.shape[1], dtype=dtype, device=x.device)
    var = torch.zeros_like(mean)
    y = torch.batch_norm(x, weight, bias, mean, var, True, 1.0, eps, torch.backends.cudnn.enabled)
    return y, mean, var


def update_statistics(buffers, momentum, values):
    """running = (1 − momentum)·running + momentum·batch, of all buffers in one launch"""
    move_each_(buffers, [v.detach() for v in values], momentum)  # without no_grad, which torch.export cannot load again


def _eager(nodes, leaves, sizes, outputs, statistics) -> GraphModule:
    """The region as PyTorch would run it: leaves and sizes in, outputs and batch statistics out."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in [*leaves, *sizes]:
        copies[node] = graph.placeholder(node.name)
    batch: dict[tuple[Node, Node], Node] = {}  # (buffer, normalised value) → its batch statistic
    updated = {(buffer, x) for buffer, _, x, _ in statistics}
    for node in nodes:
        if op_name(node) == "aten.batch_norm.default":
            x, weight, bias, mean, var, _, _, eps, _ = arguments_of(node)
            if (mean, x) in updated:
                operands = [copies[a] if isinstance(a, Node) else a for a in (x, weight, bias)]
                call = graph.call_function(batch_norm_statistics, (*operands, eps, value_of(mean).dtype))
                copies[node] = graph.call_function(operator.getitem, (call, 0))
                batch[mean, x] = graph.call_function(operator.getitem, (call, 1))
                batch[var, x] = graph.call_function(operator.getitem, (call, 2))
                continue
        for operand in node.all_input_nodes:
            if operand not in copies:  # read as a number
                copies[operand] = as_tensor(graph, operand)
        copies[node] = graph.node_copy(node, copies.__getitem__)
        value = value_of(node)
        copies[node].meta = {"rank": value.dim()} if isinstance(value, torch.Tensor) else {}
    results = [copies[n] for n in outputs] + [batch[buffer, x] for buffer, _, x, _ in statistics]
    graph.output(tuple(results))
    return GraphModule({}, graph)
