"""ConvTranspose2d of many small images, BatchNorm2d, relu"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(128, 64, 4, 2, 1)
        self.norm = nn.BatchNorm2d(64)

    def forward(self, x):
        return F.relu(self.norm(self.up(x)))


batch_size = 1024


def get_inputs():
    return [torch.rand(batch_size, 128, 4, 4)]


def get_init_inputs():
    return []
