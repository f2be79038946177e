"""HiFi-GAN-style generator: weight-normed upsampling with leaky_relu before each convolution, residual blocks"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm


class Residual(nn.Module):
    def __init__(self, channels, kernel, dilations):
        super().__init__()
        self.dilated = nn.ModuleList(
            [
                weight_norm(nn.Conv1d(channels, channels, kernel, dilation=d, padding=d * (kernel - 1) // 2))
                for d in dilations
            ]
        )
        self.plain = nn.ModuleList(
            [weight_norm(nn.Conv1d(channels, channels, kernel, padding=(kernel - 1) // 2)) for _ in dilations]
        )

    def forward(self, x):
        for dilated, plain in zip(self.dilated, self.plain):
            y = dilated(F.leaky_relu(x, 0.1))
            x = x + plain(F.leaky_relu(y, 0.1))
        return x


class Model(nn.Module):
    def __init__(self, mels, width, rates, kernels):
        super().__init__()
        self.pre = weight_norm(nn.Conv1d(mels, width, 7, padding=3))
        self.ups = nn.ModuleList(
            [
                weight_norm(nn.ConvTranspose1d(width // 2**i, width // 2 ** (i + 1), k, r, padding=(k - r) // 2))
                for i, (r, k) in enumerate(zip(rates, kernels))
            ]
        )
        self.blocks = nn.ModuleList(
            [nn.ModuleList([Residual(width // 2 ** (i + 1), k, (1, 3)) for k in (3, 7)]) for i in range(len(rates))]
        )
        self.post = weight_norm(nn.Conv1d(width // 2 ** len(rates), 1, 7, padding=3))

    def forward(self, x):
        x = self.pre(x)
        for up, blocks in zip(self.ups, self.blocks):
            x = up(F.leaky_relu(x, 0.1))
            x = sum(block(x) for block in blocks) / len(blocks)
        return torch.tanh(self.post(F.leaky_relu(x)))


batch_size = 1
mels = 80
width = 128
rates = (8, 8, 2, 2)
kernels = (16, 16, 4, 4)
frames = 64


def get_inputs():
    return [torch.rand(batch_size, mels, frames)]


def get_init_inputs():
    return [mels, width, rates, kernels]
