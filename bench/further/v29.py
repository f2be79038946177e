"""ConvTranspose1d by three, glu"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose1d(128, 256, 9, 3, 3)

    def forward(self, x):
        return F.glu(self.up(x), 1)


batch_size = 16


def get_inputs():
    return [torch.rand(batch_size, 128, 2048)]


def get_init_inputs():
    return []
