"""A module of which nothing can be captured runs as it was written; what it is made of is captured, each part on its own, and so on
down. Control flow that depends on values, and what hooks of parts do, then happens where it always does."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref

import torch
from torch import nn
from torch.compiler import is_compiling

from transfuse.calls.remembered import State
from transfuse.capture.derived import derive
from transfuse.pytorch import trials
from transfuse.pytorch.torch_private import saved_tensors_hooks


class Apart:
    """While it holds, the parts of a module are of classes whose forward() is ours; else they are as they were."""

    def __init__(self, module: nn.Module, state: State, called):
        """called(part, state, args, kwargs): the forward() of an optimised module."""
        self._parts = []  # (path, part, its class, the one that is ours, what is remembered of it)
        for path, part in _parts_of(module):
            kept = State(type(part), state.options, state.dynamic, state)
            self._parts.append((path, part, type(part), _class_of(part, kept, called), kept))
        self._lock, self._running = threading.Lock(), 0

    def named(self) -> list[tuple[str, State]]:
        return [(path, kept) for path, *_, kept in self._parts]

    def __enter__(self):
        with self._lock:
            self._running += 1
            if self._running == 1:
                for _, part, own, ours, _ in self._parts:
                    if type(part) is own:  # else it runs as somebody else's part, or is something else now
                        with contextlib.suppress(TypeError):  # a class that lets nothing take its place
                            object.__setattr__(part, "__class__", ours)

    def __exit__(self, *_):
        with self._lock:
            self._running -= 1
            if self._running == 0:
                for _, part, own, ours, _ in self._parts:
                    if type(part) is ours:
                        object.__setattr__(part, "__class__", own)


def _class_of(part: nn.Module, state: State, called) -> type:
    base, own = state.base, weakref.ref(part)

    @functools.wraps(base.forward)
    def run(self, *args, **kwargs):
        # A copy that forward() makes is not the part. And torch.utils.checkpoint calls it again when the forward() around it is over.
        if (is_compiling() and trials.traced()) or self is not own() or saved_tensors_hooks(True) is not None:
            return base.forward(self, *args, **kwargs)
        return called(self, state, args, kwargs)

    return derive(base, {"forward": run, "_transfuse_base": base})


def _parts_of(module: nn.Module, prefix: str = "") -> list[tuple[str, nn.Module]]:
    """Those whose forward() may hold a convolution and what stands around it. (A layer of PyTorch's alone is one only if it is
    transposed.)"""
    found = []
    for name, part in module.named_children():
        path = f"{prefix}{name}"
        if type(part).forward is nn.Module.forward:  # a list of parts
            found += _parts_of(part, f"{path}.")
        elif (
            any(weight.dim() > 2 for weight in part.parameters())
            and not isinstance(part, torch.jit.ScriptModule)
            and "forward" not in part.__dict__
            and "_transfuse" not in part.__dict__
            and part._compiled_call_impl is None
            and (not isinstance(part, nn.modules.conv._ConvNd) or part.transposed)
        ):
            found.append((path, part))
    return found
