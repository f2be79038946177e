"""A call like an earlier one is recalled, not captured again, unless something changed that forward() reads."""

import itertools
import logging
import types

import pytest
import torch
from decoder import optimized, same
from torch import nn

import transfuse
from transfuse.capture import guards
from transfuse.run import region


def test_dispatch_needs_no_recapture(pair):
    _, ours, x = pair
    ours.eval()
    state = ours.__dict__["_transfuse"]
    with torch.no_grad():
        ours(x)
        captures = sum(map(len, state.captures.values()))
        for size in range(4, 14):
            ours(torch.randn(2, 3, size, size + 1))
            ours(torch.randn(size, 3, 4, size + 1))
    assert sum(map(len, state.captures.values())) == captures


class Watched(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.alpha, self.factors = 0.5, [1.0, 2.0]
        self._gain, self.options = 1.0, {"shift": 0.0, "unread": {}}
        self.config = types.SimpleNamespace(scale=1.0)
        self._unread = 0

    def forward(self, x):
        y = self.norm(self.up(x)) * self.alpha * self.factors[1]
        return y * self._gain * self.config.scale + self.options["shift"]


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 3)
        self.count, self._private, self.listed, self.options = 1, 1, [1, 1], {"one": 1}

    def forward(self, x):
        numbers = self.count, self._private, self.listed[0], self.options["one"], ONE
        return self.up(x), [torch.full((2,), number) for number in numbers]


ONE = 1


def test_equal_numbers_of_other_types_are_others(no_fallback):
    model, x = Counted(), torch.randn(1, 3, 4, 4)
    ours = optimized(model)
    changes = [
        lambda m: setattr(m, "count", 1.0),
        lambda m: setattr(m, "_private", True),
        lambda m: m.listed.__setitem__(0, 1.0),
        lambda m: m.options.update(one=1.0),
        lambda m: globals().update(ONE=1.0),
    ]
    kinds = set()
    for change in (lambda m: None, *changes, lambda m: setattr(m, "count", 1)):
        for module in (ours, model):
            change(module)
        expected = tuple([t.dtype for t in model(x)[1]])
        kinds.add(expected)
        assert tuple([t.dtype for t in ours(x)[1]]) == expected
    assert len(kinds) == 7


CHANGES = {
    "a number": lambda m: setattr(m, "alpha", 0.25),
    "an element of a list": lambda m: m.factors.__setitem__(1, 3.0),
    "a new attribute": lambda m: setattr(m, "beta", 1),
    "a private number that is read": lambda m: setattr(m, "_gain", 2.0),
    "an entry of a dictionary": lambda m: m.options.update(shift=1.0),
    "a field of a configuration": lambda m: setattr(m.config, "scale", 2.0),
    "another configuration": lambda m: setattr(m, "config", types.SimpleNamespace(scale=1.0)),
    "training of a part": lambda m: m.norm.train(),
    "another part": lambda m: setattr(m, "up", nn.ConvTranspose2d(3, 4, 3)),
    "a part more": lambda m: m.norm.add_module("more", nn.ReLU()),
    "a parameter gone": lambda m: setattr(m.up, "bias", None),
    "a buffer gone": lambda m: delattr(m.norm, "running_mean"),
    "a parameter in its place": lambda m: (
        delattr(m.norm, "weight"),
        m.norm.register_parameter("scale", nn.Parameter(torch.ones(4))),
    ),
    "another dtype": lambda m: m.double(),
    "another dtype of one buffer": lambda m: setattr(m.norm, "running_mean", m.norm.running_mean.double()),
    "a hook of a part": lambda m: m.up.register_forward_hook(lambda *_: None),
    "an option of a part": lambda m: setattr(m.up, "stride", (2, 2)),
    "another class of a part": lambda m: setattr(m.up, "__class__", Doubled),
    "a forward of a part's own": lambda m: setattr(m.up, "forward", types.MethodType(Doubled.forward, m.up)),
}


class Doubled(nn.ConvTranspose2d):
    def forward(self, x):
        return 2 * nn.ConvTranspose2d.forward(self, x)


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 3)

    def forward(self, x):
        return self.up(x)


def test_other_classes_and_forwards_are_seen(no_fallback, monkeypatch):
    model = nn.Sequential(Plain(), nn.ReLU())
    ours, x = optimized(model), torch.randn(1, 3, 5, 5)
    part, results = model[0], [ours(x)]

    def check():
        results.append(ours(x))
        same(results[-1], model(x))
        assert not torch.equal(results[-1], results[-2])

    part.up.__class__ = Doubled
    check()
    part.up.__class__ = nn.ConvTranspose2d
    check()
    for factor in (2, 3):  # the second is set where the first was

        def scaled(self, x, factor=factor):
            return self.up(x) * factor

        part.forward = types.MethodType(scaled, part)
        check()
    del part.forward
    check()
    monkeypatch.setattr(Plain, "forward", scaled)
    check()
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, x: x + 1)
    check()


@pytest.mark.parametrize("change", CHANGES)
def test_the_guard_of_repeated_calls_sees(change):
    ours, x = optimized(Watched().eval()), torch.randn(1, 3, 5, 5)
    ours(x)
    recall = ours.__dict__["_transfuse"].recall
    assert recall.find((x,)) is not recall.meet and recall.find(([],)) is None
    assert recall.find((x.double(),)) is recall.find((x, x)) is recall.meet
    ours.up.weight.data.add_(1)  # other values are the same call
    ours._unread += 1  # and what forward() does not read does not matter
    assert recall.find((x,))
    CHANGES[change](ours)
    assert not recall.find((x,))


