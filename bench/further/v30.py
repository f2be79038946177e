"""ConvTranspose2d to heat maps, softmax over the image"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(64, 36, 4, 2, 1)

    def forward(self, x):
        return torch.softmax(self.up(x).flatten(2), -1)


batch_size = 16


def get_inputs():
    return [torch.rand(batch_size, 64, 48, 48)]


def get_init_inputs():
    return []
