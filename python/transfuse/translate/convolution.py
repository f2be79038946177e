"""The table of ATen operators: convolutions, upsampling and pools."""

from __future__ import annotations

import ctypes

from torch.fx import Node

from transfuse.translate.table import TABLE, Cast, Unsupported, is_tensor, op, op_name, tensor, value_of

# Convolutions -----------------------------------------------------------------------------------------------------------


@op("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input")
def _(t, x, w, bias, stride, padding, output_padding, groups, dilation):
    operands = (x, w) if bias is None else (x, w, bias)
    return t.emit(
        "conv_transpose", *operands, stride=stride, padding=padding, output_padding=output_padding, dilation=dilation,
        groups=groups,
    )  # fmt: skip


@op("conv1d.default", "conv2d.default", "conv3d.default")
def conv(t, x, w, bias, stride, padding, dilation, groups):
    operands = (x, w) if bias is None else (x, w, bias)
    return t.emit("conv", *operands, stride=stride, padding=padding, dilation=dilation, groups=groups)


@op("conv1d.padding", "conv2d.padding", "conv3d.padding")
def _(t, x, w, bias, stride, padding, dilation, groups):
    weight = tensor(w)
    rank = weight.dim() - 2
    if padding == "valid":
        return conv(t, x, w, bias, stride, [0] * rank, dilation, groups)
    dilation = list(dilation) if isinstance(dilation, (list, tuple)) else [dilation]
    dilation = dilation * rank if len(dilation) == 1 else dilation
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
    before = [total // 2 for total in totals]
    if all(total % 2 == 0 for total in totals):
        return conv(t, x, w, bias, stride, before, dilation, groups)
    front = [0] * (tensor(x).dim() - rank)
    x = t.emit("pad", x, start=front + before, end=front + [a - b for a, b in zip(totals, before)])
    return conv(t, x, w, bias, stride, [0] * rank, dilation, groups)


@op("convolution.default")
def _(t, x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    if not transposed:
        return conv(t, x, w, bias, stride, padding, dilation, groups)
    return TABLE["aten.conv_transpose2d.input"](t, x, w, bias, stride, padding, output_padding, groups, dilation)


# What a linear layer may be moved through to a convolution before it: it becomes one with that, or with what is left of it.
_THROUGH = frozenset(
    """permute transpose swapaxes swapdims movedim moveaxis view reshape _unsafe_view flatten unflatten unsqueeze squeeze
contiguous clone alias detach dropout feature_dropout to mean sum avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
adaptive_avg_pool3d mul div add sub neg batch_norm""".split()
)
_FAR = 64


def _channels_of(node, known: dict | None = None) -> set[int]:
    """Of the convolutions that a value is a linear function of, how many channels they make. (Not what only the call tells.)
    `known`: the same of values that linear layers read."""
    known = {} if known is None else known
    found, seen, left = [], set(), [node]
    while left and len(seen) < _FAR:
        node = left.pop()
        if not isinstance(node, Node) or node in seen or node.op != "call_function":
            continue
        seen.add(node)
        name = op_name(node).removeprefix("aten.").partition(".")[0].removesuffix("_")
        if name.startswith(("conv", "convolution")):
            found.append(value_of(node).shape[1])
        elif name in ("linear", "matmul"):
            made, weight, read = value_of(node), value_of(node.args[1]), node.args[0]
            if read not in known:
                known[read] = _channels_of(read, known)
            if weight.dim() == 2 and _is_one_of(value_of(read).shape[-1], known[read]):
                found.append(made.shape[-1])
        elif name in _THROUGH and not (name == "batch_norm" and node.args[5]):
            left += node.args[:2] if name in ("add", "sub", "mul") else node.args[:1]
    return {channels for channels in found if isinstance(channels, int)}


def _is_one_of(extent, channels: set[int]) -> bool:
    return isinstance(extent, int) and extent in channels


@op("matmul.default")
def _(t, x, w):
    if not is_tensor(w) or tensor(w).dim() != 2:
        raise Unsupported("a product of matrices")
    inputs, outputs = tensor(w).shape
    return linear(t, x, t.emit("permute", w, order=[1, 0]), None, outputs, inputs)


@op("linear.default")
def _(t, x, w, bias):
    return linear(t, x, w, bias, *tensor(w).shape)


def linear(t, x, w, bias, outputs, inputs):
    """A convolution of single pixels. Behind a convolution alone, as the two become one: PyTorch multiplies matrices well."""
    shape = list(tensor(x).shape)
    if not 2 <= len(shape) <= 5:
        raise Unsupported(f"a linear layer on {len(shape)} axes")
    if not _is_one_of(inputs, _channels_of(x.node if isinstance(x, Cast) else x)):
        raise Unsupported("a linear layer that is not one with a convolution before it")
    between = max(len(shape) - 2, 1)
    if len(shape) == 2:
        x = t.emit("reshape", x, shape=t.shape([*shape, 1]))
    else:
        x = t.emit("permute", x, order=[0, len(shape) - 1, *range(1, len(shape) - 1)])
    w = t.emit("reshape", w, shape=[outputs, inputs, *[1] * between])
    y = conv(t, x, w, bias, [1] * between, [0] * between, [1] * between, 1)
    if len(shape) == 2:
        return t.emit("reshape", y, shape=t.shape([shape[0], outputs]))
    return t.emit("permute", y, order=[0, *range(2, len(shape)), 1])


@op(*(f"upsample_nearest{d}d.vec" for d in (1, 2, 3)), *(f"_upsample_nearest_exact{d}d.vec" for d in (1, 2, 3)))
def _(t, x, output_size, factors):
    if factors is not None:
        if not all(isinstance(f, (int, float)) and f == int(f) and f >= 1 for f in factors):
            raise Unsupported(f"nearest upsampling by {factors}: whole factors are supported")
        return upsampled(t, x, [int(f) for f in factors])
    shape = list(tensor(x).shape)[2:]
    if not all([isinstance(n, int) for n in (*shape, *output_size)]):
        raise Unsupported("nearest upsampling by a factor that only the call tells")
    if any([o % s for s, o in zip(shape, output_size)]):
        raise Unsupported("nearest upsampling to a size that is no multiple of the input's")
    return upsampled(t, x, [o // s for s, o in zip(shape, output_size)])


def upsampled(t, x, factors):
    for k in factors:
        if _single(k * _single(1 / k)) < 1:  # as for 41, 47, 55, …: PyTorch takes ⌊i · 1/k⌋ in single precision
            raise Unsupported(f"nearest upsampling by {k}, for which PyTorch takes the element before")
    return t.emit("upsample", x, scale=factors)


def _single(number: float) -> float:
    return ctypes.c_float(number).value


@op("repeat_interleave.self_int")
def _(t, x, repeats, dim=None, output_size=None):
    rank = tensor(x).dim()
    if not isinstance(repeats, int) or repeats < 1 or dim is None or rank < 3 or dim % rank < 2:
        raise Unsupported("elements repeated otherwise than along the image")
    return t.emit("upsample", x, scale=[repeats if axis == dim % rank else 1 for axis in range(2, rank)])


@op("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec")
def _(t, x, output_size, align_corners, factors):
    corners = int(align_corners)
    if factors is None:
        return t.emit("interpolate", x, output_size=output_size, align_corners=corners)
    if not all(isinstance(f, (int, float)) for f in factors):
        raise Unsupported("interpolation by a factor that only the call tells")
    return t.emit("interpolate", x, scale=[float(f) for f in factors], align_corners=corners)


# Pools ------------------------------------------------------------------------------------------------------------------


@op("max_pool1d.default", "max_pool2d.default", "max_pool3d.default")
def max_pool(t, x, kernel, stride, padding, dilation, ceil_mode):
    return t.emit(
        "max_pool", x, kernel=kernel, stride=stride or None, padding=padding, dilation=dilation, ceil_mode=ceil_mode
    )


@op("max_pool1d_with_indices.default", "max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def _(t, x, kernel, stride, padding, dilation, ceil_mode):
    return [max_pool(t, x, kernel, stride, padding, dilation, ceil_mode), None]


@op("avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default")
def _(t, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor=None):
    return t.emit(
        "avg_pool", x, kernel=kernel, stride=stride or None, padding=padding, ceil_mode=ceil_mode,
        count_include_pad=count_include_pad, divisor=divisor,
    )  # fmt: skip


def adaptive_size(t, x, output_size):
    shape = list(tensor(x).shape)[-len(output_size) :]
    size = [shape[i] if o is None else o for i, o in enumerate(output_size)]
    if not all(isinstance(s, (int, Node)) for s in size):
        raise Unsupported("an adaptive pool to a size taken from the input")
    return size


@op("adaptive_avg_pool1d.default", "adaptive_avg_pool2d.default", "adaptive_avg_pool3d.default")
def _(t, x, output_size):
    return t.emit("adaptive_avg_pool", x, output_size=adaptive_size(t, x, output_size))


@op("adaptive_max_pool1d.default", "adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def _(t, x, output_size):
    return [t.emit("adaptive_max_pool", x, output_size=adaptive_size(t, x, output_size)), None]
