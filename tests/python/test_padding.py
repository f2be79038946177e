"""Padding with a tensor's own elements is part of a region: reflected, repeated and wrapped around, on any side and axis."""

import pytest
import torch
from torch import nn

import transfuse

PADS = [(1, 1), (6, 0), (0, 3), (3, 3, 3, 3), (2, 0, 1, 4), (0, 0, 2, 1), (1, 2, 0, 1, 2, 1)]


class Padded(nn.Module):
    def __init__(self, pad, mode):
        super().__init__()
        self.pad, self.mode, self.rank = pad, mode, len(pad) // 2
        make = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[self.rank - 1]
        self.first, self.last = make(3, 4, 3), make(4, 2, 2)

    def forward(self, x):
        x = nn.functional.elu(self.first(nn.functional.pad(x, self.pad, self.mode)))
        return torch.tanh(self.last(nn.functional.pad(x, self.pad, self.mode)))


def regions(module):
    (entry,) = module.__dict__["_transfuse"].traceable
    return entry.cut.regions


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("pad", PADS)
def test_results_and_gradients(pad, mode, no_fallback):
    torch.manual_seed(0)
    model = Padded(pad, mode).double()
    ours = transfuse.optimize(model, never_slower=False)
    for sizes in ((9, 11, 8), (12, 9, 10)):
        x = torch.randn(2, 3, *sizes[: model.rank], dtype=torch.float64, requires_grad=True)
        expected, got = model(x), ours(x)
        torch.testing.assert_close(got, expected)
        g = torch.randn_like(expected)
        wanted = [x, *model.parameters()]
        torch.testing.assert_close(
            torch.autograd.grad(got, wanted, g), torch.autograd.grad(expected, wanted, g), rtol=1e-9, atol=1e-9
        )
    (region,) = regions(ours)
    assert region.ops.count("aten.pad.default") == 2


def test_modules_that_pad(no_fallback):
    model = nn.Sequential(
        nn.ReflectionPad2d((1, 2, 0, 3)), nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), nn.ReplicationPad2d(2)
    )
    x = torch.randn(1, 2, 6, 5)
    ours = transfuse.optimize(model, (x,), never_slower=False)
    torch.testing.assert_close(ours(x), model(x))
    (region,) = regions(ours)
    assert len(region.ops) == 4


def test_an_image_too_small_to_be_reflected_is_refused_as_by_pytorch():
    model = Padded((6, 0), "reflect")
    ours = transfuse.optimize(model, (torch.randn(1, 3, 30),), never_slower=False)
    for length in (6, 1):
        with pytest.raises(RuntimeError) as expected:
            model(torch.randn(1, 3, length))
        with pytest.raises(RuntimeError) as got:
            ours(torch.randn(1, 3, length))
        assert str(got.value).split("\n")[0] == str(expected.value).split("\n")[0]
    x = torch.randn(1, 3, 7)
    torch.testing.assert_close(ours(x), model(x))
