"""nnU-Net-style decoder: transposed convolutions, concatenation, instance norm, leaky_relu, a segmentation head a level"""

import itertools

import torch
import torch.nn as nn


def block(inner, outer):
    return nn.Sequential(
        nn.Conv3d(inner, outer, 3, padding=1),
        nn.InstanceNorm3d(outer, affine=True),
        nn.LeakyReLU(0.01, inplace=True),
        nn.Conv3d(outer, outer, 3, padding=1),
        nn.InstanceNorm3d(outer, affine=True),
        nn.LeakyReLU(0.01, inplace=True),
    )


class Model(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        pairs = list(itertools.pairwise(features))
        self.ups = nn.ModuleList([nn.ConvTranspose3d(a, b, 2, stride=2) for a, b in pairs])
        self.stages = nn.ModuleList([block(2 * b, b) for _, b in pairs])
        self.heads = nn.ModuleList([nn.Conv3d(b, classes, 1) for _, b in pairs])

    def forward(self, x, *skips):
        outputs = []
        for up, stage, head, skip in zip(self.ups, self.stages, self.heads, skips):
            x = stage(torch.cat((up(x), skip), dim=1))
            outputs.append(head(x))
        return outputs


batch_size = 2
features = (64, 32, 16)
classes = 3
size = 8


def get_inputs():
    bottom = torch.rand(batch_size, features[0], size, size, size)
    skips = [torch.rand(batch_size, f, *(size * 2 ** (i + 1),) * 3) for i, f in enumerate(features[1:])]
    return [bottom] + skips


def get_init_inputs():
    return [features, classes]
