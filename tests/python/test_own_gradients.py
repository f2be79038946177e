"""Gradients that a graph of operators does not know: each case beside PyTorch, by optimize() and by torch.compile."""

import copy
import re
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import transfuse
from transfuse import fallback
from transfuse.pytorch import versions

pytestmark = [pytest.mark.versions, pytest.mark.filterwarnings("ignore::transfuse.fallback.Warned")]


class Through(torch.autograd.Function):
    """A straight-through estimator."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return 3 * gradient


class Apart(torch.autograd.Function):
    """The same with its context set up apart, as torch.func needs it."""

    @staticmethod
    def forward(x):
        return x.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x


class Pair(torch.autograd.Function):
    """Two results, of which one has no gradient."""

    @staticmethod
    def forward(ctx, x):
        sign = x > 0
        ctx.mark_non_differentiable(sign)
        return x.clamp(0), sign

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient, _):
        return -gradient


through, apart, two = Through.apply, Apart.apply, Pair.apply  # as such functions are mostly written


def hooked(up, x):
    y = up(x)
    if y.requires_grad:
        y.register_hook(lambda gradient: 3 * gradient)
    return y.tanh()


def behind_where(up, x):
    y = up(x)
    return torch.where(y > 0, through(y), y).tanh()


KINDS = {
    "function": lambda up, x: through(up(x)).tanh(),
    "function with its context apart": lambda up, x: apart(up(x)).tanh(),
    "function of two results": lambda up, x: two(up(x))[0] * 2,
    "function in front": lambda up, x: up(through(x)).relu(),
    "function behind where": behind_where,
    "hook on a tensor": hooked,
    "reentrant checkpoint": lambda up, x: checkpoint(lambda z: up(z).tanh(), x, use_reentrant=True) * 2,
}  # fmt: skip


class With(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.up, self.how = nn.ConvTranspose2d(3, 4, 3, 2, padding=1), how

    def forward(self, x):
        return self.how(self.up, x)


def optimized(model):
    return transfuse.optimize(model, never_slower=False)


def compiled(model):
    torch._dynamo.reset()
    return torch.compile(model, backend="transfuse", options={"never_slower": False})


def gradients(module, x):
    """By backward(): a reentrant checkpoint knows no other way."""
    wanted = [x := x.clone().requires_grad_(), *[p for p in module.parameters() if p.requires_grad]]
    module.zero_grad()
    y = module(x)
    y.square().sum().backward()
    return [y, *[leaf.grad for leaf in wanted]]


def same(found, expected):
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("way", [optimized, compiled])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_pytorchs(kind, way):
    plain = With(KINDS[kind])
    ours = way(copy.deepcopy(plain))
    for size in (5, 5, 7):
        x = 2 * torch.randn(2, 3, size, 6)
        same(gradients(ours, x), gradients(plain, x))
        with torch.no_grad():
            same([ours(x)], [plain(x)])


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_was_met_without_gradients(kind):
    """Nothing wants a gradient while it is captured, and later its input does."""
    plain = With(KINDS[kind]).requires_grad_(False)
    ours = optimized(copy.deepcopy(plain))
    x = 2 * torch.randn(2, 3, 5, 6)
    with torch.no_grad():
        same([ours(x)], [plain(x)])
    same([ours(x)], [plain(x)])
    same(gradients(ours, x), gradients(plain, x))


def test_functions_of_pytorchs_own_are_taken(no_fallback):
    """PyTorch applies autograd functions inside itself as well: of what it shows as operators, the gradient is known."""
    plain = With(lambda up, x: checkpoint(lambda z: up(z).tanh(), x, use_reentrant=False) * 2)
    ours = optimized(copy.deepcopy(plain))
    x = torch.randn(2, 3, 5, 6)
    same(gradients(ours, x), gradients(plain, x))
    assert transfuse.report(ours).taken


@pytest.mark.parametrize("way", [optimized, compiled])
def test_checkpoints_in_checkpoints_are_taken(way, no_fallback):
    def halves(up, x):
        inner = lambda z: checkpoint(lambda y: y.tanh() * 2, up(z), use_reentrant=False)  # noqa: E731
        return checkpoint(inner, x, use_reentrant=False).exp()

    plain = With(halves)
    ours = way(copy.deepcopy(plain))
    x = torch.randn(2, 3, 5, 6)
    same(gradients(ours, x), gradients(plain, x))
    report = transfuse.report(ours)
    assert report.taken == 4 and report.left == 0, str(report)


@pytest.mark.parametrize("way", [optimized, compiled])
def test_a_version_that_was_not_tested(way, monkeypatch):
    """One warning, and every gradient is PyTorch's: what is new there may hide one that is a model's own."""
    monkeypatch.setattr(versions, "NEWEST", (2, 10))
    plain = With(lambda up, x: up(x).tanh())
    ours = way(copy.deepcopy(plain))
    x = torch.randn(2, 3, 5, 6)
    fallback._said.clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", fallback.Warned)
        for size in (5, 6):
            same(gradients(ours, x[:, :, :size]), gradients(plain, x[:, :, :size]))
    assert len([w for w in said if "the newest that was tested" in str(w.message)]) == 1


def test_the_pinned_version_is_the_newest_that_is_tested():
    pinned = re.search(
        r"^torch==(\d+)\.(\d+)", Path(__file__).parents[2].joinpath("requirements.txt").read_text(), re.MULTILINE
    )
    assert tuple(map(int, pinned.groups())) == versions.NEWEST
