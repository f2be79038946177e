"""How PyTorch multiplies fp32 on CUDA: what its switches allow, and what cuDNN makes of it.

Where TF32 is allowed, cuDNN still multiplies many problems in full fp32: small ones, those of few channels, some kernel sizes. Errors
must be like PyTorch's own, so each convolution of a region, forward and each gradient apart, is asked whether it rounds (`rounding.py`),
and ours rounds the operands of the same ones.
"""

from __future__ import annotations

import torch

from transfuse.pytorch.torch_private import TorchDispatchMode, cudnn_allows_tf32, fp32_precision
from transfuse.run import rounding

_SWITCH = ("cuda", "conv")  # torch.backends.cudnn.conv.fp32_precision
_mixed = False  # the old and the new switches were, once


@torch.compiler.assume_constant_result
def allows_tf32() -> bool:
    """What PyTorch's switches say of fp32 convolutions on CUDA. The old one is read in a fifth of the time, and says what the new
    ones say or refuses."""
    global _mixed
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


# Whether TF32 rounds the products of a convolution's forward, of its input's gradient and of its weight's. What is not computed does.
Rounding = tuple[bool, bool, bool]


def rounding_of(eager, leaves: tuple, sizes: tuple, wanted: list[int]) -> list[Rounding]:
    """Of each of PyTorch's convolutions of these leaves, in their order, where TF32 is allowed; backward for the gradients wanted."""
    own = [leaf.detach().requires_grad_(i in wanted) for i, leaf in enumerate(leaves)]
    with _Convolutions() as seen, torch.set_grad_enabled(bool(wanted)):
        reached = [output for output in eager(*own, *sizes) if output.requires_grad]
        if reached:
            given = [torch.ones_like(output) for output in reached]
            torch.autograd.grad(reached, [own[i] for i in wanted], given, materialize_grads=True)
    return [tuple(found) for found in seen.found]


class _Convolutions(TorchDispatchMode):
    """Notices of every convolution whether it rounds. Backward is one of the same weight as forward."""

    def __init__(self):
        super().__init__()
        self.found: list[list[bool]] = []
        self.weights: list[torch.Tensor] = []

    def __torch_dispatch__(self, operator, types, arguments=(), named=None):
        if operator is torch.ops.aten.convolution.default:
            self.weights.append(arguments[1])
            self.found.append([_rounds(operator, arguments)[0], True, True])
        elif operator is torch.ops.aten.convolution_backward.default:
            rounds, weight = iter(_rounds(operator, arguments)), arguments[2].data_ptr()
            both = [next(rounds) if asked else True for asked in arguments[-1][:2]]
            for found, own in zip(self.found, self.weights):
                if own.data_ptr() == weight:
                    found[1:] = [a and b for a, b in zip(found[1:], both)]
        return operator(*arguments, **(named or {}))


def _rounds(operator, arguments: tuple) -> list[bool]:
    return rounding.rounds(operator, arguments) if arguments[0].dtype is torch.float32 else [True, True]
