"""ConvTranspose2d, BatchNorm2d, relu"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(64, 32, 4, 2, 1)
        self.norm = nn.BatchNorm2d(32)

    def forward(self, x):
        return torch.relu(self.norm(self.up(x)))


batch_size = 32


def get_inputs():
    return [torch.rand(batch_size, 64, 64, 64)]


def get_init_inputs():
    return []
