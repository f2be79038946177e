"""Random numbers that a forward() draws: PyTorch's are operators of a graph, Python's and numpy's would be frozen in it."""

import copy
import random

import numpy as np
import pytest
import torch
from torch import nn

import transfuse
from transfuse import fallback

pytestmark = pytest.mark.versions
beside, of_numpy = random.Random(3), np.random.default_rng(3)


class Drawing(nn.Module):
    def __init__(self, draw):
        super().__init__()
        self.up, self.draw, self.own, self.own_of_numpy = (
            nn.ConvTranspose2d(3, 4, 3),
            draw,
            random.Random(1),
            np.random.RandomState(1),
        )

    def forward(self, x):
        return self.up(x) * self.draw(self)


DRAWS = {
    "random": lambda _: random.random(),
    "random.choice": lambda _: random.choice(range(10**6)) / 1e6,
    "numpy": lambda _: float(np.random.uniform()),  # noqa: NPY002
    "own": lambda model: model.own.random(),
    "own of numpy": lambda model: float(model.own_of_numpy.uniform()),
    "beside": lambda _: beside.random(),
    "beside, of numpy": lambda _: float(of_numpy.random()),
}  # fmt: skip


@pytest.mark.parametrize("kind", DRAWS)
def test_each_call_draws_anew(kind):
    model, x = Drawing(DRAWS[kind]), torch.randn(1, 3, 4, 5)
    ours = transfuse.optimize(copy.deepcopy(model), never_slower=False)
    with pytest.warns(fallback.Warned, match="random numbers|changes attributes"):
        results = [ours(x) for _ in range(4)]
    assert all(not torch.equal(a, b) for i, a in enumerate(results) for b in results[:i])


@pytest.mark.filterwarnings("ignore::transfuse.fallback.Warned")
@pytest.mark.parametrize("kind", ["random", "numpy", "own"])
def test_they_are_drawn_in_pytorchs_order(kind):
    model, x = Drawing(DRAWS[kind]), torch.randn(1, 3, 4, 5)
    found = []
    for net in (transfuse.optimize(copy.deepcopy(model), never_slower=False), model):
        random.seed(5)
        np.random.seed(5)  # noqa: NPY002
        found.append([net(x) for _ in range(3)])
    for a, b in zip(*found):
        assert torch.allclose(a, b, atol=1e-6)


def test_pytorchs_are_drawn_by_the_graph(no_fallback):
    model = Drawing(lambda _: torch.rand(()))
    ours, x = transfuse.optimize(model, never_slower=False), torch.randn(1, 3, 4, 5)
    found = []
    for net in (ours, model):
        torch.manual_seed(5)
        found.append([net(x) for _ in range(3)])
    for a, b in zip(*found):
        assert torch.allclose(a, b, atol=1e-6)
