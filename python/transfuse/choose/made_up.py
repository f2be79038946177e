"""Tensors and numbers like those that a graph's nodes stand for, to try it on."""

from __future__ import annotations

import torch
from torch.fx import Node

from transfuse.pytorch.torch_private import without_modes
from transfuse.translate.table import op_name, value_of


def differentiable(nodes: list[Node], wants: list[bool]) -> set[Node]:
    """What a gradient may be asked of. `wants`: of each input."""
    found, given = set(), iter(wants)
    for node in nodes:
        if node.op == "placeholder":
            reached = next(given)
        else:
            reached = op_name(node) != "aten.detach.default" and any([a in found for a in node.all_input_nodes])
        if reached:
            found.add(node)
    return found


def arguments(call: Node, leaf_count: int, wanted: set[Node]) -> tuple[tuple, tuple]:
    """Tensors and sizes like those of a region's first call."""
    leaves = [tensor(value_of(node), node in wanted) for node in call.args[:leaf_count]]
    return tuple(leaves), tuple([hint(value_of(node)) for node in call.args[leaf_count:]])


def tensor(value: torch.Tensor, wanted: bool = False) -> torch.Tensor:
    """(Numbers around a half: of variances, too, these are possible values; whole ones are zero, which is a place in every table.)"""
    with without_modes(), torch.no_grad():
        sizes, strides = ([hint(n) for n in numbers] for numbers in (value.shape, value.stride()))
        made = torch.empty_strided(sizes, strides, dtype=value.dtype, device=value.device)
        if made.is_floating_point():
            made.uniform_(0.25, 0.75, generator=torch.Generator(value.device).manual_seed(0))
        else:
            made.zero_()
    return made.requires_grad_(wanted)


def form(value: torch.Tensor, wanted: bool) -> tuple:
    """All of a tensor that times depend on."""
    sizes, strides = (tuple([hint(n) for n in numbers]) for numbers in (value.shape, value.stride()))
    return sizes, strides, value.dtype, value.device, wanted


def hint(number) -> int:
    return int(number.node.hint) if isinstance(number, torch.SymInt) else int(number)
