"""Models of the kinds people have, written for nothing here: each is a class with `example()`, the inputs of a call."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import spectral_norm
from torch.nn.utils.parametrizations import weight_norm


class ResidualUp(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.first, self.up = nn.BatchNorm2d(before), nn.ConvTranspose2d(before, after, 4, 2, 1)
        self.second, self.conv = nn.BatchNorm2d(after), nn.Conv2d(after, after, 3, padding=1)
        self.skip = nn.Conv2d(before, after, 1)

    def forward(self, x):
        h = self.conv(F.relu(self.second(self.up(F.relu(self.first(x))))))
        return h + self.skip(F.interpolate(x, scale_factor=2, mode="nearest"))


class Generator(nn.Module):
    """A generator of residual blocks; its last layer has a spectral norm."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([ResidualUp(6, 5), ResidualUp(5, 4)])
        self.out = spectral_norm(nn.Conv2d(4, 3, 3, padding=1))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return torch.tanh(self.out(F.relu(x)))

    @staticmethod
    def example():
        return (torch.rand(2, 6, 4, 5),)


class Pix2Pix(nn.Module):
    """Encoder, decoder, skips by concatenation, instance norm, dropout."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(a, b, 4, 2, 1) for a, b in ((3, 4), (4, 6), (6, 8))])
        self.up = nn.ModuleList([nn.ConvTranspose2d(a, b, 4, 2, 1) for a, b in ((8, 6), (12, 4), (8, 3))])
        self.norms = nn.ModuleList([nn.InstanceNorm2d(6, affine=True), nn.InstanceNorm2d(4, affine=True)])
        self.drop = nn.Dropout(0.0)  # draws, but changes nothing: results can be compared in training

    def forward(self, x):
        skips = []
        for i, layer in enumerate(self.down):
            x = layer(F.leaky_relu(x, 0.2) if i else x)
            skips.append(x)
        skips.pop()
        for layer, norm in zip(self.up[:-1], self.norms):
            x = torch.cat([self.drop(norm(layer(F.relu(x)))), skips.pop()], 1)
        return torch.tanh(self.up[-1](F.relu(x)))

    @staticmethod
    def example():
        return (torch.rand(2, 3, 16, 24),)


class Vocoder(nn.Module):
    """Upsampling with weight norm, averaged residual branches of different dilation."""

    def __init__(self):
        super().__init__()
        self.ups = nn.ModuleList(
            [weight_norm(nn.ConvTranspose1d(8, 4, 8, 4, 2)), weight_norm(nn.ConvTranspose1d(4, 2, 4, 2, 1))]
        )
        self.branches = nn.ModuleList(
            [nn.ModuleList([weight_norm(nn.Conv1d(c, c, 3, dilation=d, padding=d)) for d in (1, 3)]) for c in (4, 2)]
        )
        self.post = nn.Conv1d(2, 1, 7, padding=3)

    def forward(self, x):
        for up, branches in zip(self.ups, self.branches):
            x = up(F.leaky_relu(x, 0.1))
            x = sum(x + branch(F.leaky_relu(x, 0.1)) for branch in branches) / len(branches)
        return torch.tanh(self.post(F.leaky_relu(x)))

    @staticmethod
    def example():
        return (torch.rand(2, 8, 9),)


class Segmentation(nn.Module):
    """A 3-d head that gives a dict, its instance norm with running statistics."""

    def __init__(self):
        super().__init__()
        self.up, self.conv = nn.ConvTranspose3d(6, 4, 2, 2), nn.Conv3d(8, 4, 3, padding=1)
        self.norm, self.head = nn.InstanceNorm3d(4, affine=True, track_running_stats=True), nn.Conv3d(4, 3, 1)

    def forward(self, x, skip):
        y = F.leaky_relu(self.norm(self.conv(torch.cat((self.up(x), skip), dim=1))), 1e-2)
        return {"logits": self.head(y), "probabilities": (torch.softmax(self.head(y), 1), y)}

    @staticmethod
    def example():
        return torch.rand(2, 6, 2, 3, 4), torch.rand(2, 4, 4, 6, 8)


class SuperResolution(nn.Module):
    """pixel_shuffle beside a transposed convolution and a bilinear branch."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.PReLU(8), nn.Conv2d(8, 12, 3, padding=1), nn.PixelShuffle(2)
        )
        self.up = nn.ConvTranspose2d(3, 3, 4, 2, 1)

    def forward(self, x):
        smooth = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return self.body(x) + self.up(x) + smooth, x.mean()

    @staticmethod
    def example():
        return (torch.rand(2, 3, 5, 6),)


