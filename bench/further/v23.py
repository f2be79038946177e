"""ConvTranspose2d, concatenation, Conv2d, GroupNorm, silu"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(256, 128, 2, 2)
        self.join = nn.Conv2d(256, 128, 3, padding=1)
        self.norm = nn.GroupNorm(8, 128)

    def forward(self, x, s):
        x = torch.cat([self.up(x), s], 1)
        return F.silu(self.norm(self.join(x)))


batch_size = 4


def get_inputs():
    return [torch.rand(batch_size, 256, 32, 32), torch.rand(batch_size, 128, 64, 64)]


def get_init_inputs():
    return []
