"""What a forward() does while it is captured beside computing: attributes that it reads and writes, and autograd functions that it
applies.

What it reads is part of the graph as it was then, be it private, an entry of a dictionary or a field of a configuration: it has to
be looked at before every call. What it writes would be lost. An autograd function's own backward is not in the graph: it holds where
no gradient is asked for.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import sys
import threading
import types

import torch
from torch import nn

from transfuse.capture import generators
from transfuse.capture.derived import derive
from transfuse.capture.questions import MODES, PATH, Questions

OWN = set(nn.Module().__dict__) - {"training"}  # nn.Module's own tables
NUMBERS = (bool, int, float, complex)
# Hashable and compared by value, or functions: what forward() may branch on.
_PLAIN = (
    *NUMBERS,
    str,
    type(None),
    torch.dtype,
    torch.device,
    types.FunctionType,
    types.BuiltinFunctionType,
)
_DEEPEST, _MOST = 5, 500  # of what lies in what: levels, and things that hold others


def parts_of(module: nn.Module) -> dict[str, object]:
    """What attributes are read from, by path: the module's parts, and PyTorch's modes."""
    return {**dict(module.named_modules()), PATH: MODES}


def is_plain(value) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(map(is_plain, value)))


class Same:
    """Equal to itself alone, and kept, so that nothing else can be taken for it."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return other.__class__ is Same and other.value is self.value

    def __hash__(self):
        return id(self.value)


def _fields(value) -> dict | None:
    """Of a plain object, such as a configuration, what it holds: of none of Python's own (a logger, a lock), but namespaces."""
    if isinstance(value, (nn.Module, torch.Tensor, type, types.ModuleType, types.FunctionType)):
        return None
    if isinstance(value, (types.SimpleNamespace, argparse.Namespace)):
        return value.__dict__
    origin = type(value).__module__.partition(".")[0]
    return None if origin in sys.stdlib_module_names or origin == "torch" else getattr(value, "__dict__", None)


def exact(value):
    """A number with its type: 1, 1.0 and True are equal, and not the same to a forward()."""
    if isinstance(value, tuple):
        return tuple(map(exact, value))
    return (value.__class__, value) if isinstance(value, NUMBERS) else value


def snapshot(value):
    """Equal to another one of the same value as long as nothing in it has changed, as deep and as far as is looked."""
    return exact(value) if is_plain(value) else _snapshot(value, _DEEPEST, [_MOST])


def _snapshot(value, depth: int, left: list[int]):
    if is_plain(value):
        return exact(value)
    left[0] -= 1
    if (drawn_next := generators.state_of(value)) is not None:
        return Same(value), drawn_next
    if depth and left[0] > 0:
        if isinstance(value, dict):
            return (value.__class__, *[(key, _snapshot(part, depth - 1, left)) for key, part in value.items()])
        if isinstance(value, (list, tuple)):
            return (value.__class__, *[_snapshot(part, depth - 1, left) for part in value])
        if isinstance(value, (set, frozenset)):
            return frozenset(value)
        if isinstance(value, types.MethodType):
            return Same(value.__func__), _snapshot(value.__self__, depth - 1, left)
        if (fields := _fields(value)) is not None:
            return Same(value), _snapshot(fields, depth - 1, left)
    return Same(value)


def tensors_in(value, depth: int = _DEEPEST) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, nn.Module):  # in a list, say, that registers nothing
        return [*value.parameters(), *value.buffers()]
    if isinstance(value, dict):
        parts = value.values()
    elif isinstance(value, (list, tuple)):
        parts = value
    else:
        parts = (_fields(value) or {}).values()
    return [tensor for part in parts for tensor in tensors_in(part, depth - 1)] if depth else []


