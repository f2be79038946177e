"""Runs of a model that are not the model's own: to capture it, or to measure and compare ways of running it."""

import contextlib
import threading

import torch
from torch.compiler import is_compiling, is_dynamo_compiling

from transfuse.pytorch.torch_private import suspend_saved_tensors_hooks

capturer: int | None = None  # the thread that captures a model for optimize(): one at a time


def capturing() -> bool:
    return capturer is not None and capturer == threading.get_ident()


def traced() -> bool:
    """Whether a call is seen by a tracer. While torch.export traces, it says so in every thread: not to be believed of others than
    the one that captures."""
    return is_compiling() and (is_dynamo_compiling() or capturer is None or capturing())


@contextlib.contextmanager
def capture_by_this_thread():
    global capturer
    before, capturer = capturer, threading.get_ident()
    try:
        yield
    finally:
        capturer = before


def is_one_of_many() -> bool:
    """Whether this process is one of several that compute together. Nothing is timed in them: each would find its own times and
    choose its own kernels, whose results differ in rounding."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


@contextlib.contextmanager
def seen():
    """Hooks see what is saved, even in a trial."""
    before = suspend_saved_tensors_hooks(False)
    try:
        yield
    finally:
        suspend_saved_tensors_hooks(before)


@contextlib.contextmanager
def unseen():
    """What a trial saves for its backward is not shown to hooks that see what the call saves: torch.utils.checkpoint counts these,
    and would find fewer when it repeats the call."""
    before = suspend_saved_tensors_hooks(True)
    try:
        yield
    finally:
        suspend_saved_tensors_hooks(before)
