"""Networks of several convolutions that the algebra makes one: results as exact as PyTorch's, gradients of every parameter."""

import copy

import pytest
import torch
from torch import nn

import transfuse
from transfuse.translate import convolution


class RepVGG(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.narrow = nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.Conv2d(32, 32, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(32) for _ in range(3))

    def forward(self, x):
        return torch.relu(self.norms[0](self.wide(x)) + self.norms[1](self.narrow(x)) + self.norms[2](x))


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.boxes, self.classes = nn.Conv2d(32, 12, 3, padding=1), nn.Conv2d(32, 20, 3, padding=1)

    def forward(self, x):
        return torch.cat([self.boxes(x).relu(), self.classes(x).relu()], 1)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.ConvTranspose2d(32, 16, 4, 2, 1)

    def forward(self, x):
        return self.layer(x) - 0.5 * self.layer(x.flip(0))


class Adapted(nn.Module):
    """A convolution and a branch by way of few channels."""

    def __init__(self):
        super().__init__()
        self.wide, self.down = nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 4, 3, padding=1, bias=False)
        self.up = nn.Conv2d(4, 32, 1, bias=False)

    def forward(self, x):
        return self.wide(x) + 0.5 * self.up(self.down(x))


class Skip(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.last = nn.ConvTranspose2d(32, 32, 2, 2), nn.Conv2d(64, 4, 1)

    def forward(self, x):
        return self.last(
            torch.cat([self.up(x), torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")], 1)
        )


class Linear(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.layer, self.linear, self.how = nn.Conv2d(32, 64, 3, padding=1), nn.Linear(64, 10), how

    def forward(self, x):
        y = self.layer(x)
        if self.how == "mean":
            return self.linear(y.mean((2, 3)))
        if self.how == "tokens":
            return self.linear(y.flatten(2).transpose(1, 2))
        return self.linear(y.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Stacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.last = nn.Conv2d(32, 8, 3, padding=1), nn.Conv2d(32, 8, 3, padding=1), nn.Conv2d(16, 4, 1)

    def forward(self, x):
        return self.last(torch.stack([self.a(x), self.b(x)], 2).flatten(1, 2))


class Coordinates(nn.Module):
    """Coordinates beside the input, one vector a sample beside both, a convolution of each half of the channels."""

    def __init__(self):
        super().__init__()
        self.layer, self.halves = nn.Conv2d(42, 16, 3, padding=1), nn.ModuleList(nn.Conv2d(8, 8, 3) for _ in range(2))
        self.register_buffer("places", torch.rand(1, 2, 24, 26))

    def forward(self, x):
        vector = x.mean((2, 3), keepdim=True)[:, :8]
        y = self.layer(
            torch.cat([x, self.places.expand(len(x), -1, -1, -1), vector.repeat(1, 1, *x.shape[2:])], 1)
        ).relu()
        return torch.cat([layer(part) for layer, part in zip(self.halves, y.chunk(2, 1))], 1)


MODELS = {
    "coordinates": Coordinates,
    "adapted": Adapted,
    "skip": Skip,
    "linear behind a mean": lambda: Linear("mean"),
    "linear on tokens": lambda: Linear("tokens"),
    "linear on channels last": lambda: Linear("channels last"),
    "stacked": Stacked,
    "decoder": lambda: nn.Sequential(nn.ConvTranspose2d(32, 64, 2, 2), nn.Conv2d(64, 3, 1)),
    "batch norm": lambda: nn.Sequential(nn.Conv2d(32, 64, 1), nn.BatchNorm2d(64), nn.ConvTranspose2d(64, 4, 4, 2, 1)),
    "separable": lambda: nn.Sequential(nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Conv2d(32, 4, 1)),
    "RepVGG": RepVGG,
    "heads": Heads,
    "shared": Shared,
}


@pytest.mark.parametrize("name", MODELS)
def test_results_and_gradients(name):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 1.5)
    x = torch.randn(4, 32, 24, 26)
    fast = transfuse.optimize(model, (x,), never_slower=False)

    def step(module, x):
        x = x.clone().requires_grad_(True)
        y = module(x)
        return y.detach(), torch.autograd.grad(y.square().mean(), [x, *model.parameters()])

    mine, my_gradients = step(fast, x)
    theirs, _ = step(model, x)
    truth, gradients = step(model.double(), x.double())

    def error(y):
        return (y.double() - truth).square().mean().sqrt()

    assert error(mine) <= 1.2 * error(theirs)
    for mine, truth in zip(my_gradients, gradients):
        assert (mine - truth).norm() <= 1e-5 * truth.norm() + 1e-7


def test_a_linear_layer_that_is_one_with_no_convolution_is_left():
    model = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)).eval()
    x = torch.randn(2, 8, 8, 8)
    told = str(transfuse.report(transfuse.optimize(model, (x,), never_slower=False)))
    assert "a linear layer that is not one with a convolution before it" in told


class Unmixed(nn.Module):
    """A linear layer of a linear layer of what has a size that only the call tells."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8, bias=False), nn.Linear(8, 4)
        self.layer = nn.ConvTranspose1d(2, 2, 3)

    def forward(self, x, w):
        return self.second(x @ w), self.layer(x)


def test_linear_layers_of_sizes_that_only_the_call_tells(no_fallback):
    model = Unmixed().eval()
    x, w = torch.randn(2, 2, 8), torch.randn(8, 8)
    fast = transfuse.optimize(copy.deepcopy(model), (x, w), never_slower=False)
    for mine, theirs in zip(fast(x, w), model(x, w)):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


class Sums(nn.Module):
    """Linear layers, each added to what it reads: twice as many ways to the convolution with every one."""

    def __init__(self, count):
        super().__init__()
        self.first = nn.Conv1d(3, 4, 1)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(count))

    def forward(self, x):
        y = self.first(x).mT
        for layer in self.layers:
            y = y + layer(y)
        return y


def test_what_linear_layers_read_is_looked_at_once(no_fallback, monkeypatch):
    seen, of = [], convolution.op_name
    monkeypatch.setattr(convolution, "op_name", lambda node: (seen.append(node), of(node))[1])
    model, x = Sums(12).eval(), torch.randn(2, 3, 5)
    fast = transfuse.optimize(copy.deepcopy(model), (x,), never_slower=False)
    torch.testing.assert_close(fast(x), model(x), rtol=1e-5, atol=1e-5)
    assert len(seen) < 12**3
