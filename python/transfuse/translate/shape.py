"""The table of ATen operators: norms, shapes, casts and parameter expressions."""

from __future__ import annotations

import torch
from torch.fx import Node

from transfuse.native.library import DTYPES
from transfuse.translate.table import Unsupported, is_tensor, op, tensor

# Norms ------------------------------------------------------------------------------------------------------------------


@op("batch_norm.default")
def _(t, x, weight, bias, mean, var, training, momentum, eps, cudnn):
    if (weight is None) != (bias is None):
        raise Unsupported("a norm with one of weight and bias")
    affine = () if weight is None else (weight, bias)
    value = tensor(x)
    if training or mean is None:
        if any(extent(size) == 0 for size in value.shape):
            raise Unsupported("the statistics of no values")  # PyTorch leaves running averages as they are
        result = t.emit("batch_norm", x, *affine, training=1, eps=eps)
        if training and mean is not None:
            dims = [0, *range(2, value.dim())]
            wide = x
            if tensor(mean).dtype != value.dtype:
                wide = t.cast(t.operand(x), tensor(mean).dtype)
            t.statistics.append((mean, momentum, x, t.emit("mean", wide, dims=dims)))
            t.statistics.append((var, momentum, x, t.emit("var", wide, dims=dims, correction=1)))
        return result
    return t.emit("batch_norm", x, mean, var, *affine, training=0, eps=eps)


@op("group_norm.default")
def _(t, x, groups, weight, bias, eps, cudnn=None):
    if (weight is None) != (bias is None):
        raise Unsupported("a norm with one of weight and bias")
    return t.emit("group_norm", x, *(() if weight is None else (weight, bias)), num_groups=groups, eps=eps)


@op("layer_norm.default")
def _(t, x, shape, weight, bias, eps, cudnn=None):
    if weight is None and bias is not None:
        raise Unsupported("a norm with a bias and no weight")
    affine = [a for a in (weight, bias) if a is not None]
    return t.emit("layer_norm", x, *affine, normalized_shape=shape, eps=eps)


@op("instance_norm.default")
def _(t, x, weight, bias, mean, var, use_input_stats, momentum, eps, cudnn=None):
    if not use_input_stats:
        affine = () if weight is None else (weight, bias)
        return t.emit("batch_norm", x, mean, var, *affine, training=0, eps=eps)
    if mean is not None:
        raise Unsupported("instance norm that updates running statistics")
    if (weight is None) != (bias is None):
        raise Unsupported("a norm with one of weight and bias")
    return t.emit("instance_norm", x, *(() if weight is None else (weight, bias)), eps=eps)


@op("rms_norm.default")
def _(t, x, shape, weight=None, eps=None):
    """x / √(mean x² + ε), over the last axes."""
    value = tensor(x)
    if value.dtype not in (torch.float32, torch.float64):
        raise Unsupported("rms_norm in less than single precision")
    dims = list(range(value.dim() - len(shape), value.dim()))
    square = t.emit("mean", t.emit("square", x), dims=dims, keepdim=1)
    result = t.emit(
        "mul", x, t.emit("rsqrt", t.emit("add", square, torch.finfo(value.dtype).eps if eps is None else eps))
    )
    return result if weight is None else t.emit("mul", result, weight)


# Shapes -----------------------------------------------------------------------------------------------------------------


def extent(size):
    """An extent of a fake tensor as an attribute, or None where only the call will tell."""
    return size if isinstance(size, int) else None


def reshaped(t, x, shape):
    """reshape to sizes of a fake tensor"""
    return t.emit("reshape", x, shape=t.shape(shape))


@op("reshape.default", "view.default", "_unsafe_view.default")
def _(t, x, shape):
    return t.emit("reshape", x, shape=shape)


