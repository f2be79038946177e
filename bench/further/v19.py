"""ConvTranspose2d of three channels, elu, average pool"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 64, 4, 2, 1)

    def forward(self, x):
        return F.avg_pool2d(F.elu(self.up(x)), 2)


batch_size = 32


def get_inputs():
    return [torch.rand(batch_size, 3, 128, 128)]


def get_init_inputs():
    return []