def test_what_forward_reads_is_honoured(no_fallback):
    """Private numbers, dictionaries, configurations and tensors in lists, changed between calls."""

    class Reading(Watched):
        def __init__(self):
            super().__init__()
            self.offsets = [torch.zeros(4, 1, 1)]

        def forward(self, x):
            return super().forward(x) + self.offsets[0]

    model = Reading().eval()
    ours, x = optimized(model), torch.randn(1, 3, 5, 5)
    for change in (
        lambda m: setattr(m, "_gain", 3.0),
        lambda m: m.options.update(shift=2.0),
        lambda m: setattr(m.config, "scale", 0.5),
        lambda m: m.offsets[0].add_(1),
        lambda m: m.offsets.__setitem__(0, torch.full((4, 1, 1), 5.0)),
    ):
        same(ours(x), model(x))
        change(model)
        ours._gain = model._gain
    same(ours(x), model(x))


class Lengths(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.scale = nn.ConvTranspose2d(3, 4, 3), nn.Parameter(torch.rand(4, 1, 1))

    def forward(self, x):
        return self.up(x) * self.scale.sum() * len(self.scale)


def test_a_parameter_of_another_length_is_seen(no_fallback):
    model = Lengths()
    ours = optimized(model)
    with torch.no_grad():
        for length in (4, 2, 2, 4, 7):
            x, values = torch.randn(2, 3, 5, 4), torch.rand(length, 1, 1)
            for net in (model, ours):
                net.scale = nn.Parameter(values)
            same(ours(x), model(x))
            for net in (model, ours):
                net.scale.data = torch.cat([values, values])
            same(ours(x), model(x))


def test_loggers_recurrent_layers_and_own_calls(no_fallback):
    """What changes of itself while forward() runs is no change of the model's; what a __call__ adds is added once."""

    class Logging(nn.Module):
        def __init__(self):
            super().__init__()
            self.log, self.steps = logging.getLogger("transfuse.test"), []
            self.gru, self.up = nn.GRU(4, 4, batch_first=True), nn.ConvTranspose1d(4, 2, 4, stride=2)

        def __call__(self, x):
            return super().__call__(x) + 1

        def forward(self, x):
            self.log.debug("%s", x.shape)
            return self.up(self.gru(x)[0].transpose(1, 2))

    model = Logging()
    ours = optimized(model)
    for length in (5, 7, 5):
        x = torch.randn(2, length, 4)
        same(ours(x), model(x))
    assert transfuse.report(ours).taken


@pytest.mark.filterwarnings("ignore::transfuse.fallback.Warned")
def test_what_forward_stores_is_stored():
    class Storing(nn.Module):
        def __init__(self, private):
            super().__init__()
            self.up, self.private = nn.ConvTranspose2d(3, 4, 3), private
            self.seen, self._last = {}, torch.zeros(())

        def forward(self, x):
            y = self.up(x)
            if self.private:
                self._last = y
            else:
                self.seen["y"] = y
            return y.relu()

    for private in (True, False):
        ours = optimized(Storing(private))
        for _ in range(2):
            x = torch.randn(1, 3, 4, 4)
            y = ours(x)
            stored = ours._last if private else ours.seen["y"]
            same(stored, ours.up(x))
            same(y, stored.relu())


def test_the_guard_of_repeated_calls_sees_autocast_and_transforms():
    ours, x = optimized(Watched().eval()), torch.randn(1, 3, 5, 5)
    ours(x)
    recall = ours.__dict__["_transfuse"].recall
    with torch.autocast("cpu", torch.bfloat16):
        assert not recall.find((x,))
        assert ours(x).dtype == Watched().eval()(x).dtype
        inside = ours.__dict__["_transfuse"].recall
        assert inside is not recall and inside.find((x,))
    assert recall.find((x,)) and not inside.find((x,))
    torch.vmap(lambda v: (recall.find((x,)) and pytest.fail("vmap is not seen")) or v)(x)


def test_train_and_eval_take_turns_without_new_guards():
    ours, x = optimized(Watched()), torch.randn(1, 3, 5, 5)
    calls = []
    for training in (True, False, True, False):
        ours.train(training)(x)
        calls.append(ours.__dict__["_transfuse"].recall.find((x,)))
    assert len(ours.__dict__["_transfuse"].recalls) == 2
    assert calls[0] is calls[2] and calls[1] is calls[3]


def test_a_new_size_does_not_describe_the_module_again(pair, monkeypatch):
    _, ours, x = pair
    ours.eval()
    with torch.no_grad():
        ours(x)
        monkeypatch.setattr(guards.Watch, "state", None)
        plain = [torch.randn(2, 3, size, size + 1) for size in range(4, 9)]
        results = [ours(y) for y in plain]
        monkeypatch.undo()
        for y, result in zip(plain, results):
            same(result, pair[0].eval()(y))


def test_sizes_near_a_measured_one_are_not_measured(monkeypatch):
    met = []

    def measure(self, leaves, sizes, mode, grad, compiled=None):
        met.append(leaves[self.inputs[0]].numel())
        return region.Choice(1.0, 2.0)

    monkeypatch.setattr(region.Region, "measure", measure)
    ours = transfuse.optimize(nn.ConvTranspose1d(1, 2, 3), never_slower=True)
    lengths = [10]
    while lengths[-1] < 1000:
        lengths.append(int(1.7 * lengths[-1]))
    with torch.no_grad():
        for length in lengths + lengths:
            ours(torch.randn(1, 1, length))
    assert 1 < len(met) < len(lengths)
    for length in lengths:
        assert any(other <= 2 * length and length <= 2 * other for other in met)
    assert all(b > 2 * a for a, b in itertools.pairwise(met))
