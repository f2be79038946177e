"""U-Net decoder: four levels, skip connections concatenated, two convolutions a level"""

import torch
import torch.nn as nn


class Level(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.up = nn.ConvTranspose2d(inner, outer, 2, stride=2)
        self.block = nn.Sequential(
            nn.Conv2d(2 * outer, outer, 3, padding=1, bias=False),
            nn.BatchNorm2d(outer),
            nn.ReLU(inplace=True),
            nn.Conv2d(outer, outer, 3, padding=1, bias=False),
            nn.BatchNorm2d(outer),
            nn.ReLU(inplace=True),
        )

    def forward(self, x, skip):
        return self.block(torch.cat([skip, self.up(x)], dim=1))


class Model(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.levels = nn.ModuleList([Level(width * 2 ** (i + 1), width * 2**i) for i in reversed(range(4))])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x, *skips):
        for level, skip in zip(self.levels, skips):
            x = level(x, skip)
        return self.head(x)


batch_size = 4
width = 32
classes = 4
size = 16


def get_inputs():
    bottom = torch.rand(batch_size, width * 16, size, size)
    levels = reversed(range(4))
    return [bottom] + [torch.rand(batch_size, width * 2**i, size * 2 ** (4 - i), size * 2 ** (4 - i)) for i in levels]


def get_init_inputs():
    return [width, classes]
