"""Two ConvTranspose2d by two, relu"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.ConvTranspose2d(64, 64, 2, 2)
        self.second = nn.ConvTranspose2d(64, 32, 2, 2)

    def forward(self, x):
        return torch.relu(self.second(self.first(x)))


batch_size = 16


def get_inputs():
    return [torch.rand(batch_size, 64, 48, 48)]


def get_init_inputs():
    return []
