"""How PyTorch multiplies fp32 on CUDA: what its switches allow, and what cuDNN makes of it.

Where TF32 is allowed, cuDNN still multiplies many problems in full fp32: small ones, those of few channels, some kernel sizes. Errors
must be like PyTorch's own, so each convolution of a region, forward and backward, is asked whether it rounds (`rounding.py`). Where none
does, ours does without TF32 too; where all do, ours uses it for those products that it makes faster. Where some of a region's
convolutions use TF32 and others do not, ours does if its results are as exact as PyTorch's all the same.
"""

from __future__ import annotations

import contextlib
import threading

import torch

from transfuse.torch_private import TorchDispatchMode, cudnn_allows_tf32, fp32_precision, set_fp32_precision

from transfuse import rounding

SAMPLES = 1 << 16  # numbers looked at of each result
MORE = 1.15  # of PyTorch's error, that ours may have; what is tested is 1.2, over other numbers

_SWITCH = ("cuda", "conv")  # torch.backends.cudnn.conv.fp32_precision
_ABOVE = {_SWITCH: ("cuda", "all"), ("cuda", "all"): ("generic", "all")}  # where a switch that is "none" looks next
_one_at_a_time = threading.RLock()  # the switches belong to the process
_said: bool | None = None  # what they said of convolutions, while they are changed here


_mixed = False  # the old and the new switches were, once


@torch.compiler.assume_constant_result
def allows_tf32() -> bool:
    """What PyTorch's switches say of fp32 convolutions on CUDA. The old one is read in a fifth of the time, and says what the new
    ones say or refuses."""
    global _mixed
    if _said is not None:
        return _said
    if not _mixed:
        try:
            return cudnn_allows_tf32()
        except RuntimeError:
            _mixed = True
    precision = fp32_precision(*_SWITCH)
    if precision in ("tf32", "ieee"):
        return precision == "tf32"
    try:
        return cudnn_allows_tf32()
    except RuntimeError:
        return False


def _own_setting(switch: tuple[str, str]) -> str:
    """What a switch itself is set to: reading one that is "none" gives what the one above says."""
    read = fp32_precision(*switch)
    above = _ABOVE.get(switch)
    if above is None or fp32_precision(*above) != read:
        return read
    before = _own_setting(above)
    set_fp32_precision(*above, "ieee" if read == "tf32" else "tf32")
    follows = fp32_precision(*switch) != read
    set_fp32_precision(*above, before)
    return "none" if follows else read


@contextlib.contextmanager
def without_tf32():
    """The switch so, and afterwards as it was set; the older switches are read through it and need no change. Whoever asks
    `allows_tf32` meanwhile, in any thread, hears what they said before."""
    global _said
    with _one_at_a_time:
        outer, _said = _said, allows_tf32()
        before = _own_setting(_SWITCH)
        set_fp32_precision(*_SWITCH, "ieee")
        try:
            yield
        finally:
            set_fp32_precision(*_SWITCH, before)
            _said = outer


def uses_tf32(eager, leaves: tuple, sizes: tuple, wanted: list[int], ours) -> tuple[bool, bool]:
    """Whether PyTorch's convolutions of these leaves use TF32 where it is allowed: all of them in the backward for the gradients
    wanted; in the forward all of them, or any, if that makes `ours` (a function of the leaves, with TF32; None: it is not asked)
    as exact. One call runs after the other, and of its results a sample is kept: no more memory than PyTorch takes."""
    own = [leaf.detach().requires_grad_(i in wanted) for i, leaf in enumerate(leaves)]
    with _Convolutions() as seen, torch.set_grad_enabled(bool(wanted)):
        reached = [output for output in eager(*own, *sizes) if output.requires_grad]
        if reached:
            given = [torch.ones_like(output) for output in reached]
            torch.autograd.grad(reached, [own[i] for i in wanted], given, materialize_grads=True)
    mixed = any(seen.forward) and not all(seen.forward)
    forward = any(seen.forward) and (not mixed or (ours is not None and _as_exact(ours, eager, leaves, sizes)))
    return forward, bool(seen.backward) and all(seen.backward)


def rounds(eager, leaves: list, sizes: list) -> bool:
    """Whether any of PyTorch's convolutions of these leaves uses TF32."""
    with _Convolutions() as seen, torch.no_grad():
        eager(*leaves, *sizes)
    return any(seen.forward)


def _as_exact(ours, eager, leaves: tuple, sizes: tuple) -> bool:
    """Whether ours errs no more than PyTorch, which uses TF32 in part."""
    own = [leaf.detach() for leaf in leaves]
    with torch.no_grad(), _one_at_a_time:
        with without_tf32():
            exact = _spread(eager(*own, *sizes))
        theirs, made = _spread(eager(*own, *sizes)), _spread(ours(own))
    return all(
        (m - e).square().sum().item() <= MORE**2 * (t - e).square().sum().item()
        for m, t, e in zip(made, theirs, exact, strict=True)
    )


class _Convolutions(TorchDispatchMode):
    """Notices of every fp32 convolution whether it rounds."""

    def __init__(self):
        super().__init__()
        self.forward: list[bool] = []
        self.backward: list[bool] = []

    def __torch_dispatch__(self, operator, types, arguments=(), named=None):
        noticed = {
            torch.ops.aten.convolution.default: self.forward,
            torch.ops.aten.convolution_backward.default: self.backward,
        }.get(operator)
        if noticed is not None and arguments[0].dtype is torch.float32:
            noticed += rounding.rounds(operator, arguments)
        return operator(*arguments, **(named or {}))


def _places(tensor: torch.Tensor) -> torch.Tensor:
    """Of the elements looked at: all, or so many all over the tensor."""
    count = tensor.numel()
    return torch.arange(min(count, SAMPLES), device=tensor.device) * 2654435761 % max(count, 1)


def _spread(tensors) -> list[torch.Tensor]:
    """The same elements whatever the layout."""
    return [torch.take(tensor, _places(tensor)).double() for tensor in tensors]
