"""Is a result right? Its error against float64, set against PyTorch's own error in the same precision."""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, dataclass

import torch

RMS_FACTOR, WORST_FACTOR = 1.2, 2.0  # how much larger than PyTorch's own an error may be
# Where PyTorch happens to hit the last bit, a few units in the last place of the result's own type are right as well.
ULPS = 4.0
ZERO = 1e-6  # a reference below this everywhere is zero but for rounding; its errors are absolute


@dataclass
class Error:
    rms: float  # root mean square of the difference over that of the reference
    worst: float  # largest difference over the largest reference value

    def as_dict(self) -> dict:
        return asdict(self)


def tensors(value) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    return [t for v in value for t in tensors(v)] if hasattr(value, "__iter__") else []


def clone64(model: torch.nn.Module, inputs: list):
    """The same model and inputs in float64; 16-bit values are widened exactly."""
    wide = copy.deepcopy(model).double()
    return wide, [t.detach().double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in inputs]


def error(result: torch.Tensor, reference: torch.Tensor) -> Error:
    if result.shape != reference.shape:
        return Error(math.inf, math.inf)
    difference = result.detach().to(torch.float64, copy=True).sub_(reference)
    if reference.numel() == 0:
        return Error(0.0, 0.0)
    scale, largest = reference.square().mean().sqrt().item(), reference.abs().max().item()
    if largest < ZERO:  # the mean of something normalised, say: there is nothing to be relative to
        scale = largest = 1.0
    rms, worst = difference.square().mean().sqrt().item() / scale, difference.abs().max().item() / largest
    return Error(rms if math.isfinite(rms) else math.inf, worst if math.isfinite(worst) else math.inf)


def errors(results: list[torch.Tensor], references: list[torch.Tensor]) -> list[Error]:
    if len(results) != len(references):
        return [Error(math.inf, math.inf)] * max(1, len(references))
    return [error(a, b) for a, b in zip(results, references)]


def verdict(ours: list[Error], pytorch: list[Error], dtypes: list[torch.dtype]) -> str:
    """'right', or a sentence saying which result is how far off."""
    for i, (mine, theirs, dtype) in enumerate(zip(ours, pytorch, dtypes)):
        ulp = ULPS * torch.finfo(dtype).eps if dtype.is_floating_point else 0.0
        for what, got, base, factor in (
            ("rms", mine.rms, theirs.rms, RMS_FACTOR),
            ("worst", mine.worst, theirs.worst, WORST_FACTOR),
        ):
            if not got <= max(factor * base, ulp):
                return f"result {i}: {what} error {got:.2e} against float64, PyTorch's own is {base:.2e}"
    return "right"
