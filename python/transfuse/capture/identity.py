"""Which inputs of a call are one tensor, or one that the module holds: a forward() may ask (`y is x`), and a graph holds the answer."""

from __future__ import annotations

import itertools
import operator

import torch
from torch import nn


def repeated(inputs) -> tuple | None:
    """Of each input the place of the first that is the same object. None: no two are."""
    if len({*map(id, inputs)}) == len(inputs):
        return None
    first: dict[int, int] = {}
    return tuple([first.setdefault(id(value), i) for i, value in enumerate(inputs)])


def holds_one(tables: list[dict], inputs) -> bool:
    """Whether one of the inputs lies in these tables of parameters and buffers."""
    held = itertools.chain.from_iterable([table.values() for table in tables])
    return not {*map(id, inputs)}.isdisjoint(map(id, held))


def identities(module: nn.Module, tables: list[dict], flat: list) -> tuple | None:
    """Of each input the name under which the module holds that tensor, or the place of the first input that is the same one, or
    None. None for all: each is a tensor of its own. `tables`: of the module's parameters and buffers."""
    tensors = [value for value in flat if isinstance(value, torch.Tensor)]
    held = holds_one(tables, tensors)
    if not held and repeated(tensors) is None:
        return None
    known: dict[int, object] = {}
    if held:
        named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
        for name, tensor in named:
            known.setdefault(id(tensor), name)
    found = []
    for i, value in enumerate(flat):
        place = known.setdefault(id(value), i) if isinstance(value, torch.Tensor) else i
        found.append(None if place == i else place)
    return tuple(found)


def are_distinct(module: nn.Module, flat: list) -> bool:
    """Whether identities() finds none. Plain comparisons alone: torch.compile traces them."""
    tensors = [value for value in flat if isinstance(value, torch.Tensor)]
    for i, tensor in enumerate(tensors):
        for other in [*tensors[:i], *module.parameters(), *module.buffers()]:
            if tensor is other:
                return False
    return True


def restored(module: nn.Module, places: tuple, flat: list) -> list:
    """A tracer shows each input as a tensor of its own. These are as the call's were."""
    return [
        value if place is None else flat[place] if isinstance(place, int) else operator.attrgetter(place)(module)
        for place, value in zip(places, flat)
    ]
