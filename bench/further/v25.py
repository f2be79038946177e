"""Conv1d, glu, ConvTranspose1d, gelu"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(256, 512, 3, padding=1)
        self.up = nn.ConvTranspose1d(256, 128, 8, 4, 2)

    def forward(self, x):
        return F.gelu(self.up(F.glu(self.first(x), dim=1)))


batch_size = 4


def get_inputs():
    return [torch.rand(batch_size, 256, 2000)]


def get_init_inputs():
    return []
