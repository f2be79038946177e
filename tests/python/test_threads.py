"""One thread captures a model, others run theirs: what the one does the others do not see."""

import sys
import threading
import warnings

import pytest
import torch
from torch import nn

import transfuse

pytestmark = pytest.mark.versions


meanwhile = []


class Waiting(nn.Module):
    """Its forward, while it is captured, waits until another thread has done something."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 3)

    def forward(self, x):
        while meanwhile:
            thread = threading.Thread(target=meanwhile.pop())
            thread.start()
            thread.join()
        return self.up(x).relu()


def while_capturing(what):
    """The results of what() in another thread."""
    found = []
    meanwhile.append(lambda: found.append(what()))
    transfuse.optimize(Waiting(), (torch.randn(1, 3, 4, 5),), never_slower=False)
    return found


@pytest.mark.filterwarnings("ignore::transfuse.fallback.Warned")
def test_another_model_runs_as_ever(monkeypatch):
    other = transfuse.optimize(nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.Tanh()), never_slower=False)
    x = torch.randn(1, 3, 4, 5)
    expected = other(x)
    monkeypatch.setattr(
        sys.modules["transfuse.calls.dispatch"], "traced", lambda *_: pytest.fail("taken for a call that is traced")
    )
    (found,) = while_capturing(lambda: other(x))
    assert torch.equal(found, expected)


@pytest.mark.filterwarnings("ignore::transfuse.fallback.Warned")
def test_a_gradient_of_a_gradient():
    """Which our own backward does not give."""
    other = transfuse.optimize(nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.Tanh()), never_slower=False)
    x = torch.randn(1, 3, 4, 5, requires_grad=True)

    def twice():
        (first,) = torch.autograd.grad(other(x).sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    expected = twice()
    (found,) = while_capturing(twice)
    assert torch.allclose(found, expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore::transfuse.fallback.Warned")
def test_warnings_of_other_threads_are_heard():
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        while_capturing(lambda: warnings.warn("of another thread", UserWarning, stacklevel=1))
        warnings.warn("after it", UserWarning, stacklevel=1)
    said = [str(w.message) for w in heard]
    assert "of another thread" in said and "after it" in said


def test_every_model_is_warned_of():
    """Also one of the same class and with the same reason; each once."""

    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(3, 4, 3)

        def forward(self, x):
            y = self.up(x)
            return y if y.mean() > 0 else -y

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for _ in range(2):
            ours = transfuse.optimize(Branching())
            for size in (4, 5, 4):
                ours(torch.randn(1, 3, size, 5))
    assert len([w for w in heard if "could not be captured" in str(w.message)]) == 2


def test_a_failing_gradient_is_of_one_model(monkeypatch):
    """Models of equal text share a program, but neither what failed nor what may fail."""
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.Tanh())
    x = torch.randn(1, 3, 4, 5)
    strict, first, second = [
        transfuse.optimize(model, (x,), never_slower=False, require_full_compilation=full)
        for full in (True, False, False)
    ]
    with monkeypatch.context() as broken:
        broken.setattr(
            transfuse.native.library,
            "run_backward",
            lambda *_: (_ for _ in ()).throw(RuntimeError("no gradient for you")),
        )
        with pytest.warns(transfuse.fallback.Warned, match="no gradient for you"):
            first(x).sum().backward()
        with pytest.raises(RuntimeError, match="no gradient for you"):
            strict(x).sum().backward()
        assert "no gradient for you" in str(transfuse.report(first))
    assert "no gradient for you" not in str(transfuse.report(second))
    called = []
    run_backward = transfuse.native.library.run_backward
    monkeypatch.setattr(transfuse.native.library, "run_backward", lambda *a: called.append(1) or run_backward(*a))
    second(x).sum().backward()
    assert called
