"""ATen operators as statements of the graph's text form: a table, with a reason for everything that is refused.

A handler gets the translator and the operator's arguments in schema order and returns the name of its value (or, for an
operator with several results, a list of names, None for those that have no counterpart). It raises Unsupported with a
reason a user can read."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable

import torch
from torch.fx import Node

from transfuse.library import DTYPES

TABLE: dict[str, Callable] = {}
FLOATS = tuple(DTYPES)


class Unsupported(Exception):
    """Why an operator stays with PyTorch."""


def op(*names: str):
    def register(handler):
        for name in names:
            TABLE["aten." + name] = handler
        return handler

    return register


def value_of(node):
    """The fake tensor (or symbolic number) a node stands for."""
    return node.meta.get("val") if isinstance(node, Node) else node


def is_tensor(argument) -> bool:
    return isinstance(argument, Node) and isinstance(value_of(argument), torch.Tensor)


def arguments_of(node: Node) -> list:
    """The arguments in schema order, defaults filled in."""
    values = list(node.args)
    for argument in node.target._schema.arguments[len(values) :]:
        if argument.name in node.kwargs:
            values.append(node.kwargs[argument.name])
        else:
            values.append(argument.default_value if argument.has_default_value() else None)
    return values


def op_name(node: Node) -> str:
    return str(node.target)


def functional_name(name: str) -> str:
    """aten.relu_.default → aten.relu.default"""
    return re.sub(r"^(aten\.\w+?)_\.", r"\1.", name)


def is_inplace(node: Node) -> bool:
    return (
        node.op == "call_function"
        and isinstance(node.target, torch._ops.OpOverload)
        and re.match(r"^aten\.\w*[a-z0-9]_\.", op_name(node)) is not None
        and not op_name(node).startswith("aten.__")
    )


class Translator:
    """Collects the statements of one region."""

    def __init__(self):
        self.statements: list[str] = []
        self.names: dict[Node, str | list] = {}
        self.leaves: dict[Node, str] = {}
        self.sizes: dict[Node, int] = {}  # numbers known only at the call, in order: $0, $1, …
        self.statistics: list[tuple[Node, float | None, Node, str]] = []  # (buffer, momentum, its node, new value)
        self.count = 0

    # Operands and attributes ------------------------------------------------------------------------------------------

    def operand(self, argument) -> str:
        if isinstance(argument, Node):
            name = self.names.get(argument)
            if name is None:
                value = value_of(argument)
                if not isinstance(value, torch.Tensor):
                    raise Unsupported("a number computed from sizes is an operand")
                if value.dtype not in DTYPES:
                    raise Unsupported(f"{str(value.dtype).removeprefix('torch.')} operand")
                name = self.names[argument] = self.leaves[argument] = f"%{argument.name}"
            if not isinstance(name, str):
                raise Unsupported("a tuple is an operand")
            return name
        return self.number(argument)

    def number(self, value) -> str:
        if isinstance(value, bool):
            return str(int(value))
        if isinstance(value, int):
            return str(value)
        if isinstance(value, float):
            if math.isnan(value):
                raise Unsupported("nan as a constant")
            return "inf" if value == math.inf else "-inf" if value == -math.inf else repr(value)
        raise Unsupported(f"a constant of type {type(value).__name__}")

    def size(self, value) -> str:
        """A whole number in an attribute; one that depends on the input's shape becomes $k."""
        if isinstance(value, Node):
            static = value_of(value)
            if isinstance(static, int):
                return str(static)
            if not isinstance(static, torch.SymInt):
                raise Unsupported("a size that is no integer")
            return f"${self.sizes.setdefault(value, len(self.sizes))}"
        if isinstance(value, int):
            return str(int(value))
        raise Unsupported(f"a size of type {type(value).__name__}")

    def attribute(self, value) -> str:
        if isinstance(value, (list, tuple)):
            if any(isinstance(v, float) for v in value):
                return "[" + ",".join(self.number(v) for v in value) + "]"
            return "[" + ",".join(self.size(v) for v in value) + "]"
        if isinstance(value, str):
            return value
        return self.size(value) if isinstance(value, (Node, torch.SymInt)) else self.number(value)

    def emit(self, op: str, *operands, **attributes) -> str:
        """`operands` are names, nodes or numbers; returns the new value's name."""
        texts = [o if isinstance(o, str) else self.operand(o) for o in operands]
        name = f"%v{self.count}"
        self.count += 1
        tail = "".join(f" {key}={self.attribute(value)}" for key, value in attributes.items() if value is not None)
        self.statements.append(f"{name} = {op}({', '.join(texts)}){tail}")
        return name

    def cast(self, operand: str, dtype: torch.dtype) -> str:
        return self.emit("cast", operand, dtype=DTYPES[dtype])

    # Nodes ------------------------------------------------------------------------------------------------------------

    def translate(self, node: Node) -> None:
        if node.target is operator.getitem:
            results = self.names.get(node.args[0])
            index = node.args[1]
            if not isinstance(results, list):
                raise Unsupported("an element of a tuple that stays with PyTorch")
            if not isinstance(index, int) or results[index] is None:
                raise Unsupported(f"result {index} of {op_name(node.args[0])}")
            self.names[node] = results[index]
            return
        handler, arguments = check(node)
        arguments = self.autocast(node, arguments)
        self.names[node] = handler(self, *arguments)

    def autocast(self, node: Node, arguments: list) -> list:
        """Under autocast PyTorch casts the operands of some operators; the dtype it chose shows in the result."""
        result = value_of(node)
        if not isinstance(result, torch.Tensor) or result.dtype not in DTYPES or not CASTING.match(op_name(node)):
            return arguments

        def fix(argument):
            if is_tensor(argument) and value_of(argument).dtype != result.dtype and value_of(argument).dtype in DTYPES:
                if not (torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")):
                    raise Unsupported("operands of differing dtypes")
                key = (argument, result.dtype)
                if key not in self.names:
                    self.names[key] = self.cast(self.operand(argument), result.dtype)
                return Cast(argument, self.names[key], result)
            return argument

        return [fix(a) for a in arguments]


# Operators whose operands must be of one dtype in PyTorch, so that differing ones mean that autocast is on.
CASTING = re.compile(r"aten\.(conv\w*|softmax|log_softmax|avg_pool\w*|adaptive_avg_pool\w*|prelu|upsample\w*)\.")


class Cast(str):
    """The name of a cast operand that still knows the tensor it stands for."""

    def __new__(cls, node, name, like):
        self = super().__new__(cls, name)
        self.node, self.like = node, like
        return self


def tensor(argument):
    """The fake tensor behind an operand, cast or not."""
    return value_of(argument.node) if isinstance(argument, Cast) else value_of(argument)


def check(node: Node) -> tuple[Callable, list]:
    """The handler and the arguments of a node, or Unsupported."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        raise Unsupported("no ATen operator")
    name = functional_name(op_name(node)) if is_inplace(node) else op_name(node)
    handler = TABLE.get(name)
    if handler is None:
        raise Unsupported(f"{op_name(node)} has no counterpart")
    arguments = arguments_of(node)
    results = value_of(node)
    for result in results if isinstance(results, (list, tuple)) else [results]:
        if not isinstance(result, torch.Tensor):
            raise Unsupported("its result is no tensor")
        if result.layout is not torch.strided or result.device.type not in ("cpu", "cuda"):
            raise Unsupported(f"a {result.layout} tensor on {result.device.type}")
    first = results[0] if isinstance(results, (list, tuple)) else results
    if first.dtype not in DTYPES:
        raise Unsupported(f"{str(first.dtype).removeprefix('torch.')} result")
    return handler, arguments


def reason(node: Node) -> str | None:
    """Why a node cannot be taken; None if it can. Tuples are judged with the elements that are used."""
    translator = Translator()
    try:
        if node.target is operator.getitem:
            parent = node.args[0]
            if not isinstance(parent, Node) or parent.op != "call_function":
                raise Unsupported("an element of something PyTorch computes")
            translator.translate(parent)
            translator.translate(node)
            return None
        translator.translate(node)
        for user in node.users:
            if user.target is operator.getitem:
                translator.translate(user)
            elif isinstance(translator.names[node], list):
                raise Unsupported("its tuple is used whole")
        return None
    except Unsupported as refusal:
        return str(refusal)


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


@op(*(f"upsample_nearest{d}d.vec" for d in (1, 2, 3)), *(f"_upsample_nearest_exact{d}d.vec" for d in (1, 2, 3)))
def _(t, x, output_size, factors):
    if factors is not None:
        if not all(isinstance(f, (int, float)) and f == int(f) and f >= 1 for f in factors):
            raise Unsupported(f"nearest upsampling by {factors}: whole factors are supported")
        return t.emit("upsample", x, scale=[int(f) for f in factors])
    shape = list(tensor(x).shape)[2:]
    if not all(isinstance(s, int) and isinstance(o, int) and o % s == 0 for s, o in zip(shape, output_size)):
        raise Unsupported("nearest upsampling to a size that is no known multiple of the input's")
    return t.emit("upsample", x, scale=[o // s for s, o in zip(shape, output_size)])


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


# Pointwise, one operand -------------------------------------------------------------------------------------------------

for _name in (
    "neg", "abs", "sign", "exp", "log", "sqrt", "rsqrt", "reciprocal", "square", "sin", "cos", "erf", "tanh", "sigmoid",
    "relu", "selu", "silu", "mish", "hardsigmoid", "hardswish",
):  # fmt: skip
    op(_name + ".default")(lambda t, x, name=_name: t.emit(name, x))


@op("relu6.default")
def _(t, x):
    return t.emit("clamp", x, lo=0, hi=6)


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
def _(t, x, lo, hi):
    return t.emit("clamp", x, lo=lo, hi=hi)


@op("clamp.default", "clip.default")
def clamp(t, x, lo, hi=None):
    return t.emit("clamp", x, lo=lo, hi=hi)


@op("clamp.Tensor")
def _(t, x, lo, hi=None):
    x = t.operand(x) if isinstance(x, Node) else x
    x = x if lo is None else t.emit("maximum", x, lo)
    return x if hi is None else t.emit("minimum", x, hi)


@op("clamp_min.default")
def _(t, x, lo):
    return t.emit("clamp", x, lo=lo)


@op("clamp_max.default")
def _(t, x, hi):
    return t.emit("clamp", x, hi=hi)


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
    ("mul.Tensor", "mul"), ("mul.Scalar", "mul"), ("div.Tensor", "div"), ("div.Scalar", "div"), ("minimum.default", "minimum"),
    ("maximum.default", "maximum"), ("min.other", "minimum"), ("max.other", "maximum"), ("pow.Tensor_Scalar", "pow"),
    ("pow.Tensor_Tensor", "pow"), ("true_divide.Tensor", "div"), ("multiply.Tensor", "mul"), ("divide.Tensor", "div"),
):  # fmt: skip
    op(_name)(lambda t, a, b, text=_text: t.emit(text, *both(a, b)))


@op("div.Tensor_mode", "div.Scalar_mode")
def _(t, a, b, mode):
    if mode is not None:
        raise Unsupported(f"division rounded by {mode}")
    return t.emit("div", a, b)


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


# Reductions -------------------------------------------------------------------------------------------------------------


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


@op("std.correction")
def _(t, x, dims, correction, keepdim):
    return t.emit("sqrt", variance(t, x, dims, correction, keepdim))


@op("std.dim")
def _(t, x, dims, unbiased, keepdim):
    return t.emit("sqrt", variance(t, x, dims, int(unbiased), keepdim))


@op("softmax.int", "_softmax.default")
def _(t, x, dim, dtype):
    return t.emit("softmax", wide(t, x, dtype if isinstance(dtype, torch.dtype) else None), dims=[dim])


@op("log_softmax.int", "_log_softmax.default")
def _(t, x, dim, dtype):
    return t.emit("log_softmax", wide(t, x, dtype if isinstance(dtype, torch.dtype) else None), dims=[dim])
