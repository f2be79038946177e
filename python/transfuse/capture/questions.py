"""What a forward() asks of PyTorch and of its tensors while it is captured, and what it does to their gradients.

A graph holds for the answers that were given: whether gradients are on (`torch.is_grad_enabled()`), whether a tensor wants one, how
it lies in memory. So calls where these may differ must not find it. Gradients that forward() makes its own (hooks, leaves, tensors of
other models) are not in the graph at all.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time

import torch
from torch.overrides import TorchFunctionMode

from transfuse.capture.refusals import Slow
from transfuse.pytorch.torch_private import (
    DisableTorchFunction,
    FakeTensor,
    FunctionalTensor,
    no_dispatch,
    pytree,
    set_grad_enabled,
)

SECONDS = 12.0  # of the processor's, that one capture may take for a forward()
_MODES = {"is_grad_enabled": torch.is_grad_enabled, "is_inference_mode_enabled": torch.is_inference_mode_enabled}


class Modes:
    """PyTorch's modes as the attributes of an object: they are watched as a module's are."""

    def __getattr__(self, name: str) -> bool:
        return _MODES[name]()


MODES = Modes()
PATH = ".modes"  # where they stand among the parts of a module, none of whose names begins with a dot

_OWN_GRADIENT = {
    torch.Tensor.register_hook: "a hook on a tensor",
    torch.Tensor.retain_grad: "a tensor that keeps its gradient",
    torch.Tensor.requires_grad_: "a tensor that is made to want a gradient",
    torch.Tensor.requires_grad.__set__: "a tensor that is made to want a gradient",
}
_DATA = torch.Tensor.data.__get__
_REPLACES = (torch.Tensor.data.__set__, torch.Tensor.set_)
_WANTS = torch.Tensor.requires_grad.__get__
_ATTACHED = {_WANTS: False, torch.Tensor.is_leaf.__get__: True, torch.Tensor.grad_fn.__get__: None}
_LAYOUT = (torch.Tensor.stride, torch.Tensor.is_contiguous, torch.Tensor.storage_offset)


def by_user(depth: int = 1) -> bool:
    """Whether the code so many calls above the asking one is none of PyTorch's, and none of ours."""
    return not sys._getframe(depth + 1).f_globals.get("__name__", "").startswith(("torch.", "transfuse."))


def is_strided(value) -> bool:
    """Whether it is no tensor that is sparse, nested or oneDNN's own."""
    return not isinstance(value, torch.Tensor) or (value.layout is torch.strided and not value.is_nested)


def layout(tensor: torch.Tensor):
    """What a forward() that asks can be told of how a tensor lies, the same for all sizes of the usual layouts."""
    usual = (
        tensor.is_contiguous(),
        tensor.dim() in (4, 5)
        and tensor.is_contiguous(memory_format=torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d),
    )
    return usual if any(usual) else tensor.stride(), tensor.requires_grad


class Questions(TorchFunctionMode):
    """Made where the call is: it answers as PyTorch would there, though capturing switches gradients on."""

    def __init__(self):
        super().__init__()
        self.now = {name: ask() for name, ask in _MODES.items()}
        self.modes: set[str] = set()  # those that were asked for
        self.looks = False  # whether it asked how a tensor lies, or whether it wants a gradient
        self.own_gradient: str | None = None  # what has a gradient that the graph does not know
        self.replaces = False  # whether a tensor is given other memory, which no graph shows
        self.switches_on = False  # gradients, which may be off
        self.infers = False  # whether it enters inference mode
        self.draws = False  # Python's or numpy's random numbers, which a graph would hold as they were
        self.met: dict[int, torch.Tensor] = {}  # tensors that reached forward() by a way that the tracer does not know
        self.numbers: dict[int, torch.Tensor] = {}  # what those of one element held
        self.until = time.thread_time() + SECONDS

    @contextlib.contextmanager
    def of_modes(self):
        thread: int | None = threading.get_ident()

        def asked(name, ask):
            def answer():
                if threading.get_ident() != thread or not by_user():  # whoever keeps the function may ask it later
                    return ask()
                self.modes.add(name)
                return self.now[name] if name != "is_grad_enabled" else self.now[name] and ask()

            return answer

        entered = torch.inference_mode.__enter__

        def enter(context):
            self.infers |= threading.get_ident() == thread and context.mode
            return entered(context)

        for name, ask in _MODES.items():
            setattr(torch, name, asked(name, ask))
        torch.inference_mode.__enter__ = enter
        try:
            yield
        finally:
            thread = None
            torch.inference_mode.__enter__ = entered
            for name, ask in _MODES.items():
                setattr(torch, name, ask)

    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        kwargs = kwargs or {}
        if time.thread_time() > self.until:
            raise Slow(f"it is not captured within {SECONDS:g} s")
        if (made := _OWN_GRADIENT.get(function)) is not None:
            self.own_gradient = made
        elif function == _DATA:
            function = torch.Tensor.detach  # which a tracer sees
        elif function in _REPLACES:
            self.replaces = True
        elif function is set_grad_enabled:
            self.switches_on |= bool(args[0]) and _MODES["is_grad_enabled"]()
        elif (function in _ATTACHED or function in _LAYOUT) and by_user():
            self.looks = True
            self.modes.add("is_grad_enabled")
            if function in _ATTACHED and not self.now["is_grad_enabled"] and args[0].grad_fn is not None:
                return _ATTACHED[function]
        else:
            self._note_met(args, kwargs)
        return function(*args, **kwargs)

    def note_drawn(self) -> None:
        self.draws = True

    @contextlib.contextmanager
    def untouched(self):
        """A tracer computes with single numbers that it meets, and writes to them: a batch norm's counter, say. They are put back."""
        try:
            yield
        finally:
            with DisableTorchFunction(), torch.no_grad(), no_dispatch():
                for key, number in self.numbers.items():
                    self.met[key].copy_(number)

    def _note_met(self, args, kwargs) -> None:
        for value in pytree.tree_leaves((args, kwargs)):
            if isinstance(value, torch.Tensor) and not isinstance(value, (FakeTensor, FunctionalTensor)):
                if id(value) not in self.met and value.numel() == 1:
                    with no_dispatch():
                        self.numbers[id(value)] = value.detach().clone()
                self.met[id(value)] = value