class Reads:
    """Collects (module, attribute) pairs, modules by their path, what was written, and what was asked."""

    def __init__(self):
        self.found: dict[tuple[str, str], object] = {}  # with a snapshot of the value when it was read first
        self.written = ""  # an attribute that was, as the model names it
        self.in_forward = False  # what a tracer does around it does not count
        self.questions = Questions()

    @contextlib.contextmanager
    def of(self, root: nn.Module):
        """While it holds, the modules are of classes that tell what is read and written, and autograd functions tell of
        themselves. (One thread captures at a time; what others do meanwhile is not noted.)"""
        with functions_applied(self._note_function), self._told(root):
            yield

    def _note_function(self, function: type) -> None:
        if not _private_of_pytorch(function):
            self.questions.own_gradient = f"the autograd function {function.__name__}"

    @contextlib.contextmanager
    def aside(self):
        """While it holds, nothing counts: a part runs whose reads and writes are its own."""
        before = [(of, {n: copy.copy(v) if isinstance(v, (dict, set)) else v for n, v in vars(of).items()})
                  for of in (self, self.questions)]  # fmt: skip
        try:
            yield
        finally:
            for of, table in before:
                vars(of).update(table)

    @contextlib.contextmanager
    def _told(self, root: nn.Module):
        changed = []
        for path, module in root.named_modules():
            if type(module).__module__.startswith("torch."):  # whose options are public, and the rest of no consequence
                continue
            try:
                before, module.__class__ = module.__class__, self._telling(module, path)
                changed.append((module, before))
            except TypeError:  # of a class that cannot be derived from, or changed
                continue
        try:
            yield
        finally:
            for module, before in changed:
                object.__setattr__(module, "__class__", before)

    @contextlib.contextmanager
    def forward(self, root: nn.Module):
        """Around the model's forward(): notes whether what is read there is in the end no longer as it was."""
        self.found.clear()
        self.in_forward = True
        try:
            asked = self.questions
            with asked.of_modes(), asked, asked.untouched(), generators.put_back(asked.note_drawn):
                yield
        finally:
            self.in_forward = False
        modules = dict(root.named_modules())
        for (path, name), before in self.found.items():
            if path not in modules or snapshot(getattr(modules[path], name, None)) != before:
                self.written = f"{path}.{name}".removeprefix(".")
        self.found.update({(PATH, name): self.questions.now[name] for name in self.questions.modes})

    def _telling(self, module: nn.Module, path: str) -> type:
        base = module.__class__
        weights = {
            getattr(hook, "name", getattr(hook, "_tensor_name", None)) for hook in module._forward_pre_hooks.values()
        }

        def read(owner, name):
            value = base.__getattribute__(owner, name)
            if self.in_forward and (name[0] != "_" or name not in OWN):
                table = object.__getattribute__(owner, "__dict__")
                watched = _worth_watching(name, value) if name in table else _of_class(base, name, value)
                if watched and (path, name) not in self.found:
                    self.found[path, name] = snapshot(value)
            return value

        def write(owner, name, value):
            table = object.__getattribute__(owner, "__dict__")
            before = table.get(name)
            base.__setattr__(owner, name, value)
            stays = name in table and type(before) is type(value) and is_plain(value) and before == value
            if not self.in_forward or name not in table or name in OWN or name in weights:
                return
            if not stays:
                self.written = f"{path}.{name}".removeprefix(".")
            elif _worth_watching(name, value):  # a graph does not set it: it holds where it is what it would be set to
                self.found.setdefault((path, name), snapshot(value))

        body = {"__getattribute__": read, "__setattr__": write}
        if not path:  # what a model's own __call__ does around forward() it does around what is captured
            body["__call__"] = nn.Module.__call__
        return derive(base, body)


@contextlib.contextmanager
def functions_applied(note):
    """While it holds, note(function) is called for every autograd function that this thread applies. `straight = Straight.apply` is
    bound long before and cannot be replaced, but each application makes the context that its backward is given: an object of a
    class derived from BackwardCFunction, whether or not a gradient is asked for."""
    contexts, thread = torch.autograd.function.BackwardCFunction, threading.get_ident()
    before = contexts.__dict__.get("__init__")

    def made(context, *args, **kwargs):
        if threading.get_ident() == thread:
            note(type(context)._forward_cls)
        if before is not None:
            before(context, *args, **kwargs)

    contexts.__init__ = made
    try:
        yield
    finally:
        if before is None:
            del contexts.__init__
        else:
            contexts.__init__ = before


def _private_of_pytorch(function) -> bool:
    """What PyTorch applies inside itself is seen as operators; what it offers, as a reentrant checkpoint, is not."""
    path = f"{getattr(function, '__module__', 'torch._')}.{getattr(function, '__name__', '_')}"
    return path.startswith("torch.") and any(part[0] == "_" for part in path.split("."))


def _of_class(base: type, name: str, value) -> bool:
    """A number or name that a class of the user's holds for all its modules."""
    if name.startswith("__") or callable(value) or not is_plain(value):
        return False
    owner = next((c for c in base.__mro__ if name in c.__dict__), None)
    return owner is not None and not owner.__module__.startswith("torch.") and owner.__dict__[name] is value


def _worth_watching(name: str, value) -> bool:
    """Not what every module's table shows without being read: public numbers, and lists of them."""
    if isinstance(value, (nn.Module, torch.Tensor)) or name.startswith(("__", "_transfuse")):
        return False
    listed = isinstance(value, list) and all(map(is_plain, value))
    return name[0] == "_" or not (is_plain(value) or listed)
