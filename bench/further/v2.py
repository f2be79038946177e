"""leaky_relu, ConvTranspose1d by eight"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose1d(256, 128, 16, 8, 4)

    def forward(self, x):
        return self.up(F.leaky_relu(x, 0.1))


batch_size = 8


def get_inputs():
    return [torch.rand(batch_size, 256, 1000)]


def get_init_inputs():
    return []
