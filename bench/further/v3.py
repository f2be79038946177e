"""ConvTranspose3d, InstanceNorm3d, leaky_relu"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose3d(32, 16, 3, 2, 1, 1)
        self.norm = nn.InstanceNorm3d(16)

    def forward(self, x):
        return F.leaky_relu(self.norm(self.up(x)), 0.01)


batch_size = 4


def get_inputs():
    return [torch.rand(batch_size, 32, 24, 32, 32)]


def get_init_inputs():
    return []
