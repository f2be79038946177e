"""ConvTranspose3d, relu, Conv3d 1×1×1, softmax over channels"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose3d(64, 32, 2, 2)
        self.head = nn.Conv3d(32, 4, 1)

    def forward(self, x):
        return torch.softmax(self.head(torch.relu(self.up(x))), 1)


batch_size = 4


def get_inputs():
    return [torch.rand(batch_size, 64, 32, 32, 32)]


def get_init_inputs():
    return []
