"""Linear interpolation beside convolutions, as PyTorch defines it: any factor, both alignments, one to three dimensions."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import transfuse

TOLD = {
    "twice": {"scale_factor": 2.0},
    "three times": {"scale_factor": 3.0},
    "half as much again": {"scale_factor": 1.5},
    "half": {"scale_factor": 0.5},
    "by no fraction": {"scale_factor": 1.37},
    "by no fraction, told as sizes": {"scale_factor": 1.37, "recompute_scale_factor": True},
    "to a size": {"size": 13},
}


class Model(nn.Module):
    def __init__(self, d, told, corners):
        super().__init__()
        transposed, conv = getattr(nn, f"ConvTranspose{d}d"), getattr(nn, f"Conv{d}d")
        self.up, self.head = transposed(3, 4, 3, 2), conv(4, 5, 3, padding=1)
        self.told = {**told, "mode": ["linear", "bilinear", "trilinear"][d - 1], "align_corners": corners}

    def forward(self, x):
        return self.head(F.interpolate(self.up(x).relu(), **self.told).tanh())


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("name", TOLD)
def test_results_and_gradients(name, d, corners, no_fallback):
    torch.manual_seed(0)
    model = Model(d, TOLD[name], corners)
    x = torch.randn(2, 3, *(5, 4, 3)[:d], requires_grad=True)
    fast = transfuse.optimize(model, (x,), never_slower=False)
    report = transfuse.report(fast)
    assert report.left == 0, str(report)
    ours, theirs = fast(x), model(x)
    assert ours.shape == theirs.shape and torch.allclose(ours, theirs, atol=1e-5)
    wanted = [x, *model.parameters()]
    mine = torch.autograd.grad(ours.square().sum(), wanted)
    for a, b in zip(mine, torch.autograd.grad(theirs.square().sum(), wanted)):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-4)


def test_sizes_that_the_call_tells(no_fallback):
    class Beside(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.skip = nn.ConvTranspose2d(3, 4, 3, 2), nn.Conv2d(3, 4, 1)

        def forward(self, x):
            y = self.up(x)
            return y + F.interpolate(self.skip(x), size=y.shape[2:], mode="bilinear")

    model = Beside()
    fast = transfuse.optimize(model, (torch.randn(2, 3, 5, 6),), never_slower=False)
    for shape in ((2, 3, 5, 6), (1, 3, 7, 4)):
        x = torch.randn(shape)
        assert torch.allclose(fast(x), model(x), atol=1e-5)
    assert transfuse.report(fast).left == 0, str(transfuse.report(fast))


class ToTheSkip(nn.Module):
    """Nearest neighbours up to the size of a skip connection, as decoders of U-Nets ask for it."""

    def __init__(self):
        super().__init__()
        self.down, self.inner = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 6, 3, 2, 1)
        self.merge = nn.Conv2d(10, 4, 3, padding=1)

    def forward(self, x):
        skip = self.down(x).relu()
        y = F.interpolate(self.inner(skip), size=(skip.shape[2], skip.shape[3]), mode="nearest")
        return self.merge(torch.cat([y, skip], 1))


def test_nearest_neighbours_to_the_size_of_a_skip_connection(no_fallback):
    model = ToTheSkip()
    fast = transfuse.optimize(model, never_slower=False)
    for shape in ((2, 3, 8, 12), (1, 3, 10, 6)):
        x = torch.randn(shape)
        assert torch.allclose(fast(x), model(x), atol=1e-5)
    assert transfuse.report(fast).left == 0, str(transfuse.report(fast))
    x = torch.randn(2, 3, 7, 12)  # four rows become seven: PyTorch's
    assert torch.allclose(fast(x), model(x), atol=1e-5)
    assert transfuse.report(fast).left == 1, str(transfuse.report(fast))


@pytest.mark.parametrize("how", [{"scale_factor": (41, 3)}, {"size": (2 * 47, 9)}])
def test_factors_for_which_pytorch_takes_the_element_before(how):
    class Enlarged(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 3, 1)

        def forward(self, x):
            return F.interpolate(self.conv(x), **how).tanh()

    model, x = Enlarged(), torch.randn(1, 2, 2, 3)
    fast = transfuse.optimize(model, (x,), never_slower=False)
    torch.testing.assert_close(fast(x), model(x))


def test_repeated_rows_and_columns(no_fallback):
    class Repeats(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.last = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 2, 3)

        def forward(self, x):
            y = self.conv(x).to(x.device).repeat_interleave(3, dim=2).repeat_interleave(2, -1)
            return self.last(y)

    model = Repeats()
    fast = transfuse.optimize(model, never_slower=False)
    for shape in ((2, 3, 5, 6), (1, 3, 7, 4)):
        x = torch.randn(shape, requires_grad=True)
        ours, theirs = fast(x), model(x)
        assert torch.allclose(ours, theirs, atol=1e-5)
        mine, plain = [torch.autograd.grad(y.square().sum(), x)[0] for y in (ours, theirs)]
        assert torch.allclose(mine, plain, rtol=1e-4, atol=1e-4)
    assert transfuse.report(fast).left == 0, str(transfuse.report(fast))


class Repeated(nn.Module):
    """What is repeated along axes of extent one, and along others, before a convolution."""

    def __init__(self, channels, times):
        super().__init__()
        self.times, self.conv = times, nn.Conv2d(channels * times[-3], 4, 3, padding=1)

    def forward(self, x):
        return self.conv(x.repeat(*self.times)).relu()


@pytest.mark.parametrize("shape", [(2, 1, 5, 6), (1, 2, 5, 1), (2, 3, 1, 1), (3, 4, 4)])
@pytest.mark.parametrize("times", [(1, 3, 1, 1), (2, 1, 1, 4), (1, 2, 5, 6), (2, 1, 2, 1)])
def test_repetitions(shape, times, no_fallback):
    model = Repeated(shape[-3], times).double()
    fast = transfuse.optimize(model, never_slower=False)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    wanted = [x, *model.parameters()]
    ours, theirs = fast(x), model(x)
    torch.testing.assert_close(ours, theirs)
    for mine, plain in zip(*(torch.autograd.grad(y.square().sum(), wanted) for y in (ours, theirs))):
        torch.testing.assert_close(mine, plain)
    assert transfuse.report(fast).left == 0, str(transfuse.report(fast))
