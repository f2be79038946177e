"""ConvTranspose2d k4 s2 p1, `length` scales, global mean: a chain the algebra collapses"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, length):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, channels, 4, stride=2, padding=1)
        self.length = length

    def forward(self, x):
        y = self.up(x)
        for step in range(self.length):
            y = y * (1.0 + 0.125 * step)
        return y.mean((2, 3))


batch_size = 8
channels = 64
size = 64
length = 2


def get_inputs():
    return [torch.rand(batch_size, channels, size, size)]


def get_init_inputs():
    return [channels, length]
