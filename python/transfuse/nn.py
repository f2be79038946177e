"""Drop-in layers: torch.nn.ConvTranspose1d/2d/3d, run by Transfuse. Same signatures, repr, initialisation and state_dict."""

from __future__ import annotations

import functools

import torch
from torch import nn

from transfuse.native import library
from transfuse.options import Options
from transfuse.pytorch.torch_private import forward_ad, functorch_stack, is_tracing
from transfuse.run.region import Region


class _Eager(nn.Module):
    """PyTorch's own way for one configuration."""

    def __init__(self, function, **attributes):
        super().__init__()
        self.function, self.attributes = function, attributes

    def forward(self, x, weight, bias=None):
        return (self.function(x, weight, bias, **self.attributes),)


@functools.cache
def _region(
    rank: int, batched: bool, with_bias: bool, stride, padding, output_padding, dilation, groups: int, weights
) -> Region:
    """One program for each configuration, whatever the shapes. What is remembered of PyTorch's way with it holds for the
    shape of the `weights`."""
    ones = ",".join(["1"] * rank)
    sizes = ",".join(["1"] * (rank + (2 if batched else 1)))
    listed = lambda values: "[" + ",".join(map(str, values)) + "]"  # noqa: E731
    attributes = f"stride={listed(stride)} padding={listed(padding)} output_padding={listed(output_padding)} "
    attributes += f"dilation={listed(dilation)} groups={groups}"
    lines = [f"  %x = input f32[{sizes}]", f"  %weight = param f32[1,1,{ones}]"]
    lines += ["  %bias = param f32[1]"] if with_bias else []
    lines += [f"  %y = conv_transpose(%x, %weight{', %bias' if with_bias else ''}) {attributes}", "  return %y"]
    text = "graph conv_transpose {\n" + "\n".join(lines) + "\n}\n"
    function = getattr(nn.functional, f"conv_transpose{rank}d")
    eager = _Eager(
        function, stride=stride, padding=padding, output_padding=output_padding, groups=groups, dilation=dilation
    )  # fmt: skip
    return Region(
        name=f"conv_transpose{rank}d", text=text, example=text, eager=eager, leaf_count=3 if with_bias else 2, inputs=[0],
        differentiable=1, reach=[list(range(3 if with_bias else 2))], multiplied=[0, 1], weights=[[1]],
        linear=[], options=Options(never_slower=False), ops=[f"aten.conv_transpose{rank}d"],
    )  # fmt: skip


def _tuple(value, rank: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank


def conv_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """torch.nn.functional.conv_transpose1d/2d/3d, by the rank of the weight."""
    rank = weight.dim() - 2
    plain = getattr(nn.functional, f"conv_transpose{rank}d", None) if isinstance(x, torch.Tensor) else None
    if plain is None or not _fits(x, weight, bias, rank) or torch.is_autocast_enabled(x.device.type):
        function = plain or nn.functional.conv_transpose2d
        return function(x, weight, bias, stride, padding, output_padding, groups, dilation)
    try:
        shape = None if torch.compiler.is_compiling() else weight.shape
        key = [_tuple(v, rank) for v in (stride, padding, output_padding, dilation)]
        region = _region(rank, x.dim() == rank + 2, bias is not None, *key, int(groups), shape)
    except (library.CompileError, TypeError):
        return plain(x, weight, bias, stride, padding, output_padding, groups, dilation)
    leaves = (x, weight) if bias is None else (x, weight, bias)
    return region.module_call(leaves)[0]


def _fits(x, weight, bias, rank: int) -> bool:
    """Whether ours can take it; what it cannot, PyTorch computes, or refuses in its own words."""
    tensors = [t for t in (x, weight, bias) if t is not None]
    return (
        x.dim() in (rank + 1, rank + 2)
        and all(t.dtype in library.DTYPES and t.dtype == x.dtype and t.device == x.device for t in tensors)
        and all(t.layout is torch.strided and t.numel() > 0 for t in tensors)
        and x.device.type in ("cpu", "cuda")
        and functorch_stack() is None
        and not is_tracing()  # torch.jit.trace writes down PyTorch's operators
        and forward_ad._current_level < 0
    )


def _as_pytorchs(base: type):
    """What torch.jit.script asks for: the layer, of PyTorch's own class."""

    def prepare(layer):
        plain = object.__new__(base)
        plain.__dict__ = dict(layer.__dict__)
        return plain

    return prepare


class ConvTranspose1d(nn.ConvTranspose1d):
    __doc__ = nn.ConvTranspose1d.__doc__
    __prepare_scriptable__ = _as_pytorchs(nn.ConvTranspose1d)

    def forward(self, input, output_size=None):
        return _forward(self, input, output_size, 1, super().forward)


class ConvTranspose2d(nn.ConvTranspose2d):
    __doc__ = nn.ConvTranspose2d.__doc__
    __prepare_scriptable__ = _as_pytorchs(nn.ConvTranspose2d)

    def forward(self, input, output_size=None):
        return _forward(self, input, output_size, 2, super().forward)


class ConvTranspose3d(nn.ConvTranspose3d):
    __doc__ = nn.ConvTranspose3d.__doc__
    __prepare_scriptable__ = _as_pytorchs(nn.ConvTranspose3d)

    def forward(self, input, output_size=None):
        return _forward(self, input, output_size, 3, super().forward)


def _forward(layer, x, output_size, rank: int, plain):
    if layer.padding_mode != "zeros":
        return plain(x, output_size)
    output_padding = layer._output_padding(
        x, output_size, layer.stride, layer.padding, layer.kernel_size, rank, layer.dilation
    )  # fmt: skip
    return conv_transpose(
        x, layer.weight, layer.bias, layer.stride, layer.padding, output_padding, layer.groups, layer.dilation
    )
