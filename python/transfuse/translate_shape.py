"""The table of ATen operators: norms, shapes, casts and parameter expressions."""

from __future__ import annotations

import torch
from torch.fx import Node

from transfuse.library import DTYPES
from transfuse.translate import Unsupported, op, tensor

# Norms ------------------------------------------------------------------------------------------------------------------


@op("batch_norm.default")
def _(t, x, weight, bias, mean, var, training, momentum, eps, cudnn):
    if (weight is None) != (bias is None):
        raise Unsupported("a norm with one of weight and bias")
    affine = () if weight is None else (weight, bias)
    value = tensor(x)
    if training or mean is None:
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


def shaped(t, x, shape):
    """reshape to sizes of a fake tensor: at most one of them may be unknown."""
    sizes = [extent(s) for s in shape]
    if sizes.count(None) > 1:
        raise Unsupported("a reshape with two sizes that only the call tells")
    return t.emit("reshape", x, shape=[-1 if s is None else s for s in sizes])


@op("reshape.default", "view.default", "_unsafe_view.default")
def _(t, x, shape):
    return t.emit("reshape", x, shape=shape)


@op("view_as.default", "reshape_as.default")
def _(t, x, other):
    return shaped(t, x, tensor(other).shape)


@op("flatten.using_ints")
def _(t, x, start, end):
    shape = list(tensor(x).shape)
    rank = len(shape)
    if rank == 0:
        return t.emit("reshape", x, shape=[1])
    start, end = start % rank, end % rank
    known = [extent(s) for s in shape]
    joined = known[start : end + 1]
    middle = -1
    if None not in joined:
        middle = 1
        for s in joined:
            middle *= s
    sizes = known[:start] + [middle] + known[end + 1 :]
    if sizes.count(None) + (middle == -1) > 1:
        # Unknown extents are kept as they are by merging one axis at a time from known neighbours: only the joined one is free.
        raise Unsupported("a flatten with two sizes that only the call tells")
    return t.emit("reshape", x, shape=[-1 if s is None else s for s in sizes])


@op("unflatten.int")
def _(t, x, dim, sizes):
    shape = list(tensor(x).shape)
    dim %= len(shape)
    known = [extent(s) for s in shape]
    new = known[:dim] + list(sizes) + known[dim + 1 :]
    if sum(s is None or s == -1 for s in new) > 1:
        raise Unsupported("an unflatten with two sizes that only the call tells")
    return t.emit("reshape", x, shape=[-1 if s is None else s for s in new])


def with_axes(t, x, keep):
    """reshape that only drops or adds axes of extent one: `keep` lists old axes, None for a new one. A slice of nothing is
    free, so several unknown extents are carried by a permute of the same axes through concat-free reshapes."""
    shape = list(tensor(x).shape)
    sizes = [1 if axis is None else extent(shape[axis]) for axis in keep]
    if sizes.count(None) > 1:
        raise Unsupported("axes of extent one beside two sizes that only the call tells")
    return t.emit("reshape", x, shape=[-1 if s is None else s for s in sizes])


@op("unsqueeze.default")
def _(t, x, dim):
    rank = tensor(x).dim()
    dim = dim % (rank + 1)
    return with_axes(t, x, [*range(dim), None, *range(dim, rank)])


@op("squeeze.dim")
def _(t, x, dim):
    return squeeze(t, x, [dim])


@op("squeeze.dims")
def squeeze(t, x, dims):
    shape = list(tensor(x).shape)
    dims = {d % len(shape) for d in dims} if shape else set()
    keep = []
    for axis, size in enumerate(shape):
        if axis in dims and not isinstance(size, int):
            raise Unsupported("a squeeze of an axis whose extent only the call tells")
        if axis not in dims or size != 1:
            keep.append(axis)
    return with_axes(t, x, keep)


@op("squeeze.default")
def _(t, x):
    return squeeze(t, x, list(range(tensor(x).dim())))


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


@op("expand.default")
def _(t, x, shape, implicit=False):
    rank = len(shape)
    known = [1] * (rank - tensor(x).dim()) + [extent(s) for s in tensor(x).shape]
    sizes = [known[i] if s == -1 else s for i, s in enumerate(shape)]
    if any(s is None for s in sizes):
        raise Unsupported("an expand that keeps a size only the call tells")
    return t.emit("expand", x, shape=sizes)


@op("expand_as.default")
def _(t, x, other):
    shape = [extent(s) for s in tensor(other).shape]
    if None in shape:
        raise Unsupported("an expand to a size only the call tells")
    return t.emit("expand", x, shape=shape)


@op("cat.default", "concat.default")
def _(t, tensors, dim):
    tensors = [x for x in tensors if not (tensor(x).dim() == 1 and extent(tensor(x).shape[0]) == 0)]
    if not tensors:
        raise Unsupported("a concatenation of nothing")
    dtypes = {tensor(x).dtype for x in tensors}
    if len(dtypes) > 1:
        raise Unsupported("a concatenation of differing dtypes")
    rank = tensor(tensors[0]).dim()
    return t.emit("concat", *tensors, axis=dim % rank)


@op("stack.default")
def _(t, tensors, dim):
    rank = tensor(tensors[0]).dim()
    dim %= rank + 1
    keep = [*range(dim), None, *range(dim, rank)]
    return t.emit("concat", *[with_axes(t, x, keep) for x in tensors], axis=dim)


