"""ConvTranspose2d, relu, times the sigmoid of two 1×1 convolutions of its mean"""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(64, 64, 4, 2, 1)
        self.a = nn.Conv2d(64, 16, 1)
        self.b = nn.Conv2d(16, 64, 1)

    def forward(self, x):
        y = F.relu(self.up(x))
        g = torch.sigmoid(self.b(F.relu(self.a(F.adaptive_avg_pool2d(y, 1)))))
        return y * g


batch_size = 16


def get_inputs():
    return [torch.rand(batch_size, 64, 64, 64)]


def get_init_inputs():
    return []
