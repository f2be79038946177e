"""Numbers that a model keeps in tensors, as an audio codec its strides and kernel sizes, to compute paddings with.

A tracer does not know what a tensor holds, and refuses where a size is computed from one. Of a tensor that forward() makes of a
number, torch.tensor(3), it does know: so that is what it is shown. The graph then holds as long as the module's tensors are the
same ones, and nobody has written to them.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass

import torch
from torch import nn

from transfuse.capture.refusals import CaptureError

_WHOLE = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool)


@dataclass(frozen=True)
class Number:
    table: dict
    name: str
    tensor: torch.Tensor
    version: int

    def holds(self) -> bool:
        return self.table.get(self.name) is self.tensor and self.tensor._version == self.version


def numbers_of(module: nn.Module) -> list[Number]:
    """Where a module keeps whole numbers: in buffers, and in tensors that are plain attributes. (PyTorch's own layers count with
    theirs.)"""
    found = []
    for part in module.modules():
        if not type(part).__module__.startswith("torch."):
            for table in (part._buffers, part.__dict__):
                for name, value in table.items():
                    if isinstance(value, torch.Tensor) and value.numel() == 1 and value.dtype in _WHOLE:
                        if not value.is_inference():  # which does not tell how often it was written
                            found.append(Number(table, name, value, value._version))
    return found


@contextlib.contextmanager
def written_down(numbers: list[tuple[Number, int]]):
    """While it holds, inside a forward() that is traced, tensors made of these values are in their places."""
    shown = []
    for number, value in numbers:
        nested = functools.reduce(lambda inner, _: [inner], number.tensor.shape, value)
        made = torch.tensor(nested, dtype=number.tensor.dtype, device=number.tensor.device)
        shown.append((number, number.table[number.name], made))
    try:
        for number, _, made in shown:
            number.table[number.name] = made
        yield
        if not all([number.table.get(number.name) is made and made._version == 0 for number, _, made in shown]):
            raise CaptureError("its forward() changes a number that sizes may be computed from")
    finally:
        for number, traced, _ in shown:
            number.table[number.name] = traced


# What tracing writes beside arithmetic, and says nothing of a graph whose sizes are fixed.
_BESIDE = (
    torch.ops.aten.detach_.default,
    torch.ops.aten.item.default,
    torch.ops.aten._assert_tensor_metadata.default,
)


def without_arithmetic(graph: torch.fx.Graph) -> None:
    """What is computed of them alone is known, and nobody uses it."""
    graph.eliminate_dead_code(lambda node: node.is_impure() and node.target not in _BESIDE)
