"""ConvTranspose2d by 32"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(256, 21, 64, 32, 16)

    def forward(self, x):
        return self.up(x)


batch_size = 8


def get_inputs():
    return [torch.rand(batch_size, 256, 16, 16)]


def get_init_inputs():
    return []
