"""Variables beside a module that its forward() reads: global ones and those of closures, as far as they are numbers, names or tensors.

A graph holds the numbers and tensors that were there when it was captured. So they are looked at as the module's attributes are.
"""

from __future__ import annotations

import dis
import functools
import types

import torch
from torch import nn

_NUMBERS = (bool, int, float, complex, str, type(None), torch.dtype, torch.device)


class Outside:
    """The variables that are read by the functions which a module's forward() is made of: its own and its parts', functions that are
    attributes of them, and what all these name. (What is passed as an argument, or found by other ways, is not seen.)"""

    def __init__(self, module: nn.Module):
        self._seen: set = set()
        self._found: dict = {}  # (id of a table or cell, name) → (table or cell, name)
        for part in module.modules():
            kind = getattr(type(part), "_transfuse_base", type(part))
            if _of_pytorch(kind.__module__):
                continue
            self._visit(kind.forward, kind)
            for value in part.__dict__.values():
                self._visit(value, kind)

    def places(self) -> list[tuple[object, str | None]]:
        return list(self._found.values())

    def _visit(self, function, kind: type) -> None:
        if isinstance(function, types.MethodType):
            function = function.__func__
        if not isinstance(function, types.FunctionType) or (function.__code__, kind) in self._seen:
            return
        self._seen.add((function.__code__, kind))
        self._visit(getattr(function, "__wrapped__", None), kind)
        if _of_pytorch(function.__globals__.get("__name__", "")):
            return
        named, attributes = _read_by(function.__code__)
        for name in named:
            if name in function.__globals__:
                self._note(function.__globals__, name, function.__globals__[name], kind)
        for name in attributes:
            self._visit(next((base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), None), kind)
        for cell in function.__closure__ or ():
            try:
                self._note(cell, None, cell.cell_contents, kind)
            except ValueError:  # nothing in it yet
                continue

    def _note(self, place, name: str | None, value, kind: type) -> None:
        if is_number(value) or isinstance(value, torch.Tensor):
            self._found[id(place), name] = place, name
        else:
            self._visit(value, kind)


def is_number(value) -> bool:
    """Compared by value; not nan, which is equal to nothing."""
    if isinstance(value, tuple):
        return all(map(is_number, value))
    return isinstance(value, _NUMBERS) and value == value


def value_at(place, name: str | None):
    if name is not None:
        return place.get(name)
    try:
        return place.cell_contents
    except ValueError:  # nothing in it any more
        return None


def _of_pytorch(name: str) -> bool:
    return name.startswith(("torch.", "transfuse.")) or name == "torch"


@functools.cache
def _read_by(code: types.CodeType) -> tuple[frozenset, frozenset]:
    """The global variables that code reads, and the attributes, with those of functions written inside."""
    named, attributes = set(), set()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            named.add(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(step.argval)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            others = _read_by(inner)
            named |= others[0]
            attributes |= others[1]
    return frozenset(named), frozenset(attributes)
