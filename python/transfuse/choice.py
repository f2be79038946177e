"""What of a graph is ours where Inductor compiles the rest: chosen when the graph is compiled, on made-up tensors like those of its first
call, since under CUDA graphs nothing can be tried later.

A region that Inductor runs faster is left to it, or those of its convolutions that are faster there (`candidates.py`), and the graph is
cut anew around what is left. That this is faster is a guess, as a cut takes from either side what it fuses across. So where the graph is
more than one region of ours, it is timed as a whole beside Inductor's alone. What was chosen is kept on disk.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import torch
from torch.fx import GraphModule

from transfuse import candidates, fallback, inductor, library, made_up, on_disk, regions
from transfuse.clock import fastest_on_device, step
from transfuse.direct import region_of
from transfuse.precision import allows_tf32
from transfuse.region import EVEN, Region
from transfuse.regions import Cut
from transfuse.translate import value_of
from transfuse.trials import is_one_of_many, unseen


FAR = 0.75  # of Inductor's time for a region: so far ahead, nothing is gained by leaving some of it


@dataclass
class Chosen:
    """By the names of convolutions."""

    left: dict[str, str] = field(default_factory=dict)  # to Inductor, and why
    compared: dict[str, str] = field(default_factory=dict)  # with what stands behind each
    lean: list[str] = field(default_factory=list)  # ours without scratch memory for the sake of speed
    notes: list[str] = field(default_factory=list)


def chosen(cut: Cut, values: list, wants: list[bool], settings: dict, own_memory: bool) -> GraphModule:
    """The graph with our operators in it; the cut becomes what was chosen. `values`: fake, of the graph's inputs; `wants`: of each,
    whether a gradient may be asked for."""
    if cut.regions and cut.options.never_slower and not is_one_of_many():
        question = _question(cut, values, wants, settings)
        known = on_disk.find("choices", question)
        if known is None:
            with unseen(), torch.random.fork_rng(devices=_devices(values)):
                found = _compared(cut, values, wants, settings, own_memory)
            on_disk.keep("choices", question, vars(found))
        else:
            found = Chosen(**known)
        if found.left:
            cut.become(cut.again(found.left))
        cut.notes = found.notes
        for line in cut.lines:
            line.compared = found.compared.get(line.node)
        for region in cut.regions:
            region.lean = not set(found.lean).isdisjoint(_convolutions(region))
    return inductor.with_operators(cut.graph_module, wants, own_memory)


def whole(cut: Cut, parameters: int, mode: str | None, own_results: bool):
    """A cut graph of optimize() as a function that torch.compile compiles at its first calls; its inputs begin with so many parameters
    and buffers. `own_results`: what it gives lies in no CUDA graph's memory."""
    settings, found = inductor.patches(mode), {}
    graphs = inductor.graphs_calls(settings)
    values = [value_of(node) for node in cut.graph_module.graph.nodes if node.op == "placeholder"]

    def run(*inputs):
        wants = [torch.is_grad_enabled() and isinstance(a, torch.Tensor) and a.requires_grad for a in inputs]
        call = found.get(any(wants))
        if call is None:
            own = cut.again({})
            made = chosen(own, values, wants, settings, graphs)
            call = found[any(wants)] = torch.compile(made, options=settings)
            cut.become(own)
        if graphs:  # they lie still, and are not copied
            for held in inputs[:parameters]:
                torch._dynamo.mark_static_address(held, guard=False)
        results = call(*inputs)
        return [r.clone() if isinstance(r, torch.Tensor) else r for r in results] if own_results else results

    return run


