"""ConvTranspose3d, max pool, logsumexp over channels"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose3d(16, 24, 4, 2, 1)

    def forward(self, x):
        return torch.logsumexp(F.max_pool3d(self.up(x), 2), 1, keepdim=True)


batch_size = 16


def get_inputs():
    return [torch.rand(batch_size, 16, 16, 32, 32)]


def get_init_inputs():
    return []
