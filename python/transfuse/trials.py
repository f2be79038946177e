"""Runs of a model that are not the model's own: to capture it, or to measure and compare ways of running it."""

import contextlib
import threading

import torch

capturing = threading.local()  # .on: whether this thread captures a model for optimize()
_suspend = torch._C._autograd._saved_tensors_hooks_set_tracing


@contextlib.contextmanager
def seen():
    """Hooks see what is saved, even in a trial."""
    before = _suspend(False)
    try:
        yield
    finally:
        _suspend(before)


@contextlib.contextmanager
def unseen():
    """What a trial saves for its backward is not shown to hooks that see what the call saves: torch.utils.checkpoint counts these,
    and would find fewer when it repeats the call."""
    before = _suspend(True)
    try:
        yield
    finally:
        _suspend(before)
