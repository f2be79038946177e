"""What was taken of a model, what was left and why; and the derivation behind what was taken."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from transfuse import backend
from transfuse.calls.remembered import State
from transfuse.cut.account import Report
from transfuse.native import library
from transfuse.optimize import account, arguments, is_optimized, optimize
from transfuse.pytorch.torch_private import is_compiled


def report(model: nn.Module) -> Report:
    """For an optimised or compiled model, or one with such parts: every operator, who runs it, and why. (Of torch.compile it shows the
    last graphs, whichever model's they are.)"""
    name = type(model).__name__
    if not isinstance(model, nn.Module):  # a compiled function
        return backend.account(name)
    if is_optimized(model):
        return account(model)
    told = backend.account(name) if any(map(is_compiled, model.modules())) else Report(name)
    for path, part in model.named_modules():
        if is_optimized(part):
            found = account(part)
            told.graphs += [replace(graph, title=f"{path}: {graph.title}") for graph in found.graphs]
            told.failures += found.failures
    return told


@dataclass
class Explanation:
    """The derivation of every region of a model; str() is readable."""

    parts: list[tuple[str, dict, str]]  # name, summary, text
    left: list

    def __str__(self) -> str:
        out = [text for _, _, text in self.parts]
        out += [f"left to PyTorch: {line.op} ({line.reason})" for line in self.left]
        return "\n".join(out)

    def _sum(self, when: str, what: str) -> float:
        return sum(summary[when][what] for _, summary, _ in self.parts)

    flops_before = property(lambda self: self._sum("before", "flops"))
    flops_after = property(lambda self: self._sum("after", "flops"))
    bytes_before = property(lambda self: self._sum("before", "bytes"))
    bytes_after = property(lambda self: self._sum("after", "bytes"))
    plan = property(lambda self: "\n".join(summary["plan_text"] for _, summary, _ in self.parts))


def explain(model: nn.Module, example_inputs, device: str | None = None) -> Explanation:
    """What the algebra makes of a model: each region as written, each step, the plan, and what is left to PyTorch. The plan is for
    `device`, "cpu" or "cuda" (which need not be there); by default for where the inputs are."""
    if device not in (None, "cpu", "cuda"):
        raise ValueError(f"transfuse.explain: device must be 'cpu' or 'cuda', got {device!r}")
    optimized = optimize(model, example_inputs, never_slower=False, dynamic=False)
    if not is_optimized(optimized):
        raise RuntimeError(f"transfuse: {type(model).__name__} cannot be optimised")
    args, _ = arguments(example_inputs)
    machine = device or ("cuda" if any(isinstance(a, torch.Tensor) and a.is_cuda for a in args) else "cpu")
    state: State = optimized.__dict__["_transfuse"]
    if reasons := state.reasons():
        raise RuntimeError(f"transfuse: {reasons[0]}")
    parts, left = [], []
    for entries in state.captures.values():
        for entry in entries:
            for region in entry.cut.regions:
                told = library.summary(region.example, machine)
                parts.append((region.name, told, library.explain(region.example, machine)))
            left += [line for line in entry.cut.lines if line.left]
    return Explanation(parts, left)
