"""ConvTranspose2d with an asymmetric kernel (KernelBench L1_69)"""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, bias=False)

    def forward(self, x):
        return self.conv_transpose(x)


batch_size = 64
in_channels = 64
out_channels = 128
height = 128
width = 256
kernel_size = (3, 5)


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
