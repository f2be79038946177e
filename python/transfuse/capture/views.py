"""Modules as they were written, whatever was put around them: what may be captured of them, and the same parts under another class."""

from __future__ import annotations

import copy
from collections import OrderedDict

import torch
from torch import nn

from transfuse.capture.guards import HOOKS
from transfuse.capture.parts import weight_hook
from transfuse.capture.reads import tensors_in


def obstacle(module: nn.Module) -> str | None:
    """What in a module would be lost by capturing it."""
    if module.training and any(type(hook).__name__ == "SpectralNorm" for hook in module._forward_pre_hooks.values()):
        return "its own spectral_norm hook would run twice (torch.nn.utils.parametrizations.spectral_norm is no hook)"
    for name, child in module.named_modules():
        if any(map(nn.parameter.is_lazy, child._parameters.values())):
            return f"the lazy parameters of module {name} get their shapes at the first call"
        if isinstance(child, nn.SyncBatchNorm) and child.training and _distributed():
            return f"module {name} is a SyncBatchNorm, whose statistics are shared between processes"
    return None


def _distributed() -> bool:
    d = torch.distributed
    return d.is_available() and d.is_initialized() and d.get_world_size() > 1


def bare(cls: type, like: nn.Module | None, table: dict) -> nn.Module:
    """An object of the class and of no other (torch.fx.GraphModule's own __new__ makes a class without a forward for each) with these
    attributes, and with what `like` keeps in slots."""
    made = object.__new__(cls)
    made.__dict__ = table
    for name in {name for base in type(like).__mro__ for name in _slots(base)}:
        if hasattr(like, name):
            object.__setattr__(made, name, getattr(like, name))
    return made


def _slots(cls: type) -> tuple:
    named = cls.__dict__.get("__slots__", ())
    named = (named,) if isinstance(named, str) else tuple(named)
    return tuple(name for name in named if name not in ("__dict__", "__weakref__"))


def plain_view(module: nn.Module, base: type) -> nn.Module:
    """The same module seen through its original class: the same parameters, buffers and children. Its own hooks, and a forward()
    that was set on the module later, run around what is captured, so the view has only hooks that compute a weight."""
    table = {k: v for k, v in module.__dict__.items() if not k.startswith("_transfuse") and k != "forward"}
    view = bare(base, module, table)
    for kind in HOOKS:
        kept = [(key, hook) for key, hook in view.__dict__[kind].items() if weight_hook(hook)]
        view.__dict__[kind] = OrderedDict(kept)
    return view


def doubled(view: nn.Module) -> nn.Module:
    """A copy of the modules that holds the same tensors: tracing swaps parameters for stand-ins, and another thread may be
    running the model meanwhile."""
    kept: dict[int, object] = {}
    for child in view.modules():
        for table in (child.__dict__, child._parameters, child._buffers):
            kept.update({id(v): v for v in tensors_in(dict(table))})
    try:
        double = copy.deepcopy(view, kept)
    except Exception:
        return view  # something in it cannot be copied
    # Tensors in the place of parameters (torch.func.functional_call): torch.export takes none.
    made: dict[int, nn.Parameter] = {}
    for part in double.modules():
        for name, held in part._parameters.items():
            if held is not None and not isinstance(held, nn.Parameter):
                parameter = made.setdefault(id(held), nn.Parameter(held.detach(), held.requires_grad))
                part._parameters[name] = parameter
    return double
