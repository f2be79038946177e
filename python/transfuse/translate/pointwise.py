"""The table of ATen operators: functions of one or two values."""

from __future__ import annotations

import math

import torch
from torch.fx import Node

from transfuse.translate.table import Unsupported, op, tensor, value_of

# Pointwise, one operand -------------------------------------------------------------------------------------------------

for _name in (
    "neg", "abs", "sign", "exp", "log", "sqrt", "rsqrt", "reciprocal", "square", "sin", "cos", "erf", "tanh", "sigmoid",
    "relu", "selu", "silu", "mish", "hardsigmoid", "hardswish",
):  # fmt: skip
    op(_name + ".default")(lambda t, x, name=_name: t.emit(name, x))


@op("leaky_relu.default")
def _(t, x, slope):
    return t.emit("leaky_relu", x, negative_slope=slope)


@op("elu.default")
def _(t, x, alpha, scale, input_scale):
    if scale != 1 or input_scale != 1:
        raise Unsupported("elu with a scale")
    return t.emit("elu", x, alpha=alpha)


@op("celu.default")
def _(t, x, alpha):
    return t.emit("mul", t.emit("elu", t.emit("div", x, alpha)), alpha)


@op("gelu.default")
def _(t, x, approximate):
    return t.emit("gelu", x, approximate=int(approximate == "tanh"))


@op("softplus.default")
def _(t, x, beta, threshold):
    return t.emit("softplus", x, beta=beta, threshold=threshold)


@op("log_sigmoid.default")
def _(t, x):
    return t.emit("neg", t.emit("softplus", t.emit("neg", x)))


@op("hardtanh.default")
def hardtanh(t, x, lo, hi):
    return t.emit("hardtanh", x, lo=lo, hi=hi)  # clamp, but for its gradient at the bounds: 0


@op("relu6.default")
def _(t, x):
    return hardtanh(t, x, 0, 6)


@op("threshold.default")
def _(t, x, threshold, value):
    if threshold != 0 or value != 0:
        raise Unsupported("a threshold that is not relu")
    return t.emit("relu", x)


@op("softshrink.default")
def _(t, x, bound):
    return t.emit("sub", x, t.emit("clamp", x, lo=-bound, hi=bound))


@op("rrelu.default")
def _(t, x, lower, upper, training, generator):
    if training:
        raise Unsupported("rrelu in training draws its slopes")
    return t.emit("leaky_relu", x, negative_slope=(lower + upper) / 2)


def _clamps_openly() -> bool:
    """Whether PyTorch's clamp has no gradient at its bounds: versions differ."""
    with torch.inference_mode(False), torch.enable_grad():
        x = torch.ones((), device="cpu", requires_grad=True)
        return not torch.autograd.grad(x.clamp(max=1.0), x)[0].item()


OPEN = _clamps_openly()


@op("clamp.default", "clip.default")
def clamp(t, x, lo, hi=None):
    if not OPEN:
        return t.emit("clamp", x, lo=lo, hi=hi)
    return t.emit("hardtanh", x, lo=-math.inf if lo is None else lo, hi=math.inf if hi is None else hi)


@op("clamp.Tensor")
def _(t, x, lo, hi=None):
    """Where bounds are open, those that are tensors share the gradient with what is equal to them."""
    lo, hi = number_beside(lo, x), number_beside(hi, x)
    if not OPEN and not isinstance(lo, Node) and not isinstance(hi, Node):
        return t.emit("clamp", x, lo=lo, hi=hi)
    x = t.operand(x) if isinstance(x, Node) else x
    x = x if lo is None else t.emit("maximum", x, lo)
    return x if hi is None else t.emit("minimum", x, hi)


@op("clamp_min.default")
def _(t, x, lo):
    return clamp(t, x, lo)


@op("clamp_max.default")
def _(t, x, hi):
    return clamp(t, x, None, hi)


# Pointwise, two operands ------------------------------------------------------------------------------------------------


def number_beside(argument, other):
    """A noted number (see constants.py) where `other` is a tensor with dimensions, else the argument itself."""
    if isinstance(argument, Node) and "number" in argument.meta and isinstance(other, Node):
        value = value_of(other)
        if isinstance(value, torch.Tensor) and value.dim() > 0 and value.is_floating_point():
            return argument.meta["number"]
    return argument


def both(a, b):
    return number_beside(a, b), number_beside(b, a)


def scaled(t, b, alpha):
    if alpha is None or alpha == 1:
        return b
    return b * alpha if isinstance(b, (int, float)) else t.emit("mul", b, alpha)


@op("add.Tensor", "add.Scalar")
def _(t, a, b, alpha=1):
    a, b = both(a, b)
    return t.emit("add", a, scaled(t, b, alpha))


@op("sub.Tensor", "sub.Scalar")
def _(t, a, b, alpha=1):
    a, b = both(a, b)
    return t.emit("sub", a, scaled(t, b, alpha))


@op("rsub.Tensor", "rsub.Scalar")
def _(t, a, b, alpha=1):
    a, b = both(a, b)
    return t.emit("sub", b, scaled(t, a, alpha))


for _name, _text in (
    ("minimum.default", "minimum"), ("maximum.default", "maximum"), ("min.other", "minimum"), ("max.other", "maximum"),
    ("pow.Tensor_Tensor", "pow"),
):  # fmt: skip
    op(_name)(lambda t, a, b, text=_text: t.emit(text, *both(a, b)))


def finite(factor):
    """A factor may be moved into a weight, and sums of infinite weights are nan where infinite sums are not."""
    if isinstance(factor, (int, float)) and not math.isfinite(factor):
        raise Unsupported("a factor that is not finite")
    return factor


@op("mul.Tensor", "mul.Scalar", "multiply.Tensor")
def _(t, a, b):
    return t.emit("mul", *map(finite, both(a, b)))


@op("div.Tensor", "div.Scalar", "true_divide.Tensor", "divide.Tensor")
def _(t, a, b):
    a, b = both(a, b)
    if isinstance(b, (int, float)) and b == 0:
        raise Unsupported("a division by zero")
    return t.emit("div", finite(a), finite(b))


@op("div.Tensor_mode", "div.Scalar_mode")
def _(t, a, b, mode):
    if mode is not None:
        raise Unsupported(f"division rounded by {mode}")
    return t.emit("div", a, b)


_ROOTS = {0.5: "sqrt", -0.5: "rsqrt"}


@op("pow.Tensor_Scalar")
def _(t, a, b):
    # PyTorch takes roots for these, whose values at −∞ and −0 are others.
    if isinstance(b, float) and b in _ROOTS:
        return t.emit(_ROOTS[b], a)
    return t.emit("pow", *both(a, b))


@op("pow.Scalar")
def _(t, a, b):
    return t.emit("pow", a, b)


@op("prelu.default")
def _(t, x, weight):
    # One slope a channel: [C] lies along axis 1.
    w, rank = tensor(weight), tensor(x).dim()
    if w.dim() == 1 and rank > 2 and not (isinstance(w.shape[0], int) and w.shape[0] == 1):
        weight = t.emit("reshape", weight, shape=[w.shape[0]] + [1] * (rank - 2))
    return t.emit("prelu", x, weight)


@op("addcmul.default")
def _(t, x, a, b, value):
    return t.emit("add", x, scaled(t, t.emit("mul", a, b), value))


@op("addcdiv.default")
def _(t, x, a, b, value):
    return t.emit("add", x, scaled(t, t.emit("div", a, b), value))


@op("lerp.Scalar", "lerp.Tensor")
def _(t, a, b, weight):
    return t.emit("add", a, t.emit("mul", t.emit("sub", b, a), weight))
