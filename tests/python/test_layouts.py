"""Results lie in memory as PyTorch's do: channels last goes on through some operators, and ends at others."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import transfuse

GIVES = {
    "softmax": lambda y: y.softmax(1),
    "log_softmax": lambda y: y.log_softmax(3).relu(),
    "instance_norm": lambda y: F.instance_norm(y),
    "group_norm": lambda y: F.group_norm(y, 2),
    "layer_norm": lambda y: F.layer_norm(y, y.shape[2:]),
    "batch_norm": lambda y: F.batch_norm(y, None, None, training=True),
    "a sum that keeps its axis": lambda y: y.sum(2, keepdim=True),
    "a mean of channels": lambda y: y.mean(1, keepdim=True),
    "a variance": lambda y: y.var((2, 3), keepdim=True),
    "pools": lambda y: F.avg_pool2d(F.max_pool2d(y, 2, 1), 2),
    "an adaptive pool": lambda y: F.adaptive_avg_pool2d(y, 1),
    "upsampling": lambda y: F.interpolate(y, scale_factor=2).tanh(),
    "padding": lambda y: F.pad(y, (1, 0, 2, 1)),
    "one concatenated with itself": lambda y: torch.cat([y, y * 2], 1),
    "one concatenated with a mean": lambda y: torch.cat([y, y.mean(1, keepdim=True)], 1),
    "a sum with softmax first": lambda y: y.softmax(1) + y,
    "a sum with softmax second": lambda y: y + y.softmax(1),
    "a mean expanded": lambda y: y.mean(1, keepdim=True).expand(-1, 3, -1, -1) * y[:, :3],
    "repeated": lambda y: y.repeat(1, 2, 1, 1).tanh(),
    "a bias before": lambda y: torch.ones(4, 1, 1) + y,
    "a convolution behind a norm": lambda y: F.conv2d(F.instance_norm(y), torch.ones(3, 4, 1, 1)),
}


VOLUMES = {
    "a maximum": lambda y: F.max_pool3d(y, 2),
    "an average": lambda y: F.avg_pool3d(y, 2),
    "an adaptive average": lambda y: F.adaptive_avg_pool3d(y, 2).relu(),
    "an average, convolved": lambda y: F.conv3d(F.avg_pool3d(y, 2), torch.ones(2, 4, 1, 1, 1)),
    "batch_norm": lambda y: F.batch_norm(y, None, None, training=True).tanh(),
}


class Gives(nn.Module):
    def __init__(self, give, layer=nn.ConvTranspose2d):
        super().__init__()
        self.up, self.give = layer(3, 4, 3), give

    def forward(self, x):
        return self.give(self.up(x))


@pytest.mark.parametrize("name", GIVES)
def test_results_lie_as_pytorchs(name, no_fallback):
    model = Gives(GIVES[name])
    ours = transfuse.optimize(copy.deepcopy(model), never_slower=False)
    with torch.no_grad():
        for shape in ((2, 3, 5, 6), (3, 3, 2, 7)):
            x = torch.randn(shape)
            for given in (x, x.to(memory_format=torch.channels_last)):
                found, expected = ours(given), model(given)
                assert found.stride() == expected.stride()
                assert torch.allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", VOLUMES)
def test_volumes_lie_as_pytorchs(name, no_fallback):
    model = Gives(VOLUMES[name], nn.ConvTranspose3d)
    ours = transfuse.optimize(copy.deepcopy(model), never_slower=False)
    with torch.no_grad():
        x = torch.randn(2, 3, 3, 4, 5)
        for given in (x, x.to(memory_format=torch.channels_last_3d)):
            found, expected = ours(given), model(given)
            assert found.stride() == expected.stride()
            assert torch.allclose(found, expected, rtol=1e-3, atol=1e-4)
