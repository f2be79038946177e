"""ConvTranspose2d to three channels, tanh"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(32, 3, 7, 1, 3)

    def forward(self, x):
        return torch.tanh(self.up(x))


batch_size = 16


def get_inputs():
    return [torch.rand(batch_size, 32, 256, 256)]


def get_init_inputs():
    return []
