"""ConvTranspose2d, LayerNorm over channels written channels last, gelu"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(128, 64, 2, 2)
        self.norm = nn.LayerNorm(64)

    def forward(self, x):
        return F.gelu(self.norm(self.up(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2))


batch_size = 8


def get_inputs():
    return [torch.rand(batch_size, 128, 64, 64)]


def get_init_inputs():
    return []
