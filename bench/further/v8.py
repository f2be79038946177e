"""Generator of three ConvTranspose2d, BatchNorm2d between them"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.ConvTranspose2d(512, 256, 4, 2, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(256)
        self.second = nn.ConvTranspose2d(256, 128, 4, 2, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(128)
        self.image = nn.ConvTranspose2d(128, 3, 4, 2, 1)

    def forward(self, x):
        x = torch.relu(self.first_norm(self.first(x)))
        x = torch.relu(self.second_norm(self.second(x)))
        return torch.tanh(self.image(x))


batch_size = 64


def get_inputs():
    return [torch.rand(batch_size, 512, 8, 8)]


def get_init_inputs():
    return []
