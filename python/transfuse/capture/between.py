"""What a forward() and the hooks of its parts may tell each other while it runs: a list that one fills and the other reads, a switch.

In a captured graph a hook runs where its part stood, and forward() not at all: so they must have nothing between them.
"""

from __future__ import annotations

import functools
import logging
import types

import torch
from torch import nn

from transfuse.capture.outside import Outside, is_number
from transfuse.capture.reads import OWN

_NO_STATE = (torch.Tensor, nn.Module, type, types.ModuleType, types.BuiltinFunctionType, types.FunctionType, logging.Logger,
             property, staticmethod, classmethod, types.MethodType)  # fmt: skip


class _Hook(Outside):
    """What a hook names, and the objects that it is made of."""

    def __init__(self, hook):
        super().__init__(nn.Module())
        self.held: list = []
        self._enter(hook)

    def _enter(self, hook) -> None:
        if isinstance(hook, functools.partial):
            self.held += [*hook.args, *hook.keywords.values()]
            self._enter(hook.func)
        elif isinstance(hook, types.MethodType):
            self.held.append(hook.__self__)
            self._visit(hook.__func__, type(hook.__self__))
        elif isinstance(hook, types.FunctionType):
            self._visit(hook, object)
        else:
            self.held.append(hook)
            self._visit(type(hook).__call__, type(hook))


def between(module: nn.Module, hooks: list[tuple[str, object]]) -> str | None:
    """`hooks`: with the paths of their parts. Whether the forward() of a module and one of them know the same variables or objects, in
    words. (What hooks and forward() find on their way through objects is not seen.)"""
    around = Outside(module)
    attributes = [value for part in module.modules() for name, value in part.__dict__.items() if name not in OWN]
    known = {id(value) for value in [*around.named.values(), *attributes] if _has_state(value)}
    for path, hook in hooks:
        inside = _Hook(hook)
        shared = [name for name in inside.named.keys() & around.named.keys() if name in inside.stored | around.stored]
        if shared or any(id(value) in known for value in [*inside.held, *inside.named.values()] if _has_state(value)):
            title = getattr(hook, "__name__", type(hook).__name__)
            return f"a hook ({title}) of module {path} and its forward() know the same variables"
    return None


def _has_state(value) -> bool:
    return not (is_number(value) or isinstance(value, _NO_STATE))
