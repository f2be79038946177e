"""ConvTranspose3d, InstanceNorm3d, leaky_relu, concatenation, Conv3d"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose3d(64, 32, 2, 2)
        self.norm = nn.InstanceNorm3d(32, affine=True)
        self.join = nn.Conv3d(64, 32, 3, padding=1)

    def forward(self, x, s):
        x = F.leaky_relu(self.norm(self.up(x)), 0.01)
        return self.join(torch.cat([x, s], 1))


batch_size = 2


def get_inputs():
    return [torch.rand(batch_size, 64, 24, 24, 24), torch.rand(batch_size, 32, 48, 48, 48)]


def get_init_inputs():
    return []
