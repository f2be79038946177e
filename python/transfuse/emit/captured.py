"""The model captured in train and eval mode, its regions, and the tensors each of them is called with at every size of the file."""

from __future__ import annotations

import contextlib
import itertools
import re
import warnings
from dataclasses import dataclass, field

import torch
from torch._subclasses import FakeTensorMode
from torch.fx import Interpreter, Node

from transfuse.capture.capture import Capture
from transfuse.capture.questions import PATH
from transfuse.cut.regions import Cut, update_statistics
from transfuse.fallback import Warned
from transfuse.optimize import optimize
from transfuse.problem import Problem, ProblemError
from transfuse.run.region import Region, RegionCall


@dataclass
class Call:
    """A region's call at one size of the model's inputs."""

    leaves: list[torch.Tensor]  # without memory
    sizes: list[int]


@dataclass
class Way:
    """The model in one mode and dtype."""

    training: bool
    dtype: torch.dtype
    capture: Capture
    cut: Cut
    model: torch.nn.Module
    hooks: int  # on its parts
    inputs: list[list] = field(default_factory=list)  # of each size: tensors without memory, and other values
    calls: dict[str, list[Call]] = field(default_factory=dict)  # by region, one a size

    @property
    def alike(self) -> tuple:
        """What two ways have in common that are computed by the same functions."""
        texts = [re.sub(r"= (input|param) \w+\[[^]]*\]", r"= \1", region.text) for region in self.cut.regions]
        return tuple(texts), self.capture.own_gradient, self.cut.graph_module.code, tuple(self.capture.sources)


def inputs_of(problem: Problem) -> list:
    """Tensors like those of get_inputs(), without filling gigabytes with random numbers where that can be avoided."""
    made = None
    with torch.device("meta"), contextlib.suppress(ProblemError):  # some need real tensors
        made = problem.made("get_inputs")
    made = problem.inputs() if made is None or not _plain(made) else made
    if not _plain(made):
        kinds = {type(v).__name__ for v in made if isinstance(v, (dict, list, tuple))} or {type(made).__name__}
        raise ProblemError(
            f"{problem.path}: get_inputs() holds a {min(kinds)}; a file takes a list of tensors and numbers"
        )
    return list(made)


def _plain(made) -> bool:
    return isinstance(made, (list, tuple)) and not any(isinstance(v, (dict, list, tuple)) for v in made)


def sizes_of(problem: Problem, given: list, words: list[str]) -> list[list]:
    """The example's inputs, and those of other sizes: '1..8x64x128x128', of several inputs joined by commas. Numbers that range
    between the same bounds do so together."""
    tensors = [v for v in given if isinstance(v, torch.Tensor)]
    found = [tuple(tuple(t.shape) for t in tensors)]
    for word in words:
        shapes = [[_bounds(word, n) for n in shape.split("x")] for shape in word.split(",")]
        if [len(s) for s in shapes] != [t.dim() for t in tensors]:
            ours = ",".join("x".join(map(str, t.shape)) for t in tensors)
            raise ProblemError(f"--sizes {word}: {problem.path} takes inputs like {ours}")
        ranges = list(dict.fromkeys(b for shape in shapes for b in shape))
        for chosen in itertools.product(*(range(low, high + 1) for low, high in ranges)):
            at = dict(zip(ranges, chosen))
            found.append(tuple(tuple(at[b] for b in shape) for shape in shapes))
    return [_with_shapes(given, shapes) for shapes in dict.fromkeys(found)]


