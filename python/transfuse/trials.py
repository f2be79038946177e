"""Runs of a model that are not the model's own: to capture it, or to measure and compare ways of running it."""

import contextlib
import threading

from torch.compiler import is_compiling, is_dynamo_compiling

from transfuse.torch_private import suspend_saved_tensors_hooks

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
