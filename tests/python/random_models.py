"""Models nobody chose: convolutions of one to three dimensions, transposed or not, with all that docs/ops.md has around
them: norms, pools, resampling, activations, reductions, shapes, and blocks in which some of it meets again."""

import random
from collections.abc import Callable

import torch
import torch.nn.functional as F
import zoo
from torch import nn

CONVOLUTIONS = {
    True: (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
    False: (nn.Conv1d, nn.Conv2d, nn.Conv3d),
}
NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm)
MOST = 4000  # elements of a value

# Values stay tame: what has a pole is far from it.
POINTWISE: dict[str, Callable] = {
    "neg": torch.neg, "abs": torch.abs, "exp": lambda x: torch.exp(torch.tanh(x)), "log": lambda x: torch.log(x * x + 0.5),
    "sqrt": lambda x: torch.sqrt(x * x + 0.5), "rsqrt": lambda x: torch.rsqrt(x * x + 0.5),
    "reciprocal": lambda x: torch.reciprocal(x * x + 0.5), "square": torch.square, "sin": torch.sin, "cos": torch.cos,
    "erf": torch.erf, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu,
    "leaky": lambda x: F.leaky_relu(x, 0.2), "steep": lambda x: F.leaky_relu(x, -0.3), "elu": lambda x: F.elu(x, 0.7),
    "selu": F.selu, "gelu": F.gelu, "gelu tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "mish": F.mish,
    "softplus": lambda x: F.softplus(x, 1.5), "hardsigmoid": lambda x: F.hardsigmoid(4 * x),
    "hardswish": lambda x: F.hardswish(3 * x), "hardtanh": F.hardtanh, "relu6": F.relu6, "softsign": F.softsign,
    "clamp": lambda x: x.clamp(-0.7, 1.1), "above": lambda x: x.clamp(min=-0.4), "below": lambda x: x.clamp(max=0.4),
    "twice": lambda x: 2 * x, "away": lambda x: 1 - x, "third": lambda x: x / 3, "over": lambda x: 1.5 / (x * x + 1),
    "pow": lambda x: (x * x + 0.5) ** 1.5, "cubed": lambda x: torch.tanh(x) ** 3, "least": lambda x: torch.minimum(x, x * x - 1),
    "most": lambda x: torch.maximum(x, 0.3 * x - 0.1), "swish": lambda x: x * torch.sigmoid(x),
    "detached": lambda x: x * x.detach(), "sign": lambda x: x * torch.sign(x.detach()),
}  # fmt: skip

