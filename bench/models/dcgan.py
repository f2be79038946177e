"""DCGAN generator: 100 noise channels to a 64×64 image"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, noise, width, colours):
        super().__init__()

        def up(inner, outer, stride, padding):
            return [
                nn.ConvTranspose2d(inner, outer, 4, stride, padding, bias=False),
                nn.BatchNorm2d(outer),
                nn.ReLU(inplace=True),
            ]

        self.main = nn.Sequential(
            *up(noise, width * 8, 1, 0),
            *up(width * 8, width * 4, 2, 1),
            *up(width * 4, width * 2, 2, 1),
            *up(width * 2, width, 2, 1),
            nn.ConvTranspose2d(width, colours, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z)


batch_size = 64
noise = 100
width = 64
colours = 3


def get_inputs():
    return [torch.randn(batch_size, noise, 1, 1)]


def get_init_inputs():
    return [noise, width, colours]
