"""Which of a region's leaves and results PyTorch's own way keeps for its gradient: those must not change between forward and backward,
others may."""

from __future__ import annotations

import torch

from transfuse.pytorch.torch_private import FakeTensorMode
from transfuse.pytorch.trials import seen

MOST_COPIED = 1 << 16  # elements of a tensor that is copied so that it may change: biases, and shifts of norms


def unsaved(module, leaves, sizes, wants: tuple) -> tuple[list[int], list[int]]:
    """Leaves that may change before backward, as PyTorch sees it: the bias of a convolution is one, its weight is not; and results
    that may not: that of a tanh. Found on tensors without memory."""
    kept = {}  # which are held: an address may be another's once its memory is given back
    note = lambda tensor: kept.setdefault(tensor.untyped_storage()._cdata, tensor.untyped_storage())  # noqa: E731
    is_kept = lambda tensor: tensor.untyped_storage()._cdata in kept  # noqa: E731
    try:
        with FakeTensorMode(), torch.enable_grad(), seen(), torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
            like = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device) for t in leaves]
            for tensor, want in zip(like, wants):
                tensor.requires_grad_(want)
            results = module(*like, *sizes)
        shared = [i for i, result in enumerate(results) if is_kept(result)]
    except (
        Exception
    ):  # a result that depends on values, an operator without a fake kernel, or one whose fake kernel fails
        return [], []
    return [i for i, tensor in enumerate(like) if not is_kept(tensor)], shared
