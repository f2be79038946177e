"""ConvTranspose3d, softplus, minus its spatial mean"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose3d(48, 24, 3, 2, 1)

    def forward(self, x):
        x = F.softplus(self.up(x))
        return x - x.mean(dim=(2, 3, 4), keepdim=True)


batch_size = 8


def get_inputs():
    return [torch.rand(batch_size, 48, 16, 24, 24)]


def get_init_inputs():
    return []
