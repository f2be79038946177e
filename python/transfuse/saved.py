"""Which of a region's leaves PyTorch's own way keeps for its gradient: those must not change between forward and backward, others may."""

from __future__ import annotations

import torch

from transfuse.trials import seen
from transfuse.torch_private import FakeTensorMode

MOST_COPIED = 1 << 16  # elements of a tensor that is copied so that it may change: biases, and shifts of norms


def unsaved(module, leaves, sizes, wants: tuple) -> list[int]:
    """Leaves that may change before backward, as PyTorch sees it: the bias of a convolution is one, its weight is not. Found on
    tensors without memory."""
    kept: set[int] = set()
    note = lambda tensor: kept.add(tensor.untyped_storage()._cdata)  # noqa: E731
    try:
        with FakeTensorMode(), torch.enable_grad(), seen(), torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
            like = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device) for t in leaves]
            for tensor, want in zip(like, wants):
                tensor.requires_grad_(want)
            results = module(*like, *sizes)
        del results
    except (RuntimeError, NotImplementedError):  # an operator whose result depends on values, or without a fake kernel
        return []
    return [i for i, tensor in enumerate(like) if tensor.untyped_storage()._cdata not in kept]