@op("view_as.default", "reshape_as.default", "flatten.using_ints", "unflatten.int", "unsqueeze.default")
@op("squeeze.dim", "squeeze.dims", "squeeze.default")
def _(t, x, *told):
    """What is its operand in the shape of the result."""
    for argument in told:
        for size in argument if isinstance(argument, (list, tuple)) else [argument]:
            if isinstance(size, Node) and not is_tensor(size):
                t.told(size)
    return reshaped(t, x, t.result.shape)


@op("permute.default")
def _(t, x, order):
    rank = tensor(x).dim()
    return t.emit("permute", x, order=[d % rank for d in order])


@op("transpose.int", "swapaxes.default", "swapdims.default")
def _(t, x, a, b):
    rank = tensor(x).dim()
    order = list(range(rank))
    order[a % rank], order[b % rank] = order[b % rank], order[a % rank]
    return t.emit("permute", x, order=order)


@op("movedim.int", "movedim.intlist", "moveaxis.int", "moveaxis.intlist")
def _(t, x, source, destination):
    rank = tensor(x).dim()
    source, destination = (
        [d % rank for d in (axes if isinstance(axes, (list, tuple)) else [axes])] for axes in (source, destination)
    )
    rest = iter(axis for axis in range(rank) if axis not in source)
    moved = dict(zip(destination, source))
    return t.emit("permute", x, order=[moved[axis] if axis in moved else next(rest) for axis in range(rank)])


@op("expand.default", "broadcast_to.default")
def _(t, x, shape, implicit=False):
    known = [1] * (len(shape) - tensor(x).dim()) + list(tensor(x).shape)
    sizes = [t.told(s) for s in shape]
    return t.emit("expand", x, shape=t.extents([k if extent(s) == -1 else s for k, s in zip(known, sizes)]))


@op("expand_as.default")
def _(t, x, other):
    return t.emit("expand", x, shape=t.extents(tensor(other).shape))


MOST_COPIES = 16  # of a tensor, one behind the other along an axis


@op("repeat.default", "tile.default")
def _(t, x, repeats):
    """Axes of extent 1 are expanded, others concatenated."""
    value, repeats = tensor(x), [t.told(count) for count in repeats]
    repeats = [1] * (value.dim() - len(repeats)) + repeats  # tile may leave out the first ones
    known = [1] * (len(repeats) - value.dim()) + list(value.shape)
    single = [extent(size) == 1 for size in known]
    copies = [extent(count) for count, one in zip(repeats, single) if not one]
    if None in copies:
        raise Unsupported("elements repeated as often as only the call tells")
    if any(count > MOST_COPIES for count in copies) or 0 in map(extent, repeats):
        raise Unsupported(f"elements repeated {repeats} times")
    shape = [count if one else size for one, count, size in zip(single, repeats, known)]
    result = t.emit("expand", x, shape=t.extents(shape))
    for axis, count in enumerate(repeats):
        if not single[axis] and count > 1:
            result = t.emit("concat", *[result] * count, axis=axis)
    return reshaped(t, result, t.result.shape)  # contiguous, as PyTorch's


@op("cat.default", "concat.default")
def _(t, tensors, dim):
    dtypes = {tensor(x).dtype for x in tensors}
    if len(dtypes) > 1:
        raise Unsupported("a concatenation of differing dtypes")
    rank = tensor(tensors[0]).dim()
    if any(tensor(x).dim() != rank for x in tensors):
        raise Unsupported("a concatenation with an empty tensor of another rank")
    return t.emit("concat", *tensors, axis=dim % rank)


@op("stack.default")
def _(t, tensors, dim):
    shape = list(tensor(tensors[0]).shape)
    dim %= len(shape) + 1
    return t.emit("concat", *[reshaped(t, x, [*shape[:dim], 1, *shape[dim:]]) for x in tensors], axis=dim)


def sliced(t, x, axis, start, end, step=1):
    rank = tensor(x).dim()
    start, end = (None if bound is None else t.extents([bound])[0] for bound in (start, end))
    return t.emit("slice", x, axis=axis % rank, start=None if extent(start) == 0 else start, end=end, step=step)


