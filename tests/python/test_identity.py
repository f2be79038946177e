"""A forward() may ask which of its inputs are one tensor, or one that the module holds. A graph holds for the answer it was given."""

import itertools

import pytest
import torch
from decoder import optimized, same
from torch import nn

pytestmark = pytest.mark.versions


class Asks(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.twice = nn.ConvTranspose2d(3, 4, 3), nn.Buffer(torch.randn(4, 1, 1))
        self.shift = nn.Parameter(torch.randn(4, 1, 1))

    def forward(self, x, y, shift):
        z = self.up(x).relu() * (1 if y is x else y.mean() + 2)
        if shift is self.shift:
            return z + 10 * shift
        return z - shift if shift is self.twice else z * shift


@pytest.fixture
def calls(device):
    """Every way to give the three inputs: of the module's tensors, or not; one of them twice, or not."""
    x, y = torch.randn(2, 2, 3, 5, 4, device=device)
    other = torch.randn(4, 1, 1, device=device)
    shifts = [lambda m: other, lambda m: m.shift, lambda m: m.twice]
    return [lambda m, b=b, shift=shift: (x, b, shift(m)) for b, shift in itertools.product((x, y), shifts)]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("backwards", [False, True])
def test_which_inputs_are_one_tensor_decides_what_is_recalled(calls, named, backwards, no_fallback, device):
    model = Asks().to(device)
    ours = optimized(model)
    for _ in range(3):
        for call in reversed(calls) if backwards else calls:
            x, y, shift = call(model)
            with torch.no_grad():
                found = ours(x, shift=shift, y=y) if named else ours(x, y, shift)
                same(found, model(x, y, shift))
    assert len(ours.__dict__["_transfuse"].traceable) == 6


def test_an_input_given_twice_gets_one_gradient(no_fallback, device):
    model = Asks().to(device)
    ours = optimized(model)
    given = torch.randn(2, 3, 5, 4, device=device)
    for y in (None, torch.randn(2, 3, 5, 4, device=device)):
        found = []
        for net in (ours, model):
            x = given.clone().requires_grad_()
            model.zero_grad()
            net(x, x if y is None else y, model.shift).square().sum().backward()
            found.append((x.grad, model.shift.grad, model.up.weight.grad))
        for a, b in zip(*found):
            same(a, b, 1e-4)


def test_a_parameter_that_takes_anothers_place_is_known(no_fallback, device):
    model = Asks().to(device)
    ours = optimized(model)
    x, y = torch.randn(2, 2, 3, 5, 4, device=device)
    with torch.no_grad():
        for _ in range(3):
            before = model.shift
            same(ours(x, y, before), model(x, y, before))
            model.shift = nn.Parameter(torch.randn(4, 1, 1, device=device))
            for shift in (before, model.shift):
                same(ours(x, y, shift), model(x, y, shift))
    assert len(ours.__dict__["_transfuse"].traceable) == 2


def test_compiled_around(calls, no_fallback, device):
    model = Asks().to(device)
    ours = optimized(model)
    with torch.no_grad():
        for call in calls:
            ours(*call(model))
        compiled = torch.compile(ours, backend="eager")
        for call in calls:
            same(compiled(*call(model)), model(*call(model)))
