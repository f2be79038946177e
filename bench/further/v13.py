"""ConvTranspose1d, mean over time, logsumexp over channels"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose1d(512, 256, 4, 2, 1)

    def forward(self, x):
        return torch.logsumexp(self.up(x).mean(2), 1, keepdim=True)


batch_size = 32


def get_inputs():
    return [torch.rand(batch_size, 512, 2048)]


def get_init_inputs():
    return []