def sliced(t, x, axis, start, end, step=1):
    rank = tensor(x).dim()
    return t.emit("slice", x, axis=axis % rank, start=start or None, end=end, step=step)


@op("slice.Tensor")
def _(t, x, dim, start, end, step):
    if isinstance(end, int) and end >= 2**62:
        end = None
    return sliced(t, x, dim, start, end, step)


@op("narrow.default")
def _(t, x, dim, start, length):
    if not isinstance(start, int) or not isinstance(length, int):
        raise Unsupported("a narrow whose bounds only the call tells")
    if start < 0:
        raise Unsupported("a narrow from the end")
    return sliced(t, x, dim, start, start + length)


@op("select.int")
def _(t, x, dim, index):
    if not isinstance(index, int):
        raise Unsupported("an index that only the call tells")
    rank = tensor(x).dim()
    dim %= rank
    shape = list(tensor(x).shape)
    if index < 0:
        if not isinstance(shape[dim], int):
            raise Unsupported("an index from the end of an axis whose extent only the call tells")
        index += shape[dim]
    part = sliced(t, x, dim, index, index + 1)
    sizes = [extent(s) for i, s in enumerate(shape) if i != dim]
    if sizes.count(None) > 1:
        raise Unsupported("an index beside two sizes that only the call tells")
    return t.emit("reshape", part, shape=[-1 if s is None else s for s in sizes])


def parts(t, x, dim, sizes):
    result, start = [], 0
    for size in sizes:
        result.append(sliced(t, x, dim, start, start + size))
        start += size
    return result


@op("split.Tensor", "split.default")
def _(t, x, size, dim):
    total = tensor(x).shape[dim]
    if not isinstance(total, int) or not isinstance(size, int):
        raise Unsupported("a split of an axis whose extent only the call tells")
    return parts(t, x, dim, [min(size, total - i) for i in range(0, total, size)])


@op("split_with_sizes.default", "split.sizes")
def _(t, x, sizes, dim):
    if not all(isinstance(s, int) for s in sizes):
        raise Unsupported("a split with sizes that only the call tells")
    return parts(t, x, dim, sizes)


@op("chunk.default")
def _(t, x, chunks, dim):
    total = tensor(x).shape[dim]
    if not isinstance(total, int):
        raise Unsupported("a chunk of an axis whose extent only the call tells")
    size = -(-total // chunks)
    return parts(t, x, dim, [min(size, total - i) for i in range(0, total, size)])


@op("glu.default")
def _(t, x, dim):
    total = tensor(x).shape[dim]
    if not isinstance(total, int):
        raise Unsupported("a gate on an axis whose extent only the call tells")
    value, gate = parts(t, x, dim, [total // 2, total // 2])
    return t.emit("mul", value, t.emit("sigmoid", gate))


@op("constant_pad_nd.default")
def pad(t, x, padding, value=0):
    rank = tensor(x).dim()
    if not all(isinstance(p, int) for p in padding):
        raise Unsupported("a pad that only the call tells")
    start, end = [0] * rank, [0] * rank
    for i in range(len(padding) // 2):
        start[rank - 1 - i], end[rank - 1 - i] = padding[2 * i], padding[2 * i + 1]
    result = x
    for axis in range(rank):
        if start[axis] < 0 or end[axis] < 0:
            result = t.emit(
                "slice",
                result,
                axis=axis,
                start=max(0, -start[axis]) or None,
                end=min(0, end[axis]) if end[axis] < 0 else None,
            )
    start, end = [max(0, s) for s in start], [max(0, e) for e in end]
    if not any(start) and not any(end):
        return result if isinstance(result, str) else t.emit("identity", result)
    return t.emit("pad", result, start=start, end=end, value=value)


@op("pad.default")
def _(t, x, padding, mode="constant", value=None):
    if mode != "constant":
        raise Unsupported(f"{mode} padding")
    return pad(t, x, padding, 0 if value is None else value)


@op("flip.default")
def _(t, x, dims):
    rank = tensor(x).dim()
    return t.emit("flip", x, dims=[d % rank for d in dims])


@op("pixel_shuffle.default")
def _(t, x, r):
    shape = list(tensor(x).shape)
    if not all(isinstance(s, int) for s in shape) or len(shape) != 4:
        raise Unsupported("a pixel shuffle of sizes that only the call tells")
    n, c, h, w = shape
    x = t.emit("reshape", x, shape=[n, c // (r * r), r, r, h, w])
    x = t.emit("permute", x, order=[0, 1, 4, 2, 5, 3])
    return t.emit("reshape", x, shape=[n, c // (r * r), h * r, w * r])


@op("pixel_unshuffle.default")
def _(t, x, r):
    shape = list(tensor(x).shape)
    if not all(isinstance(s, int) for s in shape) or len(shape) != 4:
        raise Unsupported("a pixel unshuffle of sizes that only the call tells")
    n, c, h, w = shape
    x = t.emit("reshape", x, shape=[n, c, h // r, r, w // r, r])
    x = t.emit("permute", x, order=[0, 1, 3, 5, 2, 4])
    return t.emit("reshape", x, shape=[n, c * r * r, h // r, w // r])


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
