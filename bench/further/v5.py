"""ConvTranspose2d channel by channel, sigmoid"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(64, 64, 4, 2, 1, groups=64, bias=False)

    def forward(self, x):
        return torch.sigmoid(self.up(x))


batch_size = 16


def get_inputs():
    return [torch.rand(batch_size, 64, 96, 96)]


def get_init_inputs():
    return []
