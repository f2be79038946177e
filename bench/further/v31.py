"""ConvTranspose2d of single pixels, BatchNorm2d, relu"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(128, 512, 4, 1, 0, bias=False)
        self.norm = nn.BatchNorm2d(512)

    def forward(self, x):
        return F.relu(self.norm(self.up(x)))


batch_size = 256


def get_inputs():
    return [torch.rand(batch_size, 128, 1, 1)]


def get_init_inputs():
    return []