# A value and what is reduced of it; the axes of the image behind it.
GATES: dict[str, Callable] = {
    "softmax": lambda x, axes: torch.softmax(x, 1) * 2,
    "softmax of the image": lambda x, axes: torch.softmax(x.flatten(2), -1).view_as(x) * x,
    "log_softmax": lambda x, axes: torch.log_softmax(x, 1),
    "excitation": lambda x, axes: x * torch.sigmoid(x.mean(axes, keepdim=True)),
    "centred": lambda x, axes: x - x.mean(1, keepdim=True),
    "away from the mean": lambda x, axes: x - x.mean(axes, keepdim=True),
    "scaled": lambda x, axes: x * torch.rsqrt(x.var(axes, keepdim=True, unbiased=False) + 0.1),
    "normalised": lambda x, axes: x / (x.square().sum(1, keepdim=True) + 0.5).sqrt(),
    "lse": lambda x, axes: x - torch.logsumexp(x, 1, keepdim=True),
    "largest": lambda x, axes: x + x.amax(axes, keepdim=True),
    "smallest": lambda x, axes: x * x.amin(1, keepdim=True),
}
ENDS: dict[str, Callable] = {
    "mean": lambda x, axes: torch.relu(x).mean(axes),
    "mean twice": lambda x, axes: torch.relu(x).mean(axes, keepdim=True).mean(1),
    "depth": lambda x, axes: x.mean(2),
    "lse": lambda x, axes: torch.logsumexp(x, 1, keepdim=True),
    "channels": lambda x, axes: x.sum(1, keepdim=True),
    "amax": lambda x, axes: x.amax(1),
    "amin": lambda x, axes: x.amin(axes),
    "max": lambda x, axes: x.max(1)[0].tanh(),
    "std": lambda x, axes: (x.var(axes, unbiased=False) + 0.1).sqrt(),
    "all": lambda x, axes: x.square().sum(),
}
SHAPES: dict[str, Callable] = {
    "crop": lambda x, axes: x[..., 1:] if x.shape[-1] > 1 else x,
    "every second": lambda x, axes: x[:, :, ::2],
    "some channels": lambda x, axes: x[:, : -(-x.shape[1] // 2)],
    "halves": lambda x, axes: torch.cat([x[:, ::2].tanh(), x[:, 1::2]], 1),
    "flip": lambda x, axes: x.flip(-1),
    "pad": lambda x, axes: F.pad(x, (1, 2)),
    "reflect": lambda x, axes: F.pad(x, (1, 1) * len(axes), mode="reflect") if min(x.shape[2:]) > 1 else x,
    "replicate": lambda x, axes: F.pad(x, (1, 0) * len(axes), mode="replicate"),
    "circular": lambda x, axes: F.pad(x, (1, 1) * len(axes), mode="circular"),
    "permuted": lambda x, axes: torch.tanh(x.movedim(1, -1)).movedim(-1, 1),
    "flat": lambda x, axes: (x.flatten(2) * 0.5).view_as(x),
    "expanded": lambda x, axes: x.mean(2, keepdim=True).expand_as(x) + x,
    "glu": lambda x, axes: F.glu(x, 1) if x.shape[1] % 2 == 0 else x,
    "shuffled": lambda x, axes: F.pixel_shuffle(x, 2) if len(axes) == 2 and x.shape[1] % 4 == 0 else x,
}


class Applied(nn.Module):
    """A function of the value, and of the axes of the image where it asks for them."""

    def __init__(self, name, function, *more):
        super().__init__()
        self.name, self.function, self.more = name, function, more

    def forward(self, x):
        return self.function(x, *self.more)

    def extra_repr(self):
        return self.name


class Parameter(nn.Module):
    """A parameter that meets the value: one number a channel, a place, a sample, or each."""

    def __init__(self, name, shape):
        super().__init__()
        self.name, self.weight = name, nn.Parameter(torch.rand(shape) + 0.5)

    def forward(self, x):
        match self.name:
            case "plus":
                return x + self.weight
            case "minus":
                return self.weight - x
            case "times":
                return x * self.weight
            case "over":
                return x / (self.weight.square() + 0.5)
            case "maximum":
                return torch.maximum(x, self.weight - 1)
        return torch.minimum(x, self.weight)

    def extra_repr(self):
        return f"{self.name} {tuple(self.weight.shape)}"


class LayerNorm(nn.LayerNorm):
    """Of channels, which lie behind the batch."""

    def forward(self, x):
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


class Together(nn.Module):
    """Two ways from one value that meet again."""

    def __init__(self, how, first, second):
        super().__init__()
        self.how, self.first, self.second = how, first, second

    def forward(self, x):
        a, b = self.first(x), self.second(x)
        match self.how:
            case "sum":
                return a + b
            case "product":
                return a * torch.sigmoid(b)
        return torch.cat([a, b], 1)

    def extra_repr(self):
        return self.how


class Draw:
    """One model; its parts are run as they are drawn, on a value of the size that they will meet."""

    def __init__(self, seed: int, widest: int = 10):
        self.pick = random.Random(seed)
        torch.manual_seed(seed)
        self.rank = self.pick.choice([1, 2, 2, 2, 3])
        self.widest = min(widest, 5) if self.rank == 3 else widest
        self.axes = tuple(range(2, self.rank + 2))

    def model(self) -> tuple[nn.Module, torch.Tensor]:
        shape = [self.pick.randint(1, self.widest) for _ in range(self.rank)]
        x = torch.randn(self.pick.randint(1, 4), self.pick.choice([1, 2, 3, 4, 6, 8, 12]), *shape)
        steps, value = [], x
        if self.pick.random() < 0.2:
            steps.append(self.pointwise(value))
        steps.append(self.convolution(value))
        value = steps[-1](value)
        for _ in range(self.pick.randint(1, 5)):
            kinds = [self.convolution, self.norm, self.norm, self.pointwise, self.pointwise, self.parameter, self.pool]
            kinds += [self.resampled, self.gate, self.shaped, self.block, self.block]
            # Right behind a norm another one undoes it: of gradients nothing but errors would be left.
            kinds = [kind for kind in kinds if kind != self.norm or not isinstance(steps[-1], NORMS)]
            step = self.pick.choice(kinds)(value)
            result = step(value).detach()
            if 0 < result.numel() <= MOST:
                steps.append(step)
                value = result
        if self.pick.random() < 0.3:
            steps.append(self.named(ENDS, self.axes))
        return nn.Sequential(*steps), x

    def named(self, table, *more):
        name = self.pick.choice(sorted(table))
        return Applied(name, table[name], *more)

    def pointwise(self, x):
        return self.named(POINTWISE)

    def gate(self, x):
        return self.named(GATES, self.axes)

    def shaped(self, x):
        return self.named(SHAPES, self.axes)

    def convolution(self, x, out=None):
        channels, pick = x.shape[1], self.pick
        transposed = pick.random() < 0.6
        divisors = [g for g in range(1, channels + 1) if channels % g == 0 and (out is None or out % g == 0)]
        groups = pick.choice([1, 1, 1, pick.choice(divisors)])
        out = out or groups * pick.randint(1, 12 if groups == 1 else 3)
        kernel, stride, padding, dilation, more = [], [], [], [], []
        for extent in x.shape[2:]:
            s, d = pick.choice([1, 1, 2, 3] if not transposed else [1, 2, 2, 3]), pick.choice([1, 1, 1, 2])
            reach = extent if not transposed else 5  # a convolution's kernel lies within its input
            k = pick.randint(1, max(1, min(5, (reach - 1) // d + 1)))
            p = pick.randint(0, (k - 1) * d // 2)
            m = pick.randint(0, max(s, d) - 1) if transposed else 0
            for values, value in zip((kernel, stride, padding, dilation, more), (k, s, p, d, m)):
                values.append(value)
        options = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, bias=pick.random() < 0.6)
        if transposed:
            options["output_padding"] = more
        elif pick.random() < 0.1:
            options["padding_mode"] = "replicate"
        layer = CONVOLUTIONS[transposed][self.rank - 1](channels, out, tuple(kernel), **options)
        return nn.utils.parametrizations.weight_norm(layer) if pick.random() < 0.05 else layer

    def norm(self, x):
        channels, pick = x.shape[1], self.pick
        alone, many = x[0, 0].numel() == 1, x.numel() // channels > 1
        kind = pick.choice(["batch", "batch", "batch", "instance", "group", "layer", "whole layer"])
        affine = pick.random() < 0.7
        if kind == "batch" and many:
            layer = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[self.rank - 1](channels, affine=affine)
        elif kind == "instance" and not alone:
            layer = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)[self.rank - 1](channels, affine=affine)
        elif kind == "whole layer":
            layer = nn.LayerNorm(x.shape[1:], elementwise_affine=affine)
        elif kind == "layer" and channels > 1:
            layer = LayerNorm(channels, elementwise_affine=affine)
        else:
            groups = pick.choice([g for g in range(1, channels + 1) if channels % g == 0])
            if channels // groups * x[0, 0].numel() == 1:  # of one number nothing is left
                return self.pointwise(x)
            layer = nn.GroupNorm(groups, channels, affine=affine)
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, -1, 1.5)
        return layer

    def parameter(self, x):
        pick = self.pick
        if pick.random() < 0.15:
            return nn.PReLU(pick.choice([1, x.shape[1]]))
        shape = pick.choice([
            (x.shape[1], *[1] * self.rank), tuple(x.shape[1:]), tuple(x.shape), (1,), tuple(x.shape[-1:]),
            (x.shape[0], x.shape[1], *[1] * self.rank),
        ])  # fmt: skip
        return Parameter(pick.choice(["plus", "plus", "minus", "times", "times", "over", "maximum", "minimum"]), shape)

    def pool(self, x):
        pick, rank = self.pick, self.rank - 1
        if pick.random() < 0.25:
            adaptive = pick.choice([
                (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d),
                (nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d),
            ])[rank]  # fmt: skip
            return adaptive(tuple(pick.choice([1, pick.randint(1, extent)]) for extent in x.shape[2:]))
        kernel = [min(pick.choice([1, 2, 2, 3]), extent) for extent in x.shape[2:]]
        options = {
            "stride": [k if pick.random() < 0.6 else pick.randint(1, 3) for k in kernel],
            "padding": [pick.choice([0, 0, k // 2]) for k in kernel],
            "ceil_mode": pick.random() < 0.3,
        }
        if pick.random() < 0.5:
            options["count_include_pad"] = pick.random() < 0.5
            return (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)[rank](tuple(kernel), **options)
        options["dilation"] = [
            2 if 2 * (k - 1) < extent and pick.random() < 0.2 else 1 for k, extent in zip(kernel, x.shape[2:])
        ]
        return (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)[rank](tuple(kernel), **options)

    def resampled(self, x):
        mode = self.pick.choice(["nearest", ("linear", "bilinear", "trilinear")[self.rank - 1]])
        corners = {} if mode == "nearest" else {"align_corners": self.pick.random() < 0.4}
        if mode == "nearest" or self.pick.random() < 0.5:
            return nn.Upsample(scale_factor=self.pick.choice([1, 2, 2, 3]), mode=mode, **corners)
        return nn.Upsample(size=[self.pick.randint(1, 2 * extent) for extent in x.shape[2:]], mode=mode, **corners)

    def block(self, x):
        """A residual, a skip connection, branches, a gate."""
        how = self.pick.choice(["sum", "sum", "sum", "product", "concat"])
        steps, value = [], x
        for _ in range(self.pick.randint(1, 2)):
            kernel = self.pick.choice([1, 3])
            layer = CONVOLUTIONS[False][self.rank - 1]
            steps.append(
                layer(value.shape[1], value.shape[1], kernel, padding=kernel // 2, bias=self.pick.random() < 0.5)
            )
            value = steps[-1](value).detach()
            if self.pick.random() < 0.6:
                steps.append(self.norm(value))
            if self.pick.random() < 0.8:
                steps.append(self.pointwise(value))
        first = nn.Identity() if self.pick.random() < 0.7 else self.pointwise(x)
        return Together(how, first, nn.Sequential(*steps))


def model(seed: int, widest: int = 10) -> tuple[nn.Module, torch.Tensor]:
    """The same for the same seed: a model in training, and its input."""
    return Draw(seed, widest).model()


# How a model is trained: in which layout, and in which precision.
WAYS = {
    "planes": (torch.contiguous_format, None),
    "channels_last": (torch.channels_last, None),
    "bf16": (torch.contiguous_format, torch.bfloat16),
}


def rounded_to(way: str) -> torch.dtype:
    return WAYS[way][1] or torch.float32


def trained(seed: int, way: str, widest: int = 10, device: str = "cpu"):
    """The model, its input, and a step of it in that way: results and gradients."""
    layout, dtype = WAYS[way]
    made, x = model(seed, widest)
    if layout is torch.channels_last and x.dim() > 3:
        layout = {4: torch.channels_last, 5: torch.channels_last_3d}[x.dim()]
        for parameter in made.parameters():
            if parameter.dim() == x.dim():
                parameter.data = parameter.data.contiguous(memory_format=layout)
        x = x.contiguous(memory_format=layout)

    def step(module, inputs):
        with torch.autocast(device, dtype or torch.bfloat16, enabled=dtype is not None):
            return zoo.outputs_and_gradients(module, inputs)

    return made.to(device), x.to(device), step
