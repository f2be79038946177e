"""Models that nothing here was written for: optimised and compiled, in training and eval, beside PyTorch."""

import copy

import pytest
import torch
import torch.utils._pytree as pytree
from torch import nn
from unseen import MODELS

import transfuse

TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4}


def call(model, inputs):
    """The structure of the result, which tensors require gradients, and every number that can be looked at afterwards."""
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    model.zero_grad(set_to_none=True)
    result = model(*inputs)
    outputs = pytree.tree_leaves(result)
    weighted = [
        (o * torch.linspace(-1, 1, o.numel(), dtype=o.dtype).view(o.shape)).sum() for o in outputs if o.requires_grad
    ]
    sum(weighted).backward()
    gradients = [t.grad if t.grad is not None else torch.zeros(()) for t in [*inputs, *model.parameters()]]
    flags = [(o.requires_grad, o.shape, o.dtype) for o in outputs]
    return pytree.tree_structure(result), flags, [o.detach() for o in outputs] + gradients + list(model.buffers())


def assert_same(ours, plain, inputs, dtype):
    for batch in (inputs, [torch.cat([t + 0.1, t[:1]]) for t in inputs]):
        structure, flags, found = call(ours, batch)
        expected_structure, expected_flags, expected = call(plain, batch)
        assert structure == expected_structure and flags == expected_flags
        for i, (a, b) in enumerate(zip(found, expected)):
            scale = max(1.0, b.double().abs().max().item())
            assert (a.double() - b.double()).abs().max().item() <= TOLERANCE[dtype] * scale, f"result {i}"


def made(kind, dtype, training):
    torch.manual_seed(0)
    model = kind().to(dtype).train(training)
    return model, [t.to(dtype) for t in kind.example()]


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("dtype", "training"), [(torch.float64, True), (torch.float32, False)], ids=["train", "eval"])
@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_optimize(kind, dtype, training, no_fallback):
    model, inputs = made(kind, dtype, training)
    plain, _ = made(kind, dtype, training)
    ours = transfuse.optimize(model, never_slower=False)
    assert_same(ours, plain, inputs, dtype)
    told = transfuse.report(ours)
    assert told.taken > 0 and not told.failures, str(told)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_compile(kind, no_fallback):
    torch._dynamo.reset()
    model, inputs = made(kind, torch.float64, True)
    plain, _ = made(kind, torch.float64, True)
    assert_same(
        torch.compile(model, backend="transfuse", options={"rest": "eager", "never_slower": False}),
        plain,
        inputs,
        torch.float64,
    )


