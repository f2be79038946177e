"""Variables beside a module that its forward() reads: global ones, those of closures and of Python modules, as far as they are
numbers, names, tensors or functions.

A graph holds the numbers and tensors that were there when it was captured, and what the functions did. So they are looked at as the
module's attributes are.
"""

from __future__ import annotations

import dis
import functools
import types

import torch
from torch import nn

from transfuse.capture.derived import written
from transfuse.capture.generators import state_of

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
_METHODS = (*_FUNCTIONS, staticmethod, classmethod, property)
_NUMBERS = (bool, int, float, complex, str, type(None), torch.dtype, torch.device)


class Outside:
    """The variables that are read by the functions which a module's forward() is made of: its own and its parts', functions that are
    attributes of them, and what all these name. (What is passed as an argument, or found by other ways, is not seen.)"""

    def __init__(self, module: nn.Module):
        self._seen: set = set()
        self._found: dict = {}  # (id of a table or cell, name) → (table or cell, name)
        self.named: dict = {}  # all that is named, of whatever kind: (id of a table or cell, name) → value
        self.stored: set = set()  # of these, what is written under its name
        for part in module.modules():
            kind = written(type(part))
            if issubclass(kind, torch.jit.ScriptModule):  # whose classes do not show it
                continue
            self._visit(kind.forward, kind)
            if _of_pytorch(kind.__module__):
                continue
            for value in part.__dict__.values():
                self._visit(value, kind)

    def places(self) -> list[tuple[object, str | None]]:
        return list(self._found.values())

    def _visit(self, function, kind: type) -> None:
        if isinstance(function, property):
            function = function.fget
        if isinstance(function, (types.MethodType, staticmethod, classmethod)):
            function = function.__func__
        if not isinstance(function, types.FunctionType) or (function.__code__, kind) in self._seen:
            return
        self._seen.add((function.__code__, kind))
        self._visit(getattr(function, "__wrapped__", None), kind)
        named, attributes, stored = _read_by(function.__code__)
        if _of_pytorch(origin := function.__globals__.get("__name__", "")):
            if origin.startswith("torch.nn.modules."):  # a layer: what it calls in torch.nn.functional may be replaced
                self._note_members(function.__globals__.get("F"), attributes, kind)
            return
        for name in named:
            if name in function.__globals__:
                self._note(function.__globals__, name, function.__globals__[name], kind)
                self._note_members(function.__globals__[name], attributes, kind)
        for name in attributes:
            base = next((base for base in kind.__mro__ if name in base.__dict__), None)
            if base is not None:
                self._note_class(base, name, kind)
        self.stored |= {(id(function.__globals__), name) for name in stored}
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            if variable in stored:
                self.stored.add((id(cell), None))
            try:
                self._note(cell, None, cell.cell_contents, kind)
            except ValueError:  # nothing in it yet
                continue

    def _note(self, place, name: str | None, value, kind: type) -> None:
        self.named[id(place), name] = value
        if is_number(value) or isinstance(value, (torch.Tensor, *_FUNCTIONS)) or state_of(value) is not None:
            self._found[id(place), name] = place, name
        self._visit(value, kind)

    def _note_class(self, base: type, name: str, kind: type) -> None:
        """What a class of the user's holds for all its modules: numbers, also where `cls.scale` reads them, and methods."""
        value = base.__dict__[name]
        if not _of_pytorch(base.__module__) and (is_number(value) or isinstance(value, _METHODS)):
            self._found[id(base), name] = base.__dict__, name
        self._visit(value, kind)

    def _note_members(self, module, names: frozenset, kind: type) -> None:
        """Of a Python module: what of it has one of these names. (Of PyTorch's, functions: its numbers stay as they are.)"""
        if not isinstance(module, types.ModuleType):
            return
        table, own = module.__dict__, not _of_pytorch(module.__name__)
        for name in names & table.keys():
            if own or isinstance(table[name], _FUNCTIONS):
                self._note(table, name, table[name], kind)


def replaced(places: list) -> str | None:
    """A function of PyTorch's in whose place somebody has put one of his own, which a tracer would enter more than once: PyTorch's
    functions call themselves by name where modes look at them."""
    for table, name in places:
        value = table.get(name) if isinstance(table, dict) else None
        if isinstance(value, types.FunctionType) and _of_pytorch(origin := table.get("__name__", "")):
            if not _of_pytorch(value.__globals__.get("__name__", "")):
                return f"{origin}.{name}"
    return None


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


def in_tables(places: list) -> list[tuple[dict, str, object]] | None:
    """What lies in tables that are not PyTorch's, for a tracer of Python code to compare: (table, name, value). None: a number or
    tensor lies in a closure, where it cannot look."""
    found = []
    for place, name in places:
        value = value_at(place, name)
        if name is None and not isinstance(value, _FUNCTIONS):
            return None
        # (Classes are left to the tracer, which looks at what it reads there.)
        if isinstance(place, dict) and not _of_pytorch(place.get("__name__", "")):
            found.append((place, name, value))
    return found


def _of_pytorch(name: str) -> bool:
    return name.startswith(("torch.", "transfuse.")) or name == "torch"


@functools.cache
def _read_by(code: types.CodeType) -> tuple[frozenset, frozenset, frozenset]:
    """The global variables that code names, the attributes that it reads, and the variables that it writes, its own aside; with those
    of functions written inside."""
    named, attributes, stored = set(), set(), set()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            named.add(step.argval)
        elif step.opname == "STORE_GLOBAL":
            named.add(step.argval)
            stored.add(step.argval)
        elif step.opname == "STORE_DEREF":
            stored.add(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(step.argval)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            others = _read_by(inner)
            named |= others[0]
            attributes |= others[1]
            stored |= others[2]
    return frozenset(named), frozenset(attributes), frozenset(stored)