class Tied(nn.Module):
    """One weight for both directions, an output size that is asked for, a loop over one layer."""

    def __init__(self):
        super().__init__()
        self.encode, self.bias = nn.Conv2d(3, 5, 4, 2, 1, bias=False), nn.Parameter(torch.zeros(3))
        self.again, self.norm = nn.ConvTranspose2d(3, 3, 3, 2, 1), nn.BatchNorm2d(3)

    def forward(self, x):
        y = F.conv_transpose2d(torch.relu(self.encode(x)), self.encode.weight, self.bias, stride=2, padding=1)
        for size in (x.shape[2] * 2, x.shape[2] * 4):
            y = torch.tanh(self.norm(self.again(y, output_size=(size, size))))
        return y

    @staticmethod
    def example():
        return (torch.rand(2, 3, 8, 8),)


class Modulated(nn.Module):
    """Weights made from an input, one group for each image."""

    def __init__(self):
        super().__init__()
        self.weight, self.style = nn.Parameter(torch.randn(4, 5, 3, 3)), nn.Linear(6, 4)

    def forward(self, x, z):
        batch = x.shape[0]
        weight = self.weight[None] * (self.style(z) + 1)[:, :, None, None, None]
        weight = weight * torch.rsqrt(weight.square().sum((1, 3, 4), keepdim=True) + 1e-8)
        y = F.conv_transpose2d(
            x.reshape(1, -1, *x.shape[2:]), weight.reshape(batch * 4, 5, 3, 3), stride=2, groups=batch
        )
        return y.reshape(batch, 5, *y.shape[2:])

    @staticmethod
    def example():
        return torch.rand(2, 4, 4, 4), torch.rand(2, 6)


class Teacher(nn.Module):
    """A part of the loss is computed without gradients."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.ConvTranspose2d(3, 3, 3, 2), nn.Conv2d(3, 3, 3, 2)

    def forward(self, x):
        with torch.no_grad():
            target = self.up(x) * 2
        y = self.up(x)
        return (y * target).mean() + self.down(y).square().sum(), target

    @staticmethod
    def example():
        return (torch.rand(2, 3, 4, 4),)


class Excited(nn.Module):
    """Grouped upsampling, squeeze and excitation, layer norm over permuted axes, attention over space."""

    def __init__(self):
        super().__init__()
        self.up, self.norm = nn.ConvTranspose2d(4, 8, 3, 2, 1, 1, groups=2), nn.LayerNorm(8)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 2, 1), nn.ReLU(), nn.Conv2d(2, 8, 1), nn.Sigmoid()
        )
        self.query, self.key = nn.Conv2d(8, 2, 1), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        y = self.up(x)
        y = self.norm((y * self.gate(y)).permute(0, 2, 3, 1)).permute(0, 3, 1, 2).contiguous()
        weights = torch.softmax(self.query(y).flatten(2).transpose(1, 2) @ self.key(y).flatten(2), -1)
        return y + (y.flatten(2) @ weights.transpose(1, 2)).view_as(y)

    @staticmethod
    def example():
        return (torch.rand(2, 4, 3, 3),)


class Constants(nn.Module):
    """Numbers and vectors written as tensors inside forward()."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(4, 6, 4, stride=2)

    def forward(self, x):
        y = torch.min(self.up(x) + torch.tensor(0.5, device=x.device), torch.tensor(0.1, dtype=x.dtype))
        y = F.gelu(y) * torch.tensor(2) - torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], dtype=x.dtype)[:, None, None]
        factor = torch.tensor(1.0)
        factor.add_(2.0)  # no constant any more
        return y.mul_(torch.tensor(0.25)) / factor

    @staticmethod
    def example():
        return (torch.rand(2, 4, 5, 5),)


