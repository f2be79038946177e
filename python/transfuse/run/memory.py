"""How much memory a call needs at its peak: the tensors that operators make in it and that live at the same time."""

from __future__ import annotations

import weakref

import torch

from transfuse.pytorch.torch_private import FakeTensorMode, TorchDispatchMode, pytree


class Peak(TorchDispatchMode):
    """Counts storages from the operator that makes them until they are freed. What an operator takes and gives back inside itself
    is not seen."""

    def __init__(self):
        super().__init__()
        self.live = self.bytes = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for storage in [t.untyped_storage() for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]:
            self.known.add(storage._cdata)  # was there before
        for tensor in pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._made(tensor.untyped_storage())
        return result

    def _made(self, storage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self.known:
            return
        self.known.add(key)
        self.live += size
        self.bytes = max(self.bytes, self.live)
        weakref.finalize(storage, self._freed, key, size)

    def _freed(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.live -= size


def peak(call) -> int:
    with Peak() as counted:
        call()
    return counted.bytes


def total(tensors) -> int:
    return sum(t.untyped_storage().nbytes() for t in tensors)


def peak_of(module, leaves, sizes, wanted: list[int]) -> int | None:
    """What PyTorch's own way needs for leaves like these, with the gradients of those `wanted`: counted on tensors without memory.
    None where PyTorch cannot tell without computing."""
    with FakeTensorMode(), torch.set_grad_enabled(bool(wanted)):
        like = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype) for t in leaves]
        for i in wanted:
            like[i].requires_grad_()

        def call():
            outputs = module(*like, *sizes)
            reached = [o for o in outputs if o.requires_grad]
            if reached:
                gradients = [torch.ones_like(o) for o in reached]
                torch.autograd.grad(reached, [like[i] for i in wanted], gradients, allow_unused=True)

        try:
            return peak(call)
        except (
            RuntimeError,
            NotImplementedError,
        ):  # an operator whose result depends on values, or without a fake kernel
            return None
