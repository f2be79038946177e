"""ConvTranspose2d, concatenation, Conv2d, BatchNorm2d, relu"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(128, 64, 2, 2)
        self.join = nn.Conv2d(128, 64, 3, padding=1)
        self.norm = nn.BatchNorm2d(64)

    def forward(self, x, skip):
        return torch.relu(self.norm(self.join(torch.cat([self.up(x), skip], 1))))


batch_size = 4


def get_inputs():
    return [torch.rand(batch_size, 128, 64, 64), torch.rand(batch_size, 64, 128, 128)]


def get_init_inputs():
    return []
