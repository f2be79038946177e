"""Forwards that write: to parameters, buffers, inputs and results. What they write is there afterwards, and what reads it later reads
it; beside PyTorch, optimised and compiled."""

import copy

import pytest
import torch
import torch.utils._pytree as pytree
from torch import nn

import transfuse
from transfuse import fallback

pytestmark = pytest.mark.versions

X = torch.randn(2, 3, 5, 6, generator=torch.Generator().manual_seed(1))


class Writing(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 3, 2, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.down = nn.Conv2d(4, 2, 3)
        self.how = how

    def forward(self, *inputs):
        return self.how(self, *inputs)


def ways(model):
    """The model, plain, optimised and compiled, each with parameters of its own."""
    torch._dynamo.reset()
    compiled = torch.compile(
        copy.deepcopy(model), backend="transfuse", options={"rest": "eager", "never_slower": False}
    )
    return copy.deepcopy(model), transfuse.optimize(copy.deepcopy(model), never_slower=False), compiled


def same(found, expected):
    found, expected = pytree.tree_leaves(found), pytree.tree_leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        if isinstance(b, torch.Tensor):
            assert torch.allclose(a, b, rtol=1e-3, atol=2e-4)
        else:
            assert a is b or a == b


def trained(model):
    """Two steps' results and gradients, and all that the model holds afterwards."""
    found = []
    for scale in (1, 2):
        model.zero_grad()
        x = (X * scale).requires_grad_()
        y = model(x)
        sum(t.square().mean() for t in pytree.tree_leaves(y) if t.requires_grad).backward()
        found += [y, x.grad, *[p.grad for p in model.parameters()]]
    return [*found, *model.parameters(), *model.buffers()]


def clamped(self, x):
    with torch.no_grad():
        self.up.weight.clamp_(-0.05, 0.05)
    return self.down(self.up(x))


def clamped_twice(self, x):
    with torch.no_grad():
        self.up.weight.clamp_(-0.05, 0.05).mul_(2)
        self.up.bias[1:].zero_()
    return self.down(self.up(x))


def clamped_data(self, x):
    self.up.weight.data.clamp_(-0.05, 0.05)
    return self.down(self.up(x))


def a_value_clamped(self, x):
    y = self.up(x)
    with torch.no_grad():
        y.clamp_(-0.1, 0.1)
    return self.down(y)


def halved(self, x):
    self.up.weight.data = self.up.weight.data * 0.5
    return self.up(x)


def set_anew(self, x):
    y = self.up(x)
    self.norm.running_mean = y.detach().mean((0, 2, 3))
    return y


def centred(self, x):
    y = self.norm(self.up(x))
    return y - self.norm.running_mean[:, None, None]


def normed_by_both(self, x):
    y = self.up(x)
    return self.norm(y) + nn.functional.batch_norm(y, self.norm.running_mean, self.norm.running_var)


WRITES = [clamped, clamped_twice, clamped_data, a_value_clamped, halved, set_anew, centred, normed_by_both]


@pytest.mark.parametrize("how", WRITES, ids=lambda how: how.__name__)
def test_what_forward_writes(how):
    plain, *ours = ways(Writing(how))
    expected = trained(plain)
    for model in ours:
        same(trained(model), expected)


def test_data_is_taken(no_fallback):
    plain, *ours = ways(Writing(lambda self, x: self.down(self.up(x).data)))
    for model in ours:
        same(model(X), plain(X))


@torch.no_grad()
def no_gradient(self, x):
    return self.norm(self.up(x)).relu()


def test_a_forward_without_gradients_keeps_its_statistics(no_fallback):
    plain, *ours = ways(Writing(no_gradient))
    for model in ours:
        result, expected = model(X), copy.deepcopy(plain)
        same(result, expected(X))
        assert not result.requires_grad
        same(list(model.buffers()), list(expected.buffers()))


def test_a_forward_in_inference_mode():
    plain = Writing(torch.inference_mode()(lambda self, x: self.up(x).relu()))
    ours = transfuse.optimize(copy.deepcopy(plain), never_slower=False)
    for _ in range(2):
        assert ours(X).is_inference() and not ours(X).requires_grad
    with torch.inference_mode():
        same(ours(X), plain(X))
    with torch.no_grad():
        assert ours(X).is_inference()


ALIASED = {
    "a view is written, then the whole is read": (lambda s, x, y: (y.add_(1), s.up(x).relu())[1], lambda x: (x, x[0])),
    "it is read, then written": (lambda s, x, y: ((z := s.up(x)), y.add_(1), z.relu())[2], lambda x: (x, x[0])),
    "one tensor twice": (lambda s, x, y: (y.mul_(3), s.up(x).relu())[1], lambda x: (x, x)),
    "between two reads": (lambda s, x, y: ((z := s.up(x)), y.mul_(3), z + s.up(x))[2], lambda x: (x, x)),
}


@pytest.mark.parametrize("case", ALIASED)
def test_inputs_that_are_views_of_each_other(case):
    how, views = ALIASED[case]
    plain, *ours = ways(Writing(how))
    with torch.no_grad():
        for model in ours:
            for _ in range(2):
                x, expected = X.clone(), X.clone()
                same(model(*views(x)), plain(*views(expected)))
                assert torch.equal(x, expected)


def test_a_list_that_begins_with_an_empty_tensor(no_fallback):
    def collected(self, x):
        found = torch.tensor([])
        for scale in (1.0, 2.0):
            found = torch.cat([found, self.up(x) * scale], 1)
        return found

    plain, *ours = ways(Writing(collected))
    for model in ours:
        same(model(X), plain(X))
    assert transfuse.report(ours[0]).taken == 6


def test_factors_that_are_not_finite():
    plain, *ours = ways(Writing(lambda self, x: (self.up(x) / 0.0, self.up(x) * float("inf"), self.up(x) * 2)))
    for model in ours:
        same(model(X), plain(X))
    assert any("division by zero" in (line.reason or "") for line in transfuse.report(ours[0]).graphs[0].lines)


def test_nothing_is_left_to_pytorch_unsaid():
    with pytest.warns(fallback.Warned, match="other memory"):
        transfuse.optimize(Writing(halved), (X,))
    ours = transfuse.optimize(Writing(set_anew), (X,))
    with pytest.warns(fallback.Warned, match="changes attributes"):
        [ours(X) for _ in range(2)]
