"""ConvTranspose2d channel by channel, Conv2d 1×1, hardswish"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(96, 96, 4, 2, 1, groups=96)
        self.mix = nn.Conv2d(96, 48, 1)

    def forward(self, x):
        return F.hardswish(self.mix(self.up(x)))


batch_size = 16


def get_inputs():
    return [torch.rand(batch_size, 96, 56, 56)]


def get_init_inputs():
    return []
