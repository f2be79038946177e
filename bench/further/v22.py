"""ConvTranspose3d to one channel, sigmoid"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose3d(32, 1, 4, 2, 1)

    def forward(self, x):
        return torch.sigmoid(self.up(x))


batch_size = 4


def get_inputs():
    return [torch.rand(batch_size, 32, 32, 32, 32)]


def get_init_inputs():
    return []
