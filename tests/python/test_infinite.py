"""Values at the ends of the number line are PyTorch's."""

import math

import pytest
import torch
from decoder import optimized
from torch import nn


class Power(nn.Module):
    def __init__(self, exponent):
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 1, bias=False)
        self.exponent = exponent
        nn.init.ones_(self.conv.weight)

    def forward(self, x):
        return self.conv(x).pow(self.exponent)


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("exponent", [0.5, -0.5, 1.5, 2.0, 3.0, -1.0, -2.0, 1 / 3])
def test_powers(exponent, engine, no_fallback):
    """PyTorch takes roots for exponents ±1/2: nan at −∞, where a power would be ∞ or 0."""
    model = Power(exponent).eval()
    x = torch.tensor([-math.inf, math.inf, math.nan, 0.0, 1.0, -1.0, 2.0, -2.0, 1e-3, 1e10] * 4).reshape(1, 1, 5, 8)
    for dtype in (torch.float32, torch.float64):
        model.to(dtype)
        ours = optimized(model, engine=engine)
        torch.testing.assert_close(ours(x.to(dtype)), model(x.to(dtype)), equal_nan=True)
        y = torch.rand(1, 1, 5, 8, dtype=dtype) + 0.1
        found, expected = [torch.autograd.grad(net(y).sum(), model.conv.weight)[0] for net in (ours, model)]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
