"""A small decoder to optimise, and what it is for two results to be the same."""

import torch
from torch import nn

import transfuse


class Decoder(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, channels, 3, stride=2, padding=1, output_padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.act = nn.LeakyReLU(0.2, inplace=True)
        self.head = nn.Conv2d(channels, 2, 3, padding=1)

    def forward(self, x, scale=1.0, *, shift=None):
        y = self.act(self.norm(self.up(x))) * scale
        y = self.head(y)
        return y if shift is None else {"y": y + shift, "shift": shift}


def optimized(model, x=None, **options):
    options.setdefault("never_slower", False)
    return transfuse.optimize(model, x, **options)


def same(a, b, tolerance=1e-5):
    assert torch.allclose(a, b, rtol=tolerance, atol=tolerance)
