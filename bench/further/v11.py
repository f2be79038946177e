"""ConvTranspose2d by three, GroupNorm, silu"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(96, 48, 5, 3, 2)
        self.norm = nn.GroupNorm(8, 48)

    def forward(self, x):
        return F.silu(self.norm(self.up(x)))


batch_size = 16


def get_inputs():
    return [torch.rand(batch_size, 96, 40, 40)]


def get_init_inputs():
    return []
