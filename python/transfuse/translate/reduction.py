"""The table of ATen operators: reductions and softmax."""

from __future__ import annotations

import math

import torch

from transfuse.native.library import DTYPES
from transfuse.translate.table import Unsupported, op, tensor


def wide(t, x, dtype):
    """The operand in the dtype that a reduction was asked to work in."""
    if dtype is None or dtype == tensor(x).dtype:
        return x
    if dtype not in DTYPES:
        raise Unsupported(f"a reduction in {dtype}")
    return t.cast(t.operand(x), dtype)


def dims_of(dims):
    return None if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims


@op("sum.default")
def _(t, x, dtype):
    return t.emit("sum", wide(t, x, dtype))


@op("mean.default")
def _(t, x, dtype):
    return t.emit("mean", wide(t, x, dtype))


@op("sum.dim_IntList")
def _(t, x, dims, keepdim, dtype):
    return t.emit("sum", wide(t, x, dtype), dims=dims_of(dims), keepdim=keepdim)


@op("mean.dim")
def _(t, x, dims, keepdim, dtype):
    return t.emit("mean", wide(t, x, dtype), dims=dims_of(dims), keepdim=keepdim)


for _name in ("amax", "amin"):
    op(_name + ".default")(lambda t, x, dims, keepdim, name=_name: t.emit(name, x, dims=dims_of(dims), keepdim=keepdim))


@op("max.default")
def _(t, x):
    return t.emit("amax", x)


@op("min.default")
def _(t, x):
    return t.emit("amin", x)


def extreme(name):
    def handler(t, x, dim, keepdim):
        # The gradient of max(dim) goes to one element, that of amax is shared among equal ones: they differ on ties alone.
        return [t.emit(name, x, dims=[dim], keepdim=keepdim), None]

    return handler


op("max.dim")(extreme("amax"))
op("min.dim")(extreme("amin"))


@op("logsumexp.default")
def _(t, x, dims, keepdim):
    return t.emit("logsumexp", x, dims=dims_of(dims), keepdim=keepdim)


def variance(t, x, dims, correction, keepdim):
    correction = 1 if correction is None else correction
    if correction != int(correction):
        raise Unsupported("a variance with a fractional correction")
    return t.emit("var", x, dims=dims_of(dims), correction=int(correction), keepdim=keepdim)


@op("var.correction")
def _(t, x, dims, correction, keepdim):
    return variance(t, x, dims, correction, keepdim)


@op("var.dim")
def _(t, x, dims, unbiased, keepdim):
    return variance(t, x, dims, int(unbiased), keepdim)


@op("var.default")
def _(t, x, unbiased):
    return variance(t, x, None, int(unbiased), False)


def root(t, x: str, dtype: torch.dtype) -> str:
    """The square root of something that is not negative, whose gradient at zero is zero: PyTorch's std and norm have it so."""
    least = torch.finfo(dtype).smallest_normal if dtype is not torch.float16 else 2.0**-24
    return t.emit("mul", t.emit("sqrt", t.emit("maximum", x, least)), t.emit("sign", x))


def deviation(t, x, dims, correction, keepdim):
    """The root of the variance. PyTorch's is 0 for equal values, and so is its gradient; a variance formed around a mean that is
    itself rounded is not quite 0, and its root would have a gradient made of that rounding."""
    dtype = tensor(x).dtype
    narrow = dtype in (torch.float16, torch.bfloat16)
    made = torch.float32 if narrow else dtype
    x = t.cast(t.operand(x), made) if narrow else x
    var = variance(t, x, dims, correction, keepdim)
    mean = t.emit("mean", x, dims=dims_of(dims), keepdim=keepdim)
    rounding = t.emit("mul", t.emit("square", mean), (8 * torch.finfo(made).eps) ** 2)
    varies = t.emit("sign", t.emit("relu", t.emit("sub", var, rounding)))
    result = t.emit("mul", root(t, var, made), varies)
    return t.cast(result, dtype) if narrow else result


@op("std.correction")
def _(t, x, dims, correction, keepdim):
    return deviation(t, x, dims, correction, keepdim)


@op("std.dim")
def _(t, x, dims, unbiased, keepdim):
    return deviation(t, x, dims, int(unbiased), keepdim)


@op("std.default")
def _(t, x, unbiased):
    return deviation(t, x, None, int(unbiased), False)


@op("linalg_vector_norm.default")
def vector_norm(t, x, order, dims, keepdim, dtype):
    x, made = wide(t, x, dtype), dtype or tensor(x).dtype
    if order == math.inf:
        return t.emit("amax", t.emit("abs", x), dims=dims_of(dims), keepdim=keepdim)
    if order not in (1, 2):
        raise Unsupported(f"a norm of order {order}: 1, 2 and inf are supported")
    narrow = made in (torch.float16, torch.bfloat16)
    x = t.cast(t.operand(x), torch.float32) if narrow else x  # squares of 16 bits overflow
    value = t.emit("sum", t.emit("abs" if order == 1 else "square", x), dims=dims_of(dims), keepdim=keepdim)
    value = value if order == 1 else root(t, value, torch.float32 if narrow else made)
    return t.cast(value, made) if narrow else value


@op("norm.ScalarOpt_dim")
def _(t, x, order, dims, keepdim):
    return vector_norm(t, x, 2 if order is None else order, dims, keepdim, None)


@op("norm.Scalar")
def _(t, x, order):
    return vector_norm(t, x, order, None, False, None)


@op("softmax.int", "_softmax.default")
def _(t, x, dim, dtype):
    return t.emit("softmax", wide(t, x, dtype if isinstance(dtype, torch.dtype) else None), dims=[dim])


@op("log_softmax.int", "_log_softmax.default")
def _(t, x, dim, dtype):
    return t.emit("log_softmax", wide(t, x, dtype if isinstance(dtype, torch.dtype) else None), dims=[dim])