@op("slice.Tensor")
def _(t, x, dim, start, end, step):
    if isinstance(end, int) and end >= 2**62:
        end = None
    return sliced(t, x, dim, start, end, step)


@op("narrow.default")
def _(t, x, dim, start, length):
    if not isinstance(start, int):
        raise Unsupported("a narrow from where only the call tells")
    if start < 0:
        start += tensor(x).shape[dim]
    return sliced(t, x, dim, start, start + t.told(length))


@op("select.int")
def _(t, x, dim, index):
    if not isinstance(index, int):
        raise Unsupported("an index that only the call tells")
    shape = list(tensor(x).shape)
    dim %= len(shape)
    if index < 0:
        index += shape[dim]
    part = sliced(t, x, dim, index, index + 1)
    return reshaped(t, part, shape[:dim] + shape[dim + 1 :])


def parts(t, x, dim, sizes):
    result, start = [], 0
    for size in sizes:
        result.append(sliced(t, x, dim, start, start + size))
        start += size
    return result


@op("split.Tensor", "split.default", "split_with_sizes.default", "split.sizes", "chunk.default")
def _(t, x, sizes, dim):
    for size in sizes if isinstance(sizes, (list, tuple)) else [sizes]:
        t.told(size)
    return parts(t, x, dim, [part.shape[dim] for part in t.result])


@op("glu.default")
def _(t, x, dim):
    half = tensor(x).shape[dim] // 2
    value, gate = parts(t, x, dim, [half, half])
    return t.emit("mul", value, t.emit("sigmoid", gate))


