"""Chains and blocks of several convolutions that the algebra makes one:

    transfuse bench --models bench/rewrites.py [--backward] [--precision fp16]

Chains are pieces of networks: their inputs ask for gradients, too. Batch norms stand by their running statistics."""

import torch
import torch.nn.functional as F
from torch import nn

IMAGE = (4, 64, 48, 48)
NETWORKS = {}


class Norm(nn.BatchNorm2d):
    """Stands by its running statistics, in a training step as well."""

    def __init__(self, channels):
        super().__init__(channels)
        self.running_mean.normal_()
        self.running_var.uniform_(0.5, 1.5)

    def train(self, mode=True):
        return super().train(False)


def chain(name, *shapes):
    """What the decorated function or class makes is a model of this name for inputs of these shapes."""

    def register(make):
        def network():
            inputs = tuple(torch.randn(shape).requires_grad_() for shape in shapes or (IMAGE,))
            return make(), inputs

        NETWORKS[name] = network
        return make

    return register


def conv(i, o, k=3, **more):
    return nn.Conv2d(i, o, k, padding=k // 2, **more)


chain("transposed_then_1x1")(lambda: nn.Sequential(nn.ConvTranspose2d(64, 256, 2, 2), nn.Conv2d(256, 3, 1)))
chain("3x3_then_1x1")(lambda: nn.Sequential(conv(64, 128), nn.Conv2d(128, 8, 1)))
chain("1x1_norm_then_transposed")(
    lambda: nn.Sequential(nn.Conv2d(64, 256, 1), Norm(256), nn.ConvTranspose2d(256, 4, 4, 2, 1))
)


@chain("asymmetric_branches")
class Asymmetric(nn.Module):
    def __init__(self):
        super().__init__()
        self.square, self.tall = conv(64, 64), nn.Conv2d(64, 64, (3, 1), padding=(1, 0))
        self.wide = nn.Conv2d(64, 64, (1, 3), padding=(0, 1))

    def forward(self, x):
        return self.square(x) + self.tall(x) + self.wide(x)


@chain("two_transposed")
class TwoUp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.ConvTranspose2d(64, 8, 4, 2, 1), nn.ConvTranspose2d(64, 8, 2, 2)

    def forward(self, x):
        return self.a(x) + self.b(x)


@chain("concatenated_heads")
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = conv(64, 24), conv(64, 8)

    def forward(self, x):
        return torch.cat([self.a(x), self.b(x)], 1)


@chain("two_heads")
class Outputs(Heads):
    def forward(self, x):
        return self.a(x), self.b(x)


@chain("mean_of_upsamplings")
class MeanOfUpsamplings(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.skip = nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.Conv2d(64, 64, 1)

    def forward(self, x):
        return (self.up(x) + self.skip(F.interpolate(x, scale_factor=2))).mean((2, 3))


@chain("constant_channels", IMAGE, (4, 128))
class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = conv(192, 32)

    def forward(self, x, e):
        return self.conv(torch.cat([x, e[:, :, None, None].expand(-1, -1, *x.shape[2:])], 1))


@chain("one_weight")
class OneWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = conv(64, 64)

    def forward(self, x):
        return self.conv(x) + 0.5 * self.conv(x.flip(0)) - self.conv(2 * x)


chain("pixel_shuffle")(lambda: nn.Sequential(conv(64, 16), nn.PixelShuffle(2)))
chain("shuffle_between")(lambda: nn.Sequential(conv(64, 256), nn.PixelShuffle(2), conv(64, 3)))
chain("pixel_unshuffle", (4, 16, 96, 96))(lambda: nn.Sequential(nn.PixelUnshuffle(2), conv(64, 64)))
chain("bilinear_up")(lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), conv(64, 32)))
chain("bilinear_down")(
    lambda: nn.Sequential(nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.Upsample(scale_factor=0.5, mode="bilinear"))
)


@chain("mean_then_linear")
class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.linear = conv(64, 128), nn.Linear(128, 10)

    def forward(self, x):
        return self.linear(self.conv(x).mean((2, 3)))


@chain("channels_last_linear")
class ChannelsLast(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.linear = conv(64, 128), nn.Linear(128, 16)

    def forward(self, x):
        return self.linear(self.conv(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


@chain("weighted_sum")
class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.mask = nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.Parameter(torch.rand(1, 1, 96, 96))

    def forward(self, x):
        return (self.mask * self.up(x)).sum((2, 3))


class RepVGGBlock(nn.Module):
    def __init__(self, channels, kernels=(3, 1), identity=True, groups=1):
        super().__init__()
        self.convs = nn.ModuleList(conv(channels, channels, k, bias=False, groups=groups) for k in kernels)
        self.norms = nn.ModuleList(Norm(channels) for _ in range(len(kernels) + identity))

    def forward(self, x):
        y = sum(norm(layer(x)) for layer, norm in zip(self.convs, self.norms))
        return torch.relu(y + self.norms[-1](x) if len(self.norms) > len(self.convs) else y)


chain("repvgg", (8, 64, 56, 56))(lambda: nn.Sequential(RepVGGBlock(64), RepVGGBlock(64)))
chain("mobileone", (8, 64, 56, 56))(
    lambda: nn.Sequential(RepVGGBlock(64, (3, 3, 3, 1), groups=64), RepVGGBlock(64, (1, 1, 1)))
)


@chain("acnet", (8, 64, 56, 56))
class ACNet(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = (((3, 3), (1, 1)), ((3, 1), (1, 0)), ((1, 3), (0, 1)))
        self.branches = nn.ModuleList(
            nn.Sequential(nn.Conv2d(64, 64, k, padding=p, bias=False), Norm(64)) for k, p in sizes
        )

    def forward(self, x):
        return torch.relu(sum(branch(x) for branch in self.branches))


chain("decoder_end", (8, 64, 32, 32))(
    lambda: nn.Sequential(
        nn.ConvTranspose2d(64, 128, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(128, 64, 2, 2), nn.Conv2d(64, 3, 1)
    )
)


@chain("inception", (8, 192, 28, 28))
class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.three, self.five = conv(192, 64, 1), conv(192, 96, 1), conv(192, 16, 1)
        self.wide, self.wider, self.pooled = conv(96, 128), conv(16, 32, 5), conv(192, 32, 1)

    def forward(self, x):
        parts = [self.one(x), self.wide(self.three(x).relu()), self.wider(self.five(x).relu())]
        return torch.cat([*parts, self.pooled(F.max_pool2d(x, 3, 1, 1))], 1).relu()


chain("subpixel_upsampler", (8, 64, 32, 32))(
    lambda: nn.Sequential(conv(64, 256), nn.PixelShuffle(2), nn.ReLU(), conv(64, 12), nn.PixelShuffle(2))
)
