"""Models of classes with habits of their own: registries, metaclasses, slots, comparisons."""

import abc
import copy
from typing import ClassVar

import pytest
import torch
from torch import nn

import transfuse

X = torch.randn(2, 3, 5, 6, generator=torch.Generator().manual_seed(1))
_registry: dict = {}


class Up(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 3)

    def forward(self, x):
        return self.up(x).relu()


class Registered(Up):
    def __init_subclass__(cls, *, key, **more):
        super().__init_subclass__(**more)
        if key in _registry:
            raise ValueError(f"{key} is taken")
        _registry[key] = cls


class Decoder(Registered, key="decoder"):
    pass


class Final(Up):
    def __init_subclass__(cls):
        raise TypeError("nobody derives from this")


class Once(type):
    made: ClassVar[list[str]] = []

    def __new__(kind, name, bases, body, **more):
        if name in kind.made:
            raise ValueError(f"{name} is made twice")
        kind.made.append(name)
        return super().__new__(kind, name, bases, body)


class MadeOnce(Up, metaclass=Once):
    pass


class Abstract(Up, metaclass=abc.ABCMeta):
    @abc.abstractmethod
    def name(self): ...


class Concrete(Abstract):
    def name(self):
        return "concrete"


class Slotted(Up):
    __slots__ = ("factor",)

    def __init__(self):
        super().__init__()
        object.__setattr__(self, "factor", 3.0)

    def forward(self, x):
        return self.up(x) * self.factor


@pytest.mark.parametrize("kind", [Decoder, Final, MadeOnce, Concrete], ids=lambda kind: kind.__name__)
def test_a_class_of_its_own_kind(kind, no_fallback):
    model = kind()
    registered = dict(_registry)
    ours = transfuse.optimize(model, (X,), never_slower=False)
    for batch in (X, X[:1]):
        assert torch.allclose(ours(batch), model(batch), atol=1e-5)
    assert isinstance(ours, kind) and type(ours).__name__ == kind.__name__
    assert _registry == registered


@pytest.mark.filterwarnings("ignore::transfuse.fallback.Warned")  # a copy of it lacks them, in PyTorch too
def test_what_lies_in_slots():
    model = Slotted()
    assert torch.allclose(transfuse.optimize(model)(X), model(X), atol=1e-5)


def test_parts_of_such_classes(no_fallback):
    model = nn.Sequential(Final(), nn.Tanh())
    ours = transfuse.optimize(model, (X,), never_slower=False)
    assert torch.allclose(ours(X), model(X), atol=1e-5)
    assert transfuse.report(ours).taken == 3


class Alike(Up):
    """Equal to every other one."""

    def __eq__(self, other):
        return isinstance(other, Alike)

    __hash__ = nn.Module.__hash__


def test_a_part_that_is_replaced_by_an_equal_one(no_fallback):
    model = nn.Sequential(Alike(), nn.ReLU())
    ours = transfuse.optimize(model, (X,), never_slower=False)
    ours(X)
    ours[0] = copy.deepcopy(model[0])
    with torch.no_grad():
        ours[0].up.weight.mul_(3)
    assert torch.allclose(ours(X), nn.Sequential(*ours.children())(X), atol=1e-5)
