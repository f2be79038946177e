"""Networks of several convolutions that the algebra makes one: results as exact as PyTorch's, gradients of every parameter."""

import pytest
import torch
from torch import nn

import transfuse


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


MODELS = {
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