class Styled(nn.Module):
    """An upsampler with noise, a learned constant and styles from a linear layer."""

    def __init__(self):
        super().__init__()
        self.start, self.strength = nn.Parameter(torch.rand(1, 8, 4, 4)), nn.Parameter(torch.rand(1, 6, 1, 1))
        self.up, self.style, self.rgb = nn.ConvTranspose2d(8, 6, 4, 2, 1), nn.Linear(5, 12), nn.Conv2d(6, 3, 1)

    def forward(self, w, noise):
        y = self.up(self.start.expand(w.shape[0], -1, -1, -1)) + self.strength * noise
        scale, shift = self.style(w).chunk(2, 1)
        y = F.instance_norm(F.leaky_relu(y, 0.2)) * (scale[:, :, None, None] + 1) + shift[:, :, None, None]
        return self.rgb(y)

    @staticmethod
    def example():
        return torch.rand(2, 5), torch.rand(2, 1, 8, 8)


class Volumes(nn.Module):
    """A 3-D decoder: skip by concatenation, a residual, ELU and PReLU."""

    def __init__(self):
        super().__init__()
        self.up, self.first = nn.ConvTranspose3d(6, 4, 2, 2), nn.BatchNorm3d(4)
        self.conv, self.second, self.act = nn.Conv3d(8, 8, 3, padding=1), nn.BatchNorm3d(8), nn.PReLU(8)
        self.out = nn.Conv3d(8, 2, 1)

    def forward(self, x, skip):
        h = torch.cat((F.elu(self.first(self.up(x))), skip), 1)
        return F.softmax(self.out(self.act(self.second(self.conv(h)) + h)), 1)

    @staticmethod
    def example():
        return torch.rand(2, 6, 3, 4, 3), torch.rand(2, 4, 6, 8, 6)


class Gated(nn.Module):
    """A vocoder's stage with a gate, a periodic activation and a norm over time; classes of its frames."""

    def __init__(self):
        super().__init__()
        self.up, self.conv, self.norm = nn.ConvTranspose1d(4, 8, 8, 4, 2), nn.Conv1d(4, 4, 7, padding=3), nn.RMSNorm(36)
        self.rate = nn.Parameter(torch.ones(1, 4, 1))

    def forward(self, x):
        y = F.glu(self.up(x), 1)
        y = self.norm(y + torch.sin(self.rate * y) ** 2 / self.rate)
        return self.conv(y), F.log_softmax(y, 1)

    @staticmethod
    def example():
        return (torch.rand(2, 4, 9),)


class Resized(nn.Module):
    """Down and up again to the size it came from, with one transposed convolution used twice."""

    def __init__(self):
        super().__init__()
        self.down, self.up, self.same = (
            nn.Conv2d(3, 6, 3, 2, 1),
            nn.ConvTranspose2d(6, 3, 3, 2, 1),
            nn.ConvTranspose2d(3, 3, 3, 1, 1),
        )

    def forward(self, x):
        y = self.up(F.hardswish(self.down(x)), output_size=x.size())
        y = F.pixel_shuffle(F.pixel_unshuffle(self.same(y), 3), 3)
        return self.same(F.mish(y))

    @staticmethod
    def example():
        return (torch.rand(2, 3, 9, 12),)


MODELS = [
    Styled,
    Volumes,
    Gated,
    Resized,
    Constants,
    Generator,
    Pix2Pix,
    Vocoder,
    Segmentation,
    SuperResolution,
    Tied,
    Modulated,
    Teacher,
    Excited,
]