def _bounds(word: str, number: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", number)
    low = int(match[1]) if match else 0
    high = int(match[2] or low) if match else 0
    if not 0 < low <= high:
        raise ProblemError(f"--sizes {word}: expected sizes like 16x64x128x128 or 1..8x64x128x128, got {number!r}")
    return low, high


def _with_shapes(given: list, shapes) -> list:
    shapes = iter(shapes)
    return [
        torch.empty(next(shapes), dtype=v.dtype, device="meta") if isinstance(v, torch.Tensor) else v for v in given
    ]


def cast(value, dtype: torch.dtype):
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(dtype)
    return value


def ways(problem: Problem, training: bool, dtype: torch.dtype, sizes: list[list]) -> list[Way]:
    """The model captured, anew for sizes that its graph does not hold for (one image, where others are several)."""
    found, left = [], [[cast(v, dtype) for v in inputs] for inputs in sizes]
    while left:
        made = _captured(problem, training, dtype, left[0])
        made.inputs = [left[0], *(inputs for inputs in left[1:] if made.capture.admits(list(inputs)))]
        left = [inputs for inputs in left if not any(inputs is taken for taken in made.inputs)]
        found.append(made)
    return found


def _captured(problem: Problem, training: bool, dtype: torch.dtype, inputs: list) -> Way:
    """As `optimize` takes it."""
    model = problem.model().to(dtype).train(training)
    hooks = sum(map(_hooks, [*model.modules()][1:]))
    example = tuple(torch.empty_like(v, device="cpu") if isinstance(v, torch.Tensor) else v for v in inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Warned)  # what it says is an error here
        state = optimize(model, example, never_slower=False).__dict__["_transfuse"]
    if not state.captures:
        raise ProblemError(f"{problem.path}: {state.reasons()[0]}")
    (entry,), *_ = state.captures.values()
    found, result = entry.capture, entry.cut
    if found.looks or any(path == PATH for path, _ in found.reads):
        raise ProblemError(
            f"{problem.path}: forward() asks whether gradients are wanted, or how tensors lie: a file is for one answer"
        )
    if found.literal or found.has_parts:
        what = "computes sizes from tensors" if found.literal else "has parts that run as they are"
        raise ProblemError(f"{problem.path}: the model {what}, which a file cannot hold")
    if not result.regions:
        reasons = sorted({line.reason for line in result.lines if line.reason})
        raise ProblemError(
            f"{problem.path}: nothing of the model can be taken ({'; '.join(reasons) or 'no convolution'})"
        )
    return Way(training, dtype, found, result, model, hooks)


def _hooks(part: torch.nn.Module) -> int:
    return len(part._forward_hooks) + len(part._forward_pre_hooks) + len(part._backward_hooks)


def record(way: Way) -> None:
    """What the way's regions are called with at each of its sizes."""
    for inputs in way.inputs:
        for name, call in _Recorder(way).record(inputs).items():
            way.calls.setdefault(name, []).append(call)


def _like(value):
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    return value


class _Recorder(Interpreter):
    """Runs a cut graph on tensors without memory and notes what its regions are called with."""

    def __init__(self, way: Way):
        super().__init__(way.cut.graph_module)
        self.way, self.calls = way, {}

    def record(self, inputs: list) -> dict[str, Call]:
        model = self.way.model
        named = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
        constants = self.way.capture.constants
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            held = [
                _like(constants[name] if kind == "constant" else named[name]) for kind, name in self.way.capture.sources
            ]
            self.run(*held, *[_like(v) for v in inputs])
        return self.calls

    def call_module(self, target, args, kwargs):
        module = self.fetch_attr(target)
        if not isinstance(module, RegionCall):
            return super().call_module(target, args, kwargs)
        region: Region = module.region
        self.calls[region.name] = Call(list(args[: region.leaf_count]), list(args[region.leaf_count :]))
        return region.eager(*args)

    def call_function(self, target, args, kwargs):
        if target is update_statistics:
            return None
        return super().call_function(target, args, kwargs)


def wants(way: Way, region: Region) -> list[tuple[int, ...]]:
    """The leaves of a region that gradients are asked for: of the parameters; and with the model's inputs."""
    graph = way.cut.graph_module.graph
    holders = [n for n in graph.nodes if n.op == "placeholder"]
    kinds = dict(zip(holders, (kind for kind, _ in way.capture.sources)))
    call = next(n for n in graph.nodes if n.op == "call_module" and n.target == region.name)
    reached = set().union(*map(set, region.reach)) if region.reach else set()
    found = []
    for of_inputs in (False, True):
        flows: dict[Node, bool] = {}
        for node in graph.nodes:
            if node.op == "placeholder":
                flows[node] = kinds[node] == "parameter" if node in kinds else of_inputs
            else:
                flows[node] = any(flows.get(n, False) for n in node.all_input_nodes)
        leaves = call.args[: region.leaf_count]
        wanted = tuple(i for i, leaf in enumerate(leaves) if i in reached and flows[leaf])
        if wanted and wanted not in found:
            found.append(wanted)
    return found
