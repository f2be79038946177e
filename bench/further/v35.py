"""prelu, ConvTranspose2d by three to one channel, 9×9"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.PReLU(56)
        self.up = nn.ConvTranspose2d(56, 1, 9, 3, 4, output_padding=2)

    def forward(self, x):
        return self.up(self.act(x))


batch_size = 8


def get_inputs():
    return [torch.rand(batch_size, 56, 128, 128)]


def get_init_inputs():
    return []
