"""ConvTranspose1d, LayerNorm over channels, gelu"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose1d(128, 64, 8, 4, 2)
        self.norm = nn.LayerNorm(64)

    def forward(self, x):
        return F.gelu(self.norm(self.up(x).transpose(1, 2)))


batch_size = 16


def get_inputs():
    return [torch.rand(batch_size, 128, 4096)]


def get_init_inputs():
    return []