@op("constant_pad_nd.default")
def pad(t, x, padding, value=0):
    shape = tensor(x).shape
    start, end = [0] * len(shape), [0] * len(shape)
    for i in range(len(padding) // 2):
        start[-1 - i], end[-1 - i] = t.told(padding[2 * i]), t.told(padding[2 * i + 1])
    result = x
    for axis, (before, after) in enumerate(zip(start, end)):
        first, cut = torch.sym_max(0, -before), torch.sym_max(0, -after)  # a negative pad leaves out
        if extent(first) != 0 or extent(cut) != 0:
            last = None if extent(cut) == 0 else -cut if isinstance(cut, int) else shape[axis] - cut
            first, last = (None if extent(s) == 0 or s is None else t.extents([s])[0] for s in (first, last))
            result = t.emit("slice", result, axis=axis, start=first, end=last)
    start, end = ([torch.sym_max(0, s) for s in sides] for sides in (start, end))
    if not any(extent(s) != 0 for s in (*start, *end)):
        return result if isinstance(result, str) else t.emit("identity", result)
    return t.emit("pad", result, start=t.extents(start), end=t.extents(end), value=value)


@op("pad.default")
def _(t, x, padding, mode="constant", value=None):
    return (
        pad(t, x, padding, 0 if value is None else value) if mode == "constant" else pad_with_own(t, x, padding, mode)
    )


@op("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default")
def _(t, x, padding):
    return pad_with_own(t, x, padding, "reflect")


@op("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def _(t, x, padding):
    return pad_with_own(t, x, padding, "replicate")


def pad_with_own(t, x, padding, mode):
    """Padding with elements of x: parts of it at either end, one axis after the other."""
    told, rank = [t.told(p) for p in padding], tensor(x).dim()
    if any(not isinstance(p, int) or p < 0 for p in told):
        raise Unsupported(f"{mode} padding that crops, or whose width only the call tells")
    result = x
    for i in range(len(told) // 2):
        axis, (before, after) = rank - 1 - i, told[2 * i : 2 * i + 2]

        def part(start, end, x=result, axis=axis):
            return t.emit("slice", x, axis=axis, start=start, end=end)

        def end(count, mirrored, edge, turned, axis=axis):
            if count == 0:
                return []
            if mode == "reflect":
                return [t.emit("flip", part(*mirrored), dims=[axis])]
            if mode == "replicate":
                return [t.emit("expand", part(*edge), shape=[-1] * axis + [count] + [-1] * (rank - 1 - axis))]
            return [part(*turned)]

        left = end(before, (1, before + 1), (0, 1), (-before, None))
        right = end(after, (-after - 1, -1), (-1, None), (0, after))
        if left or right:
            result = t.emit("concat", *left, result, *right, axis=axis)
    return result if isinstance(result, str) else t.emit("identity", result)


@op("flip.default")
def _(t, x, dims):
    rank = tensor(x).dim()
    return t.emit("flip", x, dims=[d % rank for d in dims])


@op("channel_shuffle.default", "native_channel_shuffle.default")
def _(t, x, groups):
    n, c, *space = tensor(x).shape
    x = reshaped(t, x, [n, groups, c // groups, *space])
    return reshaped(t, t.emit("permute", x, order=[0, 2, 1, *range(3, 3 + len(space))]), [n, c, *space])


@op("pixel_shuffle.default")
def _(t, x, r):
    *lead, c, h, w = tensor(x).shape
    n, c = len(lead), c // (r * r)
    x = reshaped(t, x, [*lead, c, r, r, h, w])
    x = t.emit("permute", x, order=[*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return reshaped(t, x, [*lead, c, h * r, w * r])


@op("pixel_unshuffle.default")
def _(t, x, r):
    *lead, c, h, w = tensor(x).shape
    n, h, w = len(lead), h // r, w // r
    x = reshaped(t, x, [*lead, c, h, r, w, r])
    x = t.emit("permute", x, order=[*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return reshaped(t, x, [*lead, c * r * r, h, w])


# Copies and casts -------------------------------------------------------------------------------------------------------


@op("clone.default", "contiguous.default")
def _(t, x, memory_format=None):
    if memory_format in (torch.channels_last, torch.channels_last_3d):
        raise Unsupported("a change of the memory format")
    return t.emit("identity", x)


@op("alias.default", "lift_fresh.default", "lift_fresh_copy.default")
def _(t, x):
    return t.emit("identity", x)


@op("detach.default")
def _(t, x):
    return t.emit("detach", x)


@op("dropout.default", "feature_dropout.default", "alpha_dropout.default", "feature_alpha_dropout.default")
def _(t, x, p, train):
    if train and p > 0:
        raise Unsupported("dropout in training")
    return t.emit("identity", x)


def to(t, x, dtype):
    if dtype is not None and dtype not in DTYPES:
        raise Unsupported(f"a cast to {dtype}")
    return t.emit("identity", x) if dtype in (None, tensor(x).dtype) else t.cast(t.operand(x), dtype)


@op("to.dtype")
def _(t, x, dtype, non_blocking, copy, memory_format):
    if memory_format not in (None, torch.preserve_format):
        raise Unsupported("a change of the memory format")
    return to(t, x, dtype)


@op("to.dtype_layout", "_to_copy.default")
def _(t, x, dtype, layout, device, pin_memory, non_blocking, *rest):
    if (device is not None and torch.device(device).type != tensor(x).device.type) or pin_memory:
        raise Unsupported("a move to another device")
    if rest[-1] not in (None, torch.preserve_format):
        raise Unsupported("a change of the memory format")
    return to(t, x, dtype)


@op("to.device")
def _(t, x, device, dtype, non_blocking, copy, memory_format):
    if t.result.device != tensor(x).device:
        raise Unsupported("a move to another device")
    if memory_format not in (None, torch.preserve_format):
        raise Unsupported("a change of the memory format")
    return to(t, x, dtype)


@op("_weight_norm.default")
def _(t, v, g, dim):
    rank = tensor(v).dim()
    if dim == -1 or not isinstance(dim, int) or g is None:
        raise Unsupported("weight_norm over all axes")
    if not isinstance(v, Node) or list(tensor(g).shape) != [
        s if i == dim % rank else 1 for i, s in enumerate(tensor(v).shape)
    ]:
        raise Unsupported("weight_norm with a gain of another shape")
    return t.emit("weight_norm", v, g, axis=dim % rank)
