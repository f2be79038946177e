"""ConvTranspose2d, GroupNorm, gelu, Conv2d 1×1 to 21 classes"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(256, 128, 2, 2)
        self.norm = nn.GroupNorm(16, 128)
        self.head = nn.Conv2d(128, 21, 1)

    def forward(self, x):
        return self.head(F.gelu(self.norm(self.up(x))))


batch_size = 8


def get_inputs():
    return [torch.rand(batch_size, 256, 64, 64)]


def get_init_inputs():
    return []