class Switched(nn.Module):
    """What forward() does depends on plain attributes, keyword arguments and a tensor that is no buffer."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 3, 3, 2, 1, 1)
        self.alpha, self.rectified, self.factors = 0.3, True, [1.0, 2.0]
        self.shift = torch.rand(3, 1, 1)

    def forward(self, x, *, twice=False, extra=None):
        y = self.up(x) * self.alpha + self.shift
        if self.rectified:
            y = y.relu()
        for factor in self.factors:
            y = y * factor
        y = self.up(y) if twice else y
        return y if extra is None else y + extra


def test_attributes_are_read_at_every_call():
    model, x = Switched(), torch.rand(2, 3, 4, 4)
    ours = transfuse.optimize(model, (x,), never_slower=False)
    for change in (
        lambda m: None, lambda m: setattr(m, "alpha", 0.7), lambda m: setattr(m, "rectified", False), lambda m: m.factors.append(3.0),
        lambda m: setattr(m, "shift", torch.ones(3, 1, 1)), lambda m: setattr(m, "up", nn.ConvTranspose2d(3, 3, 5, 2, 2, 1)),
    ):  # fmt: skip
        change(ours), change(model)
        model.up, model.factors = ours.up, list(ours.factors)
        for keywords in ({}, {"twice": True}, {"extra": torch.ones(1)}):
            assert torch.allclose(ours(x, **keywords), model(x, **keywords), atol=1e-5)
    assert not transfuse.report(ours).failures


def test_traced_calls_take_the_graph_that_fits():
    model, x = Switched(), torch.rand(2, 3, 4, 4)
    ours = transfuse.optimize(model, (x,), never_slower=False)
    for keywords in ({}, {"twice": True}, {"extra": torch.ones(1)}):
        torch._dynamo.reset()
        assert torch.allclose(torch.compile(ours, backend="eager")(x, **keywords), model(x, **keywords), atol=1e-5)


def test_an_attribute_that_never_rests_is_left_to_pytorch():
    model, x = Switched(), torch.rand(1, 3, 2, 2)
    ours = transfuse.optimize(model, never_slower=False, dynamic=False)
    with pytest.warns(UserWarning, match="ever new values"):
        for step in range(12):
            ours.alpha = model.alpha = step / 12
            assert torch.allclose(ours(x), model(x), atol=1e-5)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.calls = nn.ConvTranspose1d(2, 2, 3), 0

    def forward(self, x):
        self.calls += 1
        return self.up(x)


def test_a_forward_that_changes_the_module_is_left_to_pytorch():
    ours, x = transfuse.optimize(Counting(), never_slower=False), torch.rand(1, 2, 4)
    with pytest.warns(UserWarning, match="changes attributes"):
        for _ in range(3):
            ours(x)
    assert ours.calls == 3


class Setting(nn.Module):
    """It sets a number to what it was set to before."""

    def __init__(self):
        super().__init__()
        self.up, self.rate = nn.ConvTranspose1d(2, 2, 3), 0.5

    def forward(self, x):
        self.rate = 0.0
        return self.up(x) * (1 + self.rate)


def test_a_forward_that_sets_what_was_set_is_captured():
    model = Setting()
    ours = transfuse.optimize(copy.deepcopy(model), never_slower=False)
    for size in (4, 4, 7, 7, 4, 4):
        x = torch.rand(1, 2, size)
        assert torch.allclose(ours(x), model(x), atol=1e-6)
        assert ours.rate == model.rate == 0.0
    report = transfuse.report(ours)
    assert len(report.graphs) == 1 and not report.failures
    ours.rate = model.rate = 0.5
    assert torch.allclose(ours(x), model(x), atol=1e-6) and ours.rate == 0.0


def test_what_a_forward_sets_and_never_reads_is_set():
    class Unread(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self._rate = nn.ConvTranspose1d(2, 2, 3), 0.0

        def forward(self, x):
            self._rate = 0.0
            return self.up(x)

    model, x = Unread(), torch.rand(1, 2, 4)
    ours = transfuse.optimize(model, (x,), never_slower=False)
    ours(x)
    ours._rate = 0.5
    ours(x)
    assert ours._rate == 0.0
    ours(x)
    report = transfuse.report(ours)
    assert len(report.graphs) == 1 and not report.failures


class Lazy(nn.Module):
    """What it computes once it keeps."""

    def __init__(self):
        super().__init__()
        self.up, self.grid = nn.ConvTranspose1d(2, 2, 3), None

    def forward(self, x):
        if self.grid is None or self.grid.shape[-1] != x.shape[-1]:
            self.grid = torch.linspace(-1, 1, x.shape[-1])
        return self.up(x * self.grid)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.filterwarnings("error::transfuse.fallback.Warned")
def test_what_the_first_call_keeps_is_captured_by_the_next(given):
    """Tables and caches that fill themselves, for one size or one after another."""
    plain, x = nn.Sequential(Lazy(), nn.ReLU()), torch.rand(1, 2, 4)
    for model in (plain, plain[0]):
        ours = transfuse.optimize(copy.deepcopy(model), (x,) if given else None, never_slower=False)
        for size in (4, 4, 7, 7, 7):
            y = torch.rand(1, 2, size)
            assert torch.allclose(ours(y), model(y), atol=1e-6)
        report = transfuse.report(ours)
        assert len(report.graphs) == 2 and not report.failures and report.left == 0


def test_why_nothing_is_captured_before_the_first_call_is_told():
    model, x = Lazy(), torch.rand(1, 2, 4)
    ours = transfuse.optimize(model, (x,), never_slower=False)
    assert "changes attributes" in str(transfuse.report(ours))
    with pytest.raises(RuntimeError, match="changes attributes"):
        transfuse.explain(Lazy(), (x,))
    ours(x), ours(x)
    assert not transfuse.report(ours).failures


def test_autocast_and_no_grad_inside_a_compiled_model():
    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(3, 3, 3, 2)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.up(x) * 2
            return y, self.up(y.float())

    torch._dynamo.reset()
    model, x = Inside(), torch.rand(2, 3, 4, 4)
    with pytest.warns(UserWarning, match="autocast is entered inside"):
        compiled = torch.compile(model, backend="transfuse", options={"rest": "eager"})(x)
    for a, b, c in zip(compiled, transfuse.optimize(copy.deepcopy(model), never_slower=False)(x), model(x)):
        assert a.dtype == b.dtype == c.dtype
        assert torch.allclose(a, c) and torch.allclose(b, c, atol=1e-2)
