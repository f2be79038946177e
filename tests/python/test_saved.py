"""What may change between forward and backward may, and what may not raises: as PyTorch sees it."""

import copy

import pytest
import torch
from decoder import optimized, same
from torch import nn

from transfuse.native.saved import unsaved

pytestmark = pytest.mark.versions

MODELS = {
    "convolution": [nn.ConvTranspose2d(3, 4, 3, 2)],
    "activations": [nn.ConvTranspose2d(3, 4, 3, 2), nn.ReLU(), nn.Conv2d(4, 2, 3), nn.Sigmoid()],
    "norms": [nn.ConvTranspose2d(3, 4, 3), nn.BatchNorm2d(4), nn.LeakyReLU(), nn.Conv2d(4, 2, 3), nn.GroupNorm(1, 2)],
    "weight norm": [nn.utils.parametrizations.weight_norm(nn.ConvTranspose2d(3, 4, 3, 2)), nn.Tanh()],
}


def gradients(model, run, name: str | None, device):
    """Of the input and all parameters, one of which changes before backward; or PyTorch's error."""
    x = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(1)).to(device).requires_grad_()
    y = run(x)
    if name is not None:
        with torch.no_grad():
            dict(model.named_parameters())[name].add_(1).mul_(3)
    try:
        y.square().sum().backward()
    except RuntimeError as error:
        return str(error)
    return [x.grad, *[p.grad for p in model.parameters()]]


@pytest.mark.parametrize("name", MODELS)
def test_parameters_changed_in_place_before_backward(name, no_fallback, device):
    model = nn.Sequential(*copy.deepcopy(MODELS[name])).to(device)
    raised = []
    for changed in dict(model.named_parameters()):
        plain, ours = copy.deepcopy(model), copy.deepcopy(model)
        expected, found = gradients(plain, plain, changed, device), gradients(ours, optimized(ours), changed, device)
        assert isinstance(found, str) == isinstance(expected, str), changed
        if isinstance(found, str):
            raised.append(changed)
            assert "modified by an inplace operation" in found
        else:
            for a, b in zip(found, expected):
                same(a, b, 1e-4)
    assert 0 < len(raised) < len(list(model.parameters()))


def test_gradients_of_gradients_see_the_leaves_themselves(device):
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3, 2), nn.Tanh()).to(device)
    ours, x = optimized(model), torch.randn(2, 3, 5, 5, device=device)

    def second(run):
        (g,) = torch.autograd.grad(run(x).square().sum(), model[0].bias, create_graph=True)
        return torch.autograd.grad(g.square().sum(), model[0].bias)[0]

    same(second(ours), second(model), 1e-4)
    (g,) = torch.autograd.grad(ours(x).square().sum(), model[0].bias, create_graph=True)
    assert g.requires_grad


class OfATypeThatIsNone(nn.Module):
    """What PyTorch's kernels without memory do for some sizes: PyTorch 2.15's nearest upsampling of an empty batch."""

    def forward(self, x):
        raise TypeError("cond must be a bool")


def test_an_operator_that_cannot_be_tried_without_memory():
    assert unsaved(OfATypeThatIsNone(), [torch.zeros(2, 3)], (), (True,)) == ([], [])
