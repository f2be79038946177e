"""Sizes in any order: what a module has met before changes nothing of what it gives, be it a result or an error."""

import copy
import functools

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import nn

import transfuse
from transfuse import fallback


class Means(nn.Module):
    """At small sizes the convolution is computed, at others it collapses."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 5, 4, 2, 1)

    def forward(self, x):
        return (self.up(x) * 0.5).mean([2, 3], keepdim=True).logsumexp(1)


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm = nn.ConvTranspose2d(3, 4, 3, 2, 1, 1, bias=False), nn.BatchNorm2d(4)

    def forward(self, x):
        y = self.norm(self.up(x))
        return y - y.mean([2, 3], keepdim=True)


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.up, self.tail = norm(nn.ConvTranspose1d(3, 4, 5, 3, 1)), norm(nn.Conv1d(4, 2, 3, dilation=2, padding=1))
        self.side = norm(nn.Conv1d(4, 4, 3, padding=1))

    def forward(self, x):
        y = nn.functional.leaky_relu(self.up(x), 0.1)
        return torch.tanh(self.tail(y + self.side(y)))


MODELS = {
    "means": Means,
    "centred": Centred,
    "speech": Speech,
    # padding that leaves nothing of small inputs, then a kernel that finds none
    "cut away": lambda: nn.Sequential(nn.ConvTranspose1d(3, 4, 3, padding=3), nn.Sigmoid(), nn.Conv1d(4, 2, 2)),
    "pools": lambda: nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.MaxPool2d(2), nn.GELU(), nn.AvgPool2d(3, 2, 1)),
    "planes": lambda: nn.Sequential(nn.ConvTranspose2d(3, 4, 2, bias=False), nn.InstanceNorm2d(4), nn.Softmax(1)),
    "adaptive": lambda: nn.Sequential(nn.ConvTranspose2d(3, 4, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
}


@functools.cache
def pair(name: str, training: bool):
    torch.manual_seed(0)
    plain = MODELS[name]().train(training)
    return plain, copy.deepcopy(plain).double(), transfuse.optimize(copy.deepcopy(plain), never_slower=False)


def outcome(model, x, gradients: bool):
    """Results and gradients, or the kind and the first words of the error."""
    x = x.clone().requires_grad_(gradients)
    state = copy.deepcopy(model.state_dict())
    try:
        with torch.set_grad_enabled(gradients):
            y = model(x)
        found = [y.detach()]
        if gradients:
            found += torch.autograd.grad(y.square().sum(), [x, *model.parameters()])
        found += [t.clone() for t in model.buffers()]
    except Exception as error:  # whatever PyTorch raises
        return type(error).__name__, str(error)[:60]
    finally:
        model.load_state_dict(state)
    return found


def strides(tensor) -> list[int]:
    """Of the extents that are more than one."""
    return [stride for stride, extent in zip(tensor.stride(), tensor.shape) if extent > 1]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", MODELS)
@settings(
    max_examples=8, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(data=st.data())
def test_sizes_in_any_order(name, training, data):
    plain, exact, ours = pair(name, training)
    rank = 1 if name in ("speech", "cut away") else 2
    before = set(fallback._said)
    for _ in range(4):
        extents = data.draw(st.lists(st.sampled_from([2, 1, 3, 4, 5, 7, 9, 16, 33]), min_size=rank, max_size=rank))
        shape = [data.draw(st.sampled_from([2, 3, 1])), 3, *extents]
        x = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))
        if rank == 2 and data.draw(st.booleans()):
            x = x.to(memory_format=torch.channels_last)
        gradients = data.draw(st.booleans())
        expected, found = (outcome(model, x, gradients) for model in (plain, ours))
        if isinstance(expected, tuple):
            assert found == expected, shape
            continue
        assert not isinstance(found, tuple), (shape, found)
        assert strides(found[0]) == strides(expected[0]), shape  # (gradients have the layouts of their leaves)
        for a, b in zip(found, outcome(exact, x.double(), gradients), strict=True):
            size = b.abs().max().item() if b.numel() else 0.0
            assert a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=0, atol=1e-3 * size + 1e-4), shape
    assert set(fallback._said) == before


class Halved(nn.Module):
    """Two sizes that are related by a factor that is no whole number."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose1d(3, 4, 3, stride=2)

    def forward(self, x, z):
        return nn.functional.interpolate(self.up(x), scale_factor=0.5) + z


def test_sizes_related_by_a_fraction(no_fallback):
    plain = Halved()
    ours = transfuse.optimize(copy.deepcopy(plain), (torch.randn(2, 3, 8), torch.randn(2, 4, 8)), never_slower=False)
    for length in (8, 9, 20):
        x, z = torch.randn(2, 3, length), torch.randn(2, 4, length)
        assert torch.allclose(ours(x, z), plain(x, z), atol=1e-5)
    with pytest.raises(RuntimeError):
        ours(x, torch.randn(2, 4, length + 1))


class Beside(nn.Module):
    """A vector put everywhere beside a buffer, whose extents those of the input must therefore be."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 4, 3, padding=1)
        self.register_buffer("places", torch.rand(1, 2, 9, 10))

    def forward(self, x):
        vector = x.mean((2, 3), keepdim=True).expand(-1, -1, *x.shape[2:])
        return self.conv(torch.cat([x, vector, self.places.expand(len(x), -1, -1, -1)], 1))


def test_sizes_that_a_buffer_fixes(no_fallback):
    model = Beside().double()
    fast = transfuse.optimize(model, never_slower=False)
    for batch in (2, 3):
        x = torch.randn(batch, 3, 9, 10, dtype=torch.float64, requires_grad=True)
        torch.testing.assert_close(fast(x), model(x))
        with torch.no_grad():
            torch.testing.assert_close(fast(x), model(x))
