"""ConvTranspose2d of groups, GroupNorm, largest of an image"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(128, 128, 3, 2, 1, 1, groups=4)
        self.norm = nn.GroupNorm(16, 128)

    def forward(self, x):
        return torch.amax(self.norm(self.up(x)), dim=(2, 3))


batch_size = 16


def get_inputs():
    return [torch.rand(batch_size, 128, 48, 48)]


def get_init_inputs():
    return []
