"""Around torch.export: what it changes for everybody only this thread sees, and what it would print is not printed."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import warnings

import torch
from torch import nn

from transfuse.pytorch.torch_private import (
    BACKENDS_OFF, BATCH_NORM, PARAMETRIZATIONS_KEPT, PATCH_METHOD, PRINT, BatchNorm, ensure_cuda_device_guard, replaced,
)  # fmt: skip
from transfuse.pytorch.trials import capture_by_this_thread, capturing

_lock = threading.RLock()
_original_batch_norm = BatchNorm.forward


def _batch_norm_forward(self, x):
    """BatchNorm with momentum=None averages all batches so far: the factor is a tensor here, so that it can be captured."""
    if not capturing() or self.momentum is not None or not self.training or self.running_mean is None:
        return _original_batch_norm(self, x)
    self._check_input_dim(x)
    self.num_batches_tracked.add_(1)
    wide = torch.promote_types(self.running_mean.dtype, torch.float32)  # buffers of 16 bits are rounded once
    factor = 1.0 / self.num_batches_tracked.to(wide)
    dims = [0, *range(2, x.dim())]
    values = x.detach().to(wide)
    self.running_mean.add_(factor * (values.mean(dims) - self.running_mean))
    self.running_var.add_(factor * (values.var(dims, unbiased=True) - self.running_var))
    return nn.functional.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


@contextlib.contextmanager
def capturing_here(root: nn.Module):
    """Tracing changes methods of nn.Module for everybody; here only the thread that captures may see that. What
    torch.nn.utils.parametrize.cached() keeps, it neither reads nor adds to. (One thread at a time.)"""
    owner = threading.get_ident()
    recurrent = any(isinstance(part, nn.RNNBase) for part in root.modules())

    def for_this_thread(patch_method):
        def patch(self, cls, name, new, deduplicate=True):
            old = getattr(cls, name)

            @functools.wraps(old)
            def choose(*args, **kwargs):
                return (new if threading.get_ident() == owner else old)(*args, **kwargs)

            patch_method(self, cls, name, choose, deduplicate)

        return patch

    with (
        _lock,
        capture_by_this_thread(),
        _quiet(),
        replaced(PATCH_METHOD, for_this_thread),
        replaced(PARAMETRIZATIONS_KEPT, lambda _: 0),
        replaced(BATCH_NORM, lambda _: _batch_norm_forward),
        # It switches cuDNN and oneDNN off for the whole process while it traces, and sets their precision anew, lest an operator be
        # one of theirs: what is traced before autograd decomposes anything never is. (But cuDNN's recurrent layers want memory of
        # the tensors that stand for others in tracing.)
        contextlib.nullcontext() if recurrent else replaced(BACKENDS_OFF, lambda _: contextlib.nullcontext),
    ):
        yield


class _OfThisThread(type):
    """Of a kind of warnings: it has those that come while this thread captures, and none of others."""

    def __subclasscheck__(cls, kind) -> bool:
        return kind is cls or capturing()


class _WhileCapturing(Warning, metaclass=_OfThisThread):
    pass


@contextlib.contextmanager
def _quiet():
    """torch.export warns, prints the graph it could not finish, and logs what tensors do not fit; what is said of it here is one
    warning, or the error that PyTorch raises for such a call. Other threads' warnings are none of its business."""
    loggers = [
        logging.getLogger(f"torch.{name}") for name in ("fx.experimental.symbolic_shapes", "_subclasses.fake_tensor")
    ]
    levels = [logger.level for logger in loggers]
    for logger, level in zip(loggers, (logging.ERROR, logging.CRITICAL)):
        logger.setLevel(level)
    warnings.simplefilter("ignore", _WhileCapturing)
    ignored = warnings.filters[0]
    try:
        with replaced(PRINT, lambda _: lambda *_, **__: None, missing=print):
            yield
    finally:
        with contextlib.suppress(ValueError):  # somebody has set the filters anew
            warnings.filters.remove(ignored)
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


@functools.cache
def anchor_device_guard() -> None:
    """Without a GPU, PyTorch's tracing replaces the CUDA device guard by a thread-local object of the thread that traces first, and
    goes on using it when that thread is gone: a crash, wherever short-lived threads capture. So the first is one that stays."""
    set_guard = ensure_cuda_device_guard
    if set_guard is None or torch.cuda.is_available():
        return
    if threading.current_thread() is threading.main_thread():
        set_guard()
        return
    ready = threading.Event()

    def stay():
        set_guard()
        ready.set()
        threading.Event().wait()

    threading.Thread(target=stay, name="transfuse device guard", daemon=True).start()
    ready.wait()
