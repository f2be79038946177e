"""What is captured again and again has an end: numbers, sizes, failures, and time."""

import pytest
import torch
from torch import nn

import transfuse
from transfuse.calls import dispatch

pytestmark = [pytest.mark.versions, pytest.mark.filterwarnings("ignore::transfuse.fallback.Warned")]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 3)

    def forward(self, x, factor):
        return self.up(x) * factor


def captures(ours):
    return sum(map(len, ours.__dict__["_transfuse"].captures.values()))


def test_ever_new_numbers_are_not_captured_without_end():
    model = Scaled()
    ours = transfuse.optimize(model, never_slower=False)
    x = torch.randn(1, 3, 4, 5)
    for i in range(2 * dispatch.MOST_VALUES):
        for _ in range(2):
            assert torch.allclose(ours(x, 0.5 + i), model(x, 0.5 + i), atol=1e-5)
    assert captures(ours) == dispatch.MOST_VALUES
    assert "ever new values" in str(transfuse.report(ours))
    assert torch.allclose(ours(x, torch.tensor(3.0)), model(x, 3.0), atol=1e-5)  # a tensor is one graph
    assert captures(ours) == dispatch.MOST_VALUES + 1


def counting(monkeypatch):
    tried = []
    capture = dispatch.capture
    monkeypatch.setattr(dispatch, "capture", lambda *a: tried.append(1) or capture(*a))
    return tried


class Unlucky(nn.Module):
    """It cannot be captured, of whatever size its input is."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 3)

    def forward(self, x):
        return torch.as_tensor(self.up(x).detach().numpy()) * 2


def test_a_capture_that_fails_is_not_tried_for_every_size(monkeypatch):
    tried, model = counting(monkeypatch), Unlucky()
    ours = transfuse.optimize(model)
    for size in range(3, 13):
        x = torch.randn(1, 3, size, 5)
        assert torch.allclose(ours(x), model(x), atol=1e-5)
    assert len(tried) <= 2 * dispatch.MOST_FAILED + 1  # and its part, once


def test_sizes_that_are_graphs_of_their_own_are_not_captured_without_end():
    class Sized(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose1d(3, 4, 3)

        def forward(self, x):
            return self.up(x) * int(x.shape[2])

    model = Sized()
    ours = transfuse.optimize(model, never_slower=False, dynamic=False)
    for size in range(3, 3 + dispatch.MOST_SIZES + 4):
        x = torch.randn(1, 3, size)
        assert torch.allclose(ours(x), model(x), atol=1e-4)
    assert captures(ours) == dispatch.MOST_SIZES
    assert "each size of its inputs" in str(transfuse.report(ours))


def test_a_capture_that_takes_too_long_is_left(monkeypatch):
    monkeypatch.setattr("transfuse.capture.questions.SECONDS", -1.0)
    model, tried = Scaled(), counting(monkeypatch)
    ours = transfuse.optimize(model)
    for size in range(3, 8):
        x = torch.randn(1, 3, size, 5)
        assert torch.equal(ours(x, 2.0), model(x, 2.0))
    assert "not captured within" in str(transfuse.report(ours))
    assert len(tried) == 3  # the whole twice, its part with sizes fixed


def test_what_is_computed_once_for_each_size_is_captured():
    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self._grids = nn.ConvTranspose2d(3, 4, 3), {}

        def forward(self, x):
            if x.shape not in self._grids:
                self._grids[x.shape] = torch.rand(x.shape)
            return self.up(x + self._grids[x.shape])

    model = Cached().eval()
    ours = transfuse.optimize(model, never_slower=False, dynamic=False)
    images = [torch.randn(1, 3, size, 5) for size in (4, 5, 6)]
    for _ in range(2):
        for x in images:
            assert torch.allclose(ours(x), model(x), atol=1e-5)
    assert captures(ours) == 3


@pytest.mark.parametrize("times", [2, 2 * dispatch.MOST_FAILURES])
def test_what_was_captured_in_eval_is_used_though_training_cannot_be_captured(monkeypatch, times):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self._calls = nn.ConvTranspose2d(3, 4, 3), 0

        def forward(self, x):
            if self.training:
                self._calls += 1
            return self.up(x).relu()

    model, tried = Counting().eval(), counting(monkeypatch)
    ours = transfuse.optimize(model, never_slower=False)
    images = [torch.randn(1, 3, size, 5) for size in range(3, 3 + times)]
    ours(images[0])
    ours.train()
    for x in images:
        assert torch.allclose(ours(x), model(x), atol=1e-5)
    ours.eval()
    before = len(tried)
    assert "changes attributes" in str(transfuse.report(ours)) or times == 2
    for x in images:
        assert torch.allclose(ours(x), model(x), atol=1e-5)
    recall = ours.__dict__["_transfuse"].recall
    assert len(tried) == before and all(recall.find((x,)) not in (None, recall.meet) for x in images)


def test_ever_new_tensors_are_not_captured_without_end():
    class Conditioned(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.condition = nn.ConvTranspose2d(3, 4, 3), torch.zeros(1)

        def forward(self, x):
            return self.up(x) * self.condition

    model = Conditioned()
    ours = transfuse.optimize(model, never_slower=False)
    x = torch.randn(1, 3, 4, 5)
    for i in range(2 * dispatch.MOST_VALUES):
        ours.condition = model.condition = torch.full((1,), 0.5 + i)
        for _ in range(2):
            assert torch.allclose(ours(x), model(x), atol=1e-5)
    assert captures(ours) == dispatch.MOST_VALUES
    assert "are ever new ones" in str(transfuse.report(ours))


def test_a_number_in_whose_place_a_list_is_put():
    class Noting(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.sizes = nn.ConvTranspose2d(3, 4, 3), None

        def forward(self, x):
            if self.sizes is None:
                self.sizes = [torch.zeros(1)]
            return self.up(x)

    model, x = Noting(), torch.randn(1, 3, 4, 5)
    ours = transfuse.optimize(model, (x,))
    for _ in range(3):
        assert torch.allclose(ours(x), model.up(x), atol=1e-6)