def _question(cut: Cut, values: list, wants: list[bool], settings: dict) -> str:
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    told = [f"{t.dtype}{[made_up.hint(n) for n in (*t.shape, *t.stride())]}" for t in tensors]
    parts = [(region.text, region.eager.code) for region in cut.regions]
    cudnn = torch.backends.cudnn
    switches = [
        allows_tf32(),
        cudnn.enabled,
        cudnn.benchmark,
        cudnn.deterministic,
        torch.get_float32_matmul_precision(),
    ]
    switches += [(d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda")]
    what = [
        *Chosen.__dataclass_fields__,
        cut.graph_module.code,
        parts,
        told,
        wants,
        settings,
        cut.options,
        switches,
        library.build(),
    ]
    devices = dict.fromkeys([t.device for t in tensors])
    return f"{hashlib.sha256(str(what).encode()).hexdigest()} {' '.join(map(on_disk.machine, devices))}"


def _devices(values: list) -> list[torch.device]:
    return list({v.device for v in values if isinstance(v, torch.Tensor) and v.is_cuda})


def _convolutions(region: Region) -> list[str]:
    return [node.name for node in region.eager.graph.nodes if regions.is_convolution(node)]


def _compared(cut: Cut, values, wants, settings, own_memory: bool) -> Chosen:
    nodes = list(cut.graph_module.graph.nodes)
    differentiable = made_up.differentiable(nodes, wants)
    found, known, parts = Chosen(), {}, {}
    for node in nodes:
        region = region_of(cut.graph_module, node)
        if region is None:
            continue
        leaves, sizes = made_up.arguments(node, region.leaf_count, differentiable)
        question, names = candidates.question(region, leaves, sizes), _convolutions(region)
        if question not in known:
            known[question] = _of_region(region, leaves, sizes, settings, parts)
        outcome = known[question]
        found.notes.append(f"{region.name}: {outcome.note}")
        found.left |= {names[i]: why for i, why in outcome.left.items()}
        found.compared |= {names[i]: times for i, times in outcome.compared.items()}
        found.lean += names if outcome.lean else []
    if not found.left and not any(line.left for line in cut.lines):
        return found
    names = [name for region in cut.regions for name in _convolutions(region)]
    alone = cut.again(dict.fromkeys(names, "Inductor alone is faster"))
    ours = cut.again(found.left) if found.left else cut
    if not ours.regions:
        return found
    graphs = [inductor.with_operators(each.graph_module, wants, own_memory) for each in (ours, alone)]
    try:
        inputs = [_like(value, wanted) for value, wanted in zip(values, wants, strict=True)]
        calls = [candidates.version(graph, inputs, settings) for graph in graphs]
        like = next(a for a in inputs if isinstance(a, torch.Tensor))
        mine, theirs = fastest_on_device([lambda call=call: step(call, inputs) for call in calls], like)
    except Exception as error:  # made-up inputs may be none that it takes
        found.notes.append(f"the whole: not compared ({fallback.first_line(error)})")
        return found
    found.notes.append(f"the whole: with ours {_ms(mine)}, Inductor alone {_ms(theirs)}")
    if mine > EVEN * theirs:
        found.left = dict.fromkeys(names, "Inductor alone is faster")
    return found


def _like(value, wanted: bool):
    return made_up.tensor(value, wanted) if isinstance(value, torch.Tensor) else made_up.hint(value)


@dataclass
class Outcome:
    """Of a region; convolutions by their places in it."""

    note: str = ""
    left: dict[int, str] = field(default_factory=dict)
    compared: dict[int, str] = field(default_factory=dict)
    lean: bool = False


def _of_region(region: Region, leaves: tuple, sizes: tuple, settings: dict, parts: dict) -> Outcome:
    """Ours and Inductor's version, and where neither is far ahead of each of its convolutions. `parts`: what was timed of such before."""
    every = range(len(_convolutions(region)))
    try:
        theirs = candidates.version(inductor.plain(region, sizes), leaves, settings)
    except Exception as error:  # what Inductor says of it is told where the graph is compiled
        return Outcome(f"Inductor's version could not be made ({fallback.first_line(error)})")
    choice = region.beside(theirs, leaves, sizes)
    if choice is None:
        return Outcome("ours cannot run", dict.fromkeys(every, "ours cannot run"))
    outcome = Outcome(f"ours {_ms(choice.ours)}, Inductor's {_ms(choice.pytorch)}", lean=choice.lean)
    if choice.needs_more_memory:
        outcome.note += ", ours needs more memory"
    left, mixed = set(), float("inf")
    if len(every) > 1 and not (choice.takes_ours and choice.ours < FAR * choice.pytorch):
        try:
            left, mixed = _cheapest(region, theirs, leaves, sizes, parts, outcome)
        except Exception as error:
            outcome.note += f", its convolutions were not compared ({fallback.first_line(error)})"
    best = min(choice.ours, choice.pytorch) if not choice.needs_more_memory else choice.pytorch
    if 0 < len(left) < len(every) and mixed < candidates.CLEAR * best:
        outcome.left = dict.fromkeys(left, "Inductor is faster")
    elif not choice.takes_ours:
        outcome.left = dict.fromkeys(every, f"of its region {outcome.note}")
    return outcome


def _cheapest(region: Region, theirs, leaves, sizes, parts: dict, outcome: Outcome) -> tuple[set[int], float]:
    """The convolutions that Inductor runs faster with what stands behind them; the seconds of the faster of both for all of them."""
    graph = candidates.with_values(region, leaves, sizes)
    spans = candidates.spans(theirs, leaves, leaves[0])
    ours = candidates.times_alone(region, graph, [leaf.requires_grad for leaf in leaves], parts)
    left, total = set(), 0.0
    for i, node in enumerate(filter(regions.is_convolution, graph.graph.nodes)):
        there, here = spans.get(candidates.problem_of(node), float("inf")), ours.get(node, float("inf"))
        total += min(here, there)
        outcome.compared[i] = f"ours {_ms(here)}, Inductor's {_ms(there)}"
        if there < candidates.CLEAR * here:
            left.add(i)
    outcome.note += f", the faster of both for each convolution {_ms(total)}"
    return left, total


def _ms(seconds: float) -> str:
    if seconds == float("inf"):
        return "not seen"
    return f"{1e3 * seconds:.3g} ms"
