"""Variables beside a module that its forward() reads, and attributes that become something else: each call sees them as they are."""

import copy

import pytest
import torch
from torch import nn

import transfuse
from transfuse import fallback

pytestmark = pytest.mark.versions

X = torch.randn(2, 3, 5, 6, generator=torch.Generator().manual_seed(1))
FACTOR = 2.0
SCALES = torch.ones(4, 1, 1)
CALLS = 0


def scaled(y):
    return y * FACTOR


class Up(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 3)
        self.how = how

    def forward(self, x):
        return self.how(self.up(x))


class Reading(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 3)

    def helped(self, y):
        return next(part * FACTOR for part in (y, -y)) if SCALES is None else y * SCALES * FACTOR

    def forward(self, x):
        return self.helped(self.up(x))


def in_a_closure():
    factor = 2.0

    def change(value):
        nonlocal factor
        factor = value

    return Up(lambda y: y * factor), change


def set_factor(value):
    global FACTOR
    FACTOR = value


def set_scales(value):
    global SCALES
    SCALES = torch.full((4, 1, 1), value)


def no_scales(value):
    global SCALES
    SCALES = None
    set_factor(value)


def named(y):
    return doubled(y)


def doubled(y):
    return y * 2


def replace(value):
    global doubled

    def doubled(y):
        return y * value


CASES = {
    "a function that another takes the place of": lambda: (Up(named), replace),
    "a function's global number": lambda: (Up(scaled), set_factor),
    "a method's global number": lambda: (Reading(), set_factor),
    "a method's global tensor": lambda: (Reading(), set_scales),
    "a tensor that becomes nothing": lambda: (Reading(), no_scales),
    "a closure's number": in_a_closure,
    "a part's": lambda: (nn.Sequential(Up(scaled), nn.Tanh()), set_factor),
}


@pytest.fixture(autouse=True)
def as_it_was():
    global FACTOR, SCALES
    FACTOR, SCALES = 2.0, torch.ones(4, 1, 1)
    yield
    FACTOR, SCALES = 2.0, torch.ones(4, 1, 1)


@pytest.mark.parametrize("case", CASES)
def test_variables_that_change(case, no_fallback):
    model, change = CASES[case]()
    plain = copy.deepcopy(model)
    ours = transfuse.optimize(model, (X,), never_slower=False)
    for value in (None, 3.0, 5.0, 3.0):
        if value is not None:
            change(value)
        for _ in range(2):
            assert torch.allclose(ours(X), plain(X), atol=1e-5)


@pytest.mark.parametrize("case", ["a method's global number", "a closure's number", "a method's global tensor"])
def test_variables_that_change_under_compile(case, no_fallback):
    """torch.compile around the optimised module looks at them, or at the forward() that reads them."""
    model, change = CASES[case]()
    ours = transfuse.optimize(model, (X,), never_slower=False)
    torch._dynamo.reset()
    compiled = torch.compile(ours, backend="eager", fullgraph=True)
    for value in (2.0, 3.0):
        change(value)
        assert torch.allclose(compiled(X), model(X), atol=1e-5)


def test_a_variable_that_rests_costs_no_capture(no_fallback):
    ours = transfuse.optimize(Reading(), (X,), never_slower=False)
    SCALES.mul_(2)  # the same tensor, read at every call
    for batch in (X, torch.cat([X, X])):
        assert torch.allclose(ours(batch), ours.up(batch) * 4, atol=1e-5)
    assert sum(map(len, ours.__dict__["_transfuse"].captures.values())) == 1


def test_a_function_of_pytorch_that_is_replaced(no_fallback, monkeypatch):
    """As those who count do: PyTorch runs the model as long as somebody's own stands there."""
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU())
    ours = transfuse.optimize(model, (X,), never_slower=False)
    plain, relu = model(X), nn.functional.relu
    fallback._said.clear()
    with monkeypatch.context() as patches:
        patches.setattr(nn.functional, "relu", lambda x, inplace=False: 3 * relu(x, inplace))
        with pytest.warns(fallback.Warned, match="torch.nn.functional.relu has been replaced"):
            for _ in range(2):
                assert torch.allclose(ours(X), 3 * plain, atol=1e-5)
    assert torch.allclose(ours(X), plain, atol=1e-5)
    assert sum(map(len, ours.__dict__["_transfuse"].captures.values())) == 1


def counting(y):
    global CALLS
    CALLS += 1
    return y * 2


def test_a_forward_that_counts_its_calls_counts_all():
    global CALLS
    ours = transfuse.optimize(Up(counting), never_slower=False)
    CALLS = 0
    with pytest.warns(fallback.Warned, match="changes"):
        for _ in range(3):
            ours(X)
    assert CALLS >= 3


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 3)
        self.alpha = 2.0

    def forward(self, x):
        return self.up(x) * self.alpha


def test_an_attribute_that_becomes_something_else(no_fallback):
    ours = transfuse.optimize(Scaled(), (X,), never_slower=False)
    plain = Scaled()
    plain.load_state_dict(ours.state_dict())

    def same():
        for _ in range(2):
            assert torch.allclose(ours(X), plain(X), atol=1e-5)

    same()
    for value in (torch.full((4, 1, 1), 3.0), 4, True):
        ours.alpha = plain.alpha = value
        same()
    for model in (ours, plain):
        del model.alpha
        model.register_buffer("alpha", torch.full((4, 1, 1), 5.0))
    same()
    for model in (ours, plain):
        del model.alpha
        model.alpha = nn.Parameter(torch.full((4, 1, 1), 6.0))
    same()


class Classy(nn.Module):
    shift = 1.0

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 3)

    @classmethod
    def shifted(cls, y):
        return y + cls.shift

    @staticmethod
    def folded(y):
        return FACTOR * y.relu()

    @property
    def gain(self):
        return 2.0

    def forward(self, x):
        return self.shifted(self.folded(self.up(x))) * self.gain


def test_what_a_class_holds(no_fallback, monkeypatch):
    """Numbers that its methods read of it, and methods of every kind."""
    model = Classy()
    ours = transfuse.optimize(model, (X,), never_slower=False)
    results = [ours(X)]
    for name, value in (
        ("shift", 3.0),
        ("folded", staticmethod(lambda y: y.tanh())),
        ("shifted", classmethod(lambda cls, y: y - cls.shift)),
        ("gain", property(lambda self: 5.0)),
        ("shift", 7.0),
    ):
        monkeypatch.setattr(Classy, name, value)
        results.append(ours(X))
        assert torch.allclose(results[-1], model(X), atol=1e-5), name
        assert not torch.equal(*results[-2:]), name


def test_a_number_that_a_static_method_reads(no_fallback, monkeypatch):
    model = Classy()
    ours = transfuse.optimize(model, (X,), never_slower=False)
    ours(X)
    monkeypatch.setitem(globals(), "FACTOR", 9.0)
    assert torch.allclose(ours(X), model(X), atol=1e-5)
