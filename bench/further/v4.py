"""ConvTranspose2d, plus a tensor, gelu"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(128, 64, 3, 2, 1, 1)

    def forward(self, x, skip):
        return F.gelu(self.up(x) + skip)


batch_size = 16


def get_inputs():
    return [torch.rand(batch_size, 128, 48, 48), torch.rand(batch_size, 64, 96, 96)]


def get_init_inputs():
    return []
