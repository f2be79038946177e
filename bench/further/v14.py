"""ConvTranspose2d channel by channel by eight, softmax over channels"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(21, 21, 16, 8, 4, groups=21, bias=False)

    def forward(self, x):
        return torch.softmax(self.up(x), 1)


batch_size = 16


def get_inputs():
    return [torch.rand(batch_size, 21, 64, 64)]


def get_init_inputs():
    return []
