"""ConvTranspose2d to three channels of large images, tanh"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(64, 3, 4, 2, 1)

    def forward(self, x):
        return torch.tanh(self.up(x))


batch_size = 16


def get_inputs():
    return [torch.rand(batch_size, 64, 128, 128)]


def get_init_inputs():
    return []
