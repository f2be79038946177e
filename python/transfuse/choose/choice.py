"""What of a graph is ours where Inductor compiles the rest: chosen when the graph is compiled, on made-up tensors like those of its first
call, since under CUDA graphs nothing can be tried later.

A region that Inductor runs faster is left to it, or those of its convolutions that are faster there (`candidates.py`), and the graph is
cut anew around what is left. That this is faster is a guess, as a cut takes from either side what it fuses across. So where the graph is
more than one region of ours, it is timed as a whole beside Inductor's alone. What was chosen is kept on disk.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import partial

import torch
from torch.fx import GraphModule, Node

from transfuse import fallback
from transfuse.choose import candidates, inductor, made_up
from transfuse.choose.ahead import Ahead
from transfuse.cut import regions
from transfuse.cut.regions import Cut
from transfuse.native import library, on_disk
from transfuse.pytorch.trials import is_one_of_many, unseen
from transfuse.run.clock import fastest_on_device, step
from transfuse.run.precision import allows_tf32
from transfuse.run.region import EVEN, Region
from transfuse.translate.table import value_of


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
    calls = candidates.calls(cut.graph_module, made_up.differentiable(nodes, wants))
    contests = _of_regions(list({call.question: call for call in reversed(calls)}.values()), settings)
    found = Chosen()
    for call in calls:
        outcome, names = contests[call.question].outcome, _convolutions(call.region)
        found.notes.append(f"{call.region.name}: {outcome.note}")
        found.left |= {names[i]: why for i, why in outcome.left.items()}
        found.compared |= {names[i]: times for i, times in outcome.compared.items()}
        found.lean += names if outcome.lean else []
    rest = any(line.left for line in cut.lines)
    if not found.left and (not rest or all(contest.far_ahead for contest in contests.values())):
        return found
    names = [name for region in cut.regions for name in _convolutions(region)]
    ours = cut.again(found.left) if found.left else cut
    if not ours.regions:
        return found
    try:
        inputs = [_like(value, wanted) for value, wanted in zip(values, wants, strict=True)]
        whole = inductor.with_operators(ours.graph_module, wants, own_memory)
        mine = partial(step, candidates.version(whole, inputs, settings), inputs)
        if rest or len(calls) > 1:
            alone = cut.again(dict.fromkeys(names, "Inductor alone is faster"))
            graph = inductor.with_operators(alone.graph_module, wants, own_memory)
            theirs = partial(step, candidates.version(graph, inputs, settings), inputs)
        else:  # which is Inductor's version of the region
            (call,), (contest,) = calls, contests.values()
            theirs = partial(step, contest.theirs, call.arguments()[0])
        like = next(a for a in inputs if isinstance(a, torch.Tensor))
        times = fastest_on_device((mine, theirs), like)
    except Exception as error:  # made-up inputs may be none that it takes
        found.notes.append(f"the whole: not compared ({fallback.first_line(error)})")
        return found
    found.notes.append(f"the whole: with ours {_ms(times[0])}, Inductor alone {_ms(times[1])}")
    if times[0] > EVEN * times[1]:
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


def _of_regions(calls: list[candidates.Call], settings: dict) -> dict[tuple, Contest]:
    """Of calls that all differ: by their questions. What several take long to compile is compiled side by side."""
    contests = [Contest(call, settings) for call in calls]
    seconds: dict[tuple, float] = {}
    with Ahead() as ahead:
        for contest in contests:
            ahead.begin(contest.call)
        ahead.wait()
        for contest in contests:
            contest.look()
        doubtful = [contest for contest in contests if not contest.settled]
        for contest in doubtful:
            if contest.behind:
                contest.cut(ahead)
            contest.compile()
        ahead.wait()
        for contest in doubtful:
            contest.compare()
        for contest in doubtful:
            if not contest.settled:
                contest.cut(ahead)
        ahead.wait()
        for contest in doubtful:
            contest.choose(seconds)
    return {contest.call.question: contest for contest in contests}


class Contest:
    """Ours beside Inductor's, for a region."""

    def __init__(self, call: candidates.Call, settings: dict):
        self.call, self.settings = call, settings
        self.region, self.count = call.region, len(_convolutions(call.region))
        self.outcome = Outcome()
        self.settled = self.far_ahead = self.behind = False
        self.theirs = None  # Inductor's version
        self.graph: GraphModule | None = None
        self.pieces: dict[Node, list[candidates.Call]] | None = None

    def look(self) -> None:
        """How ours stands beside PyTorch's convolutions, less than which Inductor's version cannot take. (Where it is to look for
        kernels of its own, it may.)"""
        leaves, sizes = self.call.arguments()
        try:
            least = 0.0 if self.settings.get("max_autotune") else candidates.least(self.region, leaves, sizes)
        except Exception:  # Inductor says what is wrong
            least = 0.0
        choice = self.region.beside(least, leaves, sizes)
        if choice is None:
            self.outcome = Outcome("ours cannot run", dict.fromkeys(range(self.count), "ours cannot run"))
            self.settled = True
            return
        self.outcome = Outcome(f"ours {_ms(choice.ours)}, PyTorch's convolutions alone {_ms(least)}", lean=choice.lean)
        self.settled = self.far_ahead = choice.takes_ours and choice.ours < FAR * least
        self.behind = choice.ours > least > 0

    def cut(self, ahead: Ahead) -> None:
        """Ours for each convolution alone."""
        if self.pieces is not None or self.count < 2:
            return
        leaves, sizes = self.call.arguments()
        try:
            self.graph = candidates.with_values(self.region, leaves, sizes)
            self.pieces = candidates.pieces(self.region, self.graph, [leaf.requires_grad for leaf in leaves])
        except Exception as error:
            self.outcome.note += f", its convolutions cannot be compared ({fallback.first_line(error)})"
            self.pieces = {}
        for piece in {piece.question: piece for of_one in self.pieces.values() for piece in of_one}.values():
            ahead.begin(piece)

    def compile(self) -> None:
        leaves, sizes = self.call.arguments()
        try:
            self.theirs = candidates.version(inductor.plain(self.region, sizes), leaves, self.settings)
        except Exception as error:  # what Inductor says of it is told where the graph is compiled
            self.outcome = Outcome(f"Inductor's version could not be made ({fallback.first_line(error)})")
            self.settled = True

    def compare(self) -> None:
        if self.settled:
            return
        leaves, sizes = self.call.arguments()
        choice = self.choice = self.region.beside(self.theirs, leaves, sizes)
        if choice is None:
            self.outcome = Outcome("ours cannot run", dict.fromkeys(range(self.count), "ours cannot run"))
        else:
            note = f"ours {_ms(choice.ours)}, Inductor's {_ms(choice.pytorch)}"
            note += ", ours needs more memory" if choice.needs_more_memory else ""
            self.outcome = Outcome(note, lean=choice.lean)
            if not choice.takes_ours:
                self.outcome.left = dict.fromkeys(range(self.count), f"of its region {note}")
        ahead = choice is not None and choice.takes_ours and choice.ours < FAR * choice.pytorch
        self.settled = choice is None or self.count < 2 or ahead

    def choose(self, seconds: dict[tuple, float]) -> None:
        """Which convolutions are left. `seconds`: what was timed of pieces, by their questions."""
        if self.settled or not self.pieces:
            return
        outcome, choice = self.outcome, self.choice
        try:
            left, mixed = self._cheapest(seconds)
        except Exception as error:
            outcome.note += f", its convolutions were not compared ({fallback.first_line(error)})"
            return
        best = min(choice.ours, choice.pytorch) if not choice.needs_more_memory else choice.pytorch
        if 0 < len(left) < self.count and mixed < candidates.CLEAR * best:
            outcome.left = dict.fromkeys(left, "Inductor is faster")

    def _cheapest(self, seconds: dict[tuple, float]) -> tuple[set[int], float]:
        """The convolutions that Inductor runs faster with what stands behind them; the seconds of the faster of both for all of them."""
        leaves, _ = self.call.arguments()
        spans = candidates.spans(self.theirs, leaves, leaves[0])
        left, total = set(), 0.0
        for i, node in enumerate(filter(regions.is_convolution, self.graph.graph.nodes)):
            there, here = spans.get(candidates.problem_of(node), float("inf")), float("inf")
            if node in self.pieces:
                for piece in self.pieces[node]:
                    if piece.question not in seconds:
                        seconds[piece.question] = piece.seconds()
                here = sum([seconds[piece.question] for piece in self.pieces[node]])
            total += min(here, there)
            self.outcome.compared[i] = f"ours {_ms(here)}, Inductor's {_ms(there)}"
            if there < candidates.CLEAR * here:
                left.add(i)
        self.outcome.note += f", the faster of both for each convolution {_ms(total)}"
        return left, total


def _ms(seconds: float) -> str:
    if seconds == float("inf"):
        return "not seen"
    return f"{1e3 * seconds:.3g} ms"
