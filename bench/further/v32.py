"""ConvTranspose2d, BatchNorm2d, plus the input, relu"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(256, 256, 3, 1, 1, bias=False)
        self.norm = nn.BatchNorm2d(256)

    def forward(self, x):
        return F.relu(self.norm(self.up(x)) + x)


batch_size = 16


def get_inputs():
    return [torch.rand(batch_size, 256, 28, 28)]


def get_init_inputs():
    return []
