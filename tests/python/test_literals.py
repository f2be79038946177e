"""Numbers that a model keeps in tensors and computes sizes from, as audio codecs do their paddings."""

import copy
import warnings

import pytest
import torch
from decoder import optimized, same
from torch import nn

import transfuse
from transfuse.calls.dispatch import MOST_SIZES

pytestmark = pytest.mark.versions


class Codec(nn.Module):
    """A causal convolution that pads what is missing to a whole frame, and its counterpart."""

    def __init__(self, stride=2, kernel=5):
        super().__init__()
        self.down, self.up = nn.Conv1d(3, 4, kernel, stride), nn.ConvTranspose1d(4, 3, kernel, stride)
        self.register_buffer("stride", torch.tensor(stride))
        self.register_buffer("kernel", torch.tensor([kernel], dtype=torch.int32), persistent=False)
        self.total = self.kernel - self.stride  # no buffer

    def forward(self, x):
        length = x.shape[-1]
        frames = torch.ceil((length - self.kernel + self.total) / self.stride + 1).to(torch.int64) - 1
        missing = frames * self.stride + self.kernel - self.total - length
        x = nn.functional.pad(x, (int(self.total), int(missing)), "reflect" if length > self.total else "constant")
        return self.up(self.down(x).relu())[..., : length - self.stride + self.total]


def test_they_are_captured(no_fallback):
    model = Codec().eval()
    ours = optimized(copy.deepcopy(model), (torch.randn(2, 3, 16),))
    with torch.no_grad():
        for length in (16, 17, 3, 16):
            x = torch.randn(2, 3, length)
            same(ours(x), model(x))
    report = transfuse.report(ours)
    assert not report.failures
    for graph in report.graphs:
        left = [line.op for line in graph.lines if line.left]
        assert all(op.startswith("aten.pad") for op in left), left  # no arithmetic of numbers


def test_gradients(no_fallback):
    model, x = Codec(), torch.randn(2, 3, 11)
    ours = optimized(copy.deepcopy(model), (x,))
    for module in (model, ours):
        module(x).square().sum().backward()
    for a, b in zip(ours.parameters(), model.parameters(), strict=True):
        assert torch.allclose(a.grad, b.grad, rtol=1e-4, atol=1e-5)


CHANGES = {
    "in place": lambda m: m.total.sub_(1),
    "in place, seen from elsewhere": lambda m: m.stride.view(1).add_(1),
    "another tensor": lambda m: setattr(m, "total", torch.tensor([1])),
    "another buffer": lambda m: setattr(m, "stride", torch.tensor(1)),
    "load_state_dict": lambda m: m.load_state_dict({**m.state_dict(), "stride": torch.tensor(3)}),
    "another type": lambda m: m.to(torch.float64),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_numbers_that_change(change, no_fallback):
    model = Codec().eval()
    ours, x = optimized(copy.deepcopy(model)), torch.randn(2, 3, 16)
    with torch.no_grad():
        for _ in range(2):
            same(ours(x), model(x))
        before = model(x)
        for module in (ours, model):
            change(module)
        x = x.to(model.up.weight.dtype)
        for _ in range(2):
            same(ours(x), model(x))
        now = model(x)
        assert now.shape != before.shape or now.dtype != before.dtype


def test_more_sizes_than_graphs():
    model = Codec().eval()
    ours = optimized(copy.deepcopy(model))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for length in [*range(6, 8 + MOST_SIZES), 6]:
            x = torch.randn(1, 3, length)
            same(ours(x), model(x))
    assert len(transfuse.report(ours).graphs) == MOST_SIZES


@pytest.mark.parametrize("how", ["in place", "anew"])
def test_a_number_that_forward_changes(how):
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose1d(3, 3, 3)
            self.register_buffer("count", torch.tensor(0))

        def forward(self, x):
            if how == "in place":
                self.count.add_(1)
            else:
                self.count = self.count + 1
            return nn.functional.pad(self.up(x), (0, int(self.count)))

    model = Counts().eval()
    ours, x = optimized(copy.deepcopy(model)), torch.randn(1, 3, 8)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            same(ours(x), model(x))
    assert ours.count == model.count == 4
