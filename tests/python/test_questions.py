"""Forwards that ask PyTorch or their tensors something, that reach tensors by ways of their own, and that are set on objects: what
a captured graph does not show. Each beside PyTorch."""

import copy
import functools
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import transfuse

pytestmark = pytest.mark.versions

X = torch.randn(2, 3, 5, 6, generator=torch.Generator().manual_seed(1))


class With(nn.Module):
    """A layer, and what is done with it."""

    def __init__(self, how):
        super().__init__()
        self.up, self.how = nn.ConvTranspose2d(3, 4, 3, 2, padding=1), how

    def forward(self, x):
        return self.how(self.up, x)


def pair(model):
    plain = copy.deepcopy(model)
    return transfuse.optimize(model, never_slower=False), plain


def gradients(module, x=X):
    module.zero_grad()
    x = x.clone().requires_grad_()
    y = module(x)
    y.square().sum().backward()
    return [y, x.grad, *[p.grad for p in module.parameters()]]


def same(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            assert a.requires_grad == b.requires_grad
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def without_gradients(call):
    def run(module):
        with torch.no_grad():
            return call(module)

    return run


def inferring(module):
    with torch.inference_mode():
        return module(X).clone()


def plainly(module):
    return module(X)


def with_gradient(module):
    return module(X.clone().requires_grad_())


def frozen(module):
    module.up.weight.requires_grad_(False)
    return module(X)


def last(module):
    return module(X.to(memory_format=torch.channels_last))


ASKING = {
    "gradients": (lambda: torch.is_grad_enabled(), [plainly, without_gradients(plainly), plainly]),
    "inference": (lambda: torch.is_inference_mode_enabled(), [without_gradients(plainly), inferring]),
    "the input's gradient": (lambda up, x: x.requires_grad, [plainly, with_gradient, plainly]),
    "the weight's gradient": (lambda up, x: up.weight.requires_grad, [plainly, frozen]),
    "a result's gradient": (lambda up, x: up(x).requires_grad, [plainly, without_gradients(plainly), plainly]),
    "layout": (lambda up, x: x.is_contiguous(), [plainly, last, plainly]),
    "strides": (lambda up, x: x.stride(1) == 1, [last, plainly, last]),
}


@pytest.mark.parametrize("what", ASKING)
def test_answers_are_part_of_the_graph(what, no_fallback):
    ask, calls = ASKING[what]
    of_tensors = ask.__code__.co_argcount > 0
    ours, plain = pair(With(lambda up, x: up(x) * (2 if (ask(up, x) if of_tensors else ask()) else 3)))
    for call in calls:
        same([call(ours)], [call(plain)])


def test_each_answer_is_captured_once(no_fallback):
    ours, _ = pair(With(lambda up, x: up(x) * (1 + torch.is_grad_enabled())))
    for _ in range(3):
        ours(X)
        with torch.no_grad():
            ours(X)
    assert sum(map(len, ours.__dict__["_transfuse"].captures.values())) == 2


def test_a_question_that_is_kept_is_answered_later(no_fallback):
    kept = []

    def how(up, x):
        kept.append(torch.is_grad_enabled)
        return up(x)

    ours, _ = pair(With(how))
    with torch.no_grad():
        ours(X)
    assert kept and all(ask() for ask in kept)
    with torch.no_grad():
        assert not any(ask() for ask in kept)


class Nested(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.last = inner, nn.Conv2d(4, 2, 3)

    def forward(self, x):
        return self.last(self.inner(x))


def test_an_optimised_part_asks_nothing(no_fallback):
    inner = transfuse.optimize(With(lambda up, x: up(x).relu()), (X,), never_slower=False)
    ours = transfuse.optimize(Nested(inner), never_slower=False)
    plain = Nested(inner)
    plain.last = ours.last
    for _ in range(2):
        same(gradients(ours), gradients(plain))
        with torch.no_grad():
            same([ours(X)], [plain(X)])
    assert sum(map(len, ours.__dict__["_transfuse"].captures.values())) == 1


def enabled(up, x):
    with torch.enable_grad():
        return up(x).tanh()


def leaf(up, x):
    return up(x).detach().requires_grad_() * 2


OWN = {
    "a reentrant checkpoint": lambda up, x: checkpoint(lambda z: up(z).tanh(), x, use_reentrant=True) * 2,
    "a checkpoint": lambda up, x: checkpoint(lambda z: up(z).tanh(), x, use_reentrant=False) * 2,
    "a leaf": leaf,
    "gradients switched on": enabled,
}


@pytest.mark.parametrize("what", OWN)
@pytest.mark.filterwarnings("ignore::transfuse.fallback.Warned")
def test_gradients_flow_as_in_pytorch(what):
    ours, plain = pair(With(OWN[what]))
    for _ in range(2):
        same(gradients(ours), gradients(plain))
        with torch.no_grad():
            same([ours(X)], [plain(X)])


def test_a_checkpoint_is_taken(no_fallback):
    ours, plain = pair(With(OWN["a checkpoint"]))
    same(gradients(ours), gradients(plain))
    assert transfuse.report(ours).taken > 0


# Tensors that are held twice, or reached by a function ----------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 4, 3, bias=False), nn.ConvTranspose2d(4, 3, 3, bias=False)
        self.up.weight = self.down.weight

    def forward(self, x):
        return self.up(self.down(x).relu())


def test_tied_weights_that_part_and_meet_again(no_fallback):
    ours, plain = pair(Tied())
    compiled = torch.compile(ours, backend="eager", fullgraph=True)
    for parted in (False, True, False, True):
        for model in (ours, plain):
            weight = model.down.weight
            model.up.weight = nn.Parameter(2 * weight.detach()) if parted else weight
        for call in (ours, compiled):
            same(gradients(call), gradients(plain))
        with torch.no_grad():
            same([ours(X)], [plain(X)])


def decoder():
    torch.manual_seed(0)
    return nn.Sequential(nn.ConvTranspose2d(3, 4, 3, 2), nn.BatchNorm2d(4), nn.LeakyReLU(0.1), nn.Conv2d(4, 2, 3))


def scaled(part, factor=2):
    forward = part.forward
    part.forward = lambda x: forward(x) * factor


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_forward_set_on_a_part(which, when, no_fallback):
    """As libraries do that wrap layers: what it calls is not the copy of the model that is traced."""
    model, plain = decoder(), decoder()
    scaled(plain[which])
    if when == "before":
        scaled(model[which])
        ours = transfuse.optimize(model, never_slower=False)
    else:
        ours = transfuse.optimize(model, (X,), never_slower=False)
        ours(X)
        plain[which].forward, wrapped = types.MethodType(type(plain[which]).forward, plain[which]), plain[which].forward
        plain(X)
        plain[which].forward = wrapped
        scaled(ours[which])
    for _ in range(2):
        same(gradients(ours), gradients(plain))
        same(ours.buffers(), plain.buffers())


def test_a_forward_set_on_the_model_later(no_fallback):
    ours, plain = transfuse.optimize(decoder(), (X,), never_slower=False), decoder()
    ours(X), plain(X)
    scaled(ours), scaled(plain)
    same(gradients(ours), gradients(plain))
    del ours.forward, plain.forward
    same(gradients(ours), gradients(plain))


def test_a_forward_set_on_the_model_before_is_named():
    model, plain = decoder(), decoder()
    scaled(model), scaled(plain)
    with pytest.warns(transfuse.fallback.Warned, match="forward\\(\\) was set on this Sequential"):
        ours = transfuse.optimize(model, (X,))
    same([ours(X)], [plain(X)])
    assert "was set on this Sequential" in str(transfuse.report(ours))
    with pytest.raises(RuntimeError, match="was set on this Sequential"):
        transfuse.optimize(model, require_full_compilation=True)


OUTSIDE = nn.ConvTranspose2d(4, 4, 3)


@pytest.mark.filterwarnings("ignore::transfuse.fallback.Warned")
def test_parameters_of_nobody_get_their_gradients():
    ours, plain = pair(With(lambda up, x: OUTSIDE(up(x))))
    found = []
    for model in (ours, plain):
        OUTSIDE.zero_grad()
        gradients(model)
        found.append([p.grad.clone() for p in OUTSIDE.parameters()])
    same(*found)


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, up, x):
        return up(x) * self.factor

    def method(self, up, x):
        return up(x) * self.factor


def leaky(slope, up, x):
    return F.leaky_relu(up(x), slope)


CALLABLES = {
    "partial": (functools.partial(leaky, 0.1), functools.partial(leaky, 0.9)),
    "object": (Scale(2.0), Scale(3.0)),
    "method": (Scale(2.0).method, Scale(3.0).method),
}


@pytest.mark.parametrize("kind", CALLABLES)
def test_callables_that_are_replaced(kind, no_fallback):
    first, second = CALLABLES[kind]
    ours, plain = pair(With(first))
    same([ours(X)], [plain(X)])
    ours.how = plain.how = second
    same([ours(X)], [plain(X)])
    if kind != "partial":
        held = second if kind == "object" else second.__self__
        held.factor = 5.0
        same([ours(X)], [plain(X)])
