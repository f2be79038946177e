"""What users' code does around a model: their arguments, their edits, their tools. Each beside PyTorch."""

import collections
import copy
import pickle
import random

import pytest
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
import zoo
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import transfuse

X = torch.randn(2, 3, 5, 6, generator=torch.Generator().manual_seed(1))


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.ConvTranspose2d(3, 4, 3, 2), nn.BatchNorm2d(4), nn.Tanh(), nn.Conv2d(4, 2, 3))


class With(nn.Module):
    """A layer, and what is done with it."""

    def __init__(self, forward):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 3, 2, padding=1)
        self.how = forward

    def forward(self, *args, **kwargs):
        return self.how(self.up, *args, **kwargs)


def beside(model, call, tolerance=1e-4):
    """The same of an optimised model and of a copy of the plain one."""
    plain = copy.deepcopy(model)
    ours = transfuse.optimize(model, never_slower=False)
    found, expected = pytree.tree_leaves(call(ours)), pytree.tree_leaves(call(plain))
    for a, b in zip(found, expected, strict=True):
        if isinstance(b, torch.Tensor):
            assert a.dtype == b.dtype and a.shape == b.shape
            assert torch.allclose(a, b, rtol=1e-3, atol=tolerance)
        else:
            assert a == b
    return ours


def gradients(module, x=X):
    module.zero_grad()
    x = x.clone().requires_grad_()
    module(x).square().sum().backward()
    return [x.grad, *[p.grad for p in module.parameters()]]


def raised(call):
    try:
        call()
    except Exception as error:
        return type(error), str(error).splitlines()[0][:60]
    return None


def captures(module):
    return sum(map(len, module.__dict__["_transfuse"].captures.values()))


Pair = collections.namedtuple("Pair", "a b")
MASK = torch.ones(2, 1, 5, 6)
FORWARDS = {
    "a named tuple": (lambda up, x: Pair(up(x).relu(), x * 2), lambda m: m(X)),
    "a dictionary with nothing in it": (lambda up, x: {"y": up(x), "n": None, "l": [x, 3]}, lambda m: m(X)),
    "a dictionary for an input": (lambda up, d: up(d["x"]) * d["k"], lambda m: m({"x": X, "k": 3.0})),
    "one result twice": (lambda up, x: (up(x), up(x)), lambda m: m(X)),
    "an optional mask": (
        lambda up, x, mask=None: up(x) if mask is None else up(x * mask),
        lambda m: [m(X), m(X, MASK), m(X, None), m(X, mask=0 * MASK)],
    ),
    "flags and numbers": (
        lambda up, x, *rest, scale=1.0, flag=False: up(x) * scale if flag else up(x).relu(),
        lambda m: [m(X), m(X, scale=2.0, flag=True), m(X, flag=True), m(X, 1, 2)],
    ),
    "a number of each kind": (lambda up, x, k: up(x) * k, lambda m: [m(X, k) for k in (2, 3, 2.5, torch.tensor(4.0))]),
    "a number of channels": (lambda up, x, k: up(x)[:, :k], lambda m: [m(X, k) for k in (1, 2, 3)]),
}


@pytest.mark.parametrize("name", FORWARDS)
def test_arguments_and_results(name, no_fallback):
    forward, call = FORWARDS[name]
    beside(With(forward), call)


def test_calls_that_pytorch_refuses():
    layer = nn.ConvTranspose2d(3, 4, 3, 2)
    ours = transfuse.optimize(layer, (X,), never_slower=False)
    for call in (
        lambda m: m(X[:, :2]), lambda m: m(X[0, 0]), lambda m: m(X.double()), lambda m: m(X.long()), lambda m: m(None),
        lambda m: m("x"), lambda m: m(X.to("meta")), lambda m: m(X, output_size=[40, 40]), lambda m: m(X, output_size=[1]),
    ):  # fmt: skip
        assert raised(lambda call=call: call(ours)) == raised(lambda call=call: call(layer))
    for call in (lambda m: m(), lambda m: m(X, X, X), lambda m: m(y=X), lambda m: m(X, foo=1)):
        assert raised(lambda call=call: call(ours))[0] is raised(lambda call=call: call(layer))[0] is TypeError
    for size in ([11, 13], [12, 14], (2, 4, 12, 13)):
        assert torch.allclose(ours(X, output_size=size), layer(X, output_size=size), atol=1e-5)


def test_two_inputs_that_do_not_fit_each_other(caplog):
    model = With(lambda up, x, skip: (up(x) + skip).relu())
    ours = transfuse.optimize(model, never_slower=False)
    fits = torch.randn(2, 4, 9, 11)
    for skip in (fits, fits[:1], fits[:, :, :1, :1], fits.to(memory_format=torch.channels_last)):
        assert torch.allclose(ours(X, skip), model(X, skip), atol=1e-5)
        assert torch.allclose(ours(skip=skip, x=X), model(X, skip), atol=1e-5)
    for skip in (fits[:, :, :3], torch.randn(5)):
        assert raised(lambda skip=skip: ours(X, skip)) == raised(lambda skip=skip: model(X, skip)) is not None
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_parameters_of_another_shape_layout_or_place(no_fallback):
    def replaced(m):
        found = [m(X), m(X)]
        bias, m[0].bias = m[0].bias, None
        found.append(m(X))
        m[0].bias = bias
        laid_out = torch.rand(3, 3, 3, 4, generator=torch.Generator().manual_seed(1)).permute(0, 3, 1, 2)
        for weight in (torch.ones(3, 4, 5, 2), laid_out, torch.ones(1, 4, 3, 3).expand(3, 4, 3, 3)):
            m[0].weight = nn.Parameter(weight)
            found.append(m(X))
        m[0].weight = nn.Parameter(torch.ones(5, 4, 3, 3))
        return [*found, raised(lambda: m(X))]

    torch.manual_seed(0)
    with torch.no_grad():
        beside(nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU()), replaced)


def test_numbers_that_are_none(no_fallback):
    x = X.clone()
    x[0, 0, 0, 0], x[1, 1, 2, 2] = float("nan"), float("inf")
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3, 2), nn.ReLU(), nn.MaxPool2d(2))
    beside(model, lambda m: [m(x).isnan().float(), m(x).nan_to_num(0, 9, -9)])


def test_no_batch_and_no_images(no_fallback):
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3, 2), nn.ReLU())
    beside(model, lambda m: [m(X[0]), m(X), m(X[:0]), gradients(m, X[:0]), gradients(m, X[0])])


def test_pads_to_the_size_of_a_skip_connection(no_fallback):
    class Skip(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up, self.out = nn.Conv2d(3, 4, 3, 2, 1), nn.ConvTranspose2d(4, 3, 2, 2), nn.Conv2d(6, 2, 3)

        def forward(self, x):
            y = self.up(self.down(x).relu())
            h, w = x.size(2) - y.size(2), x.size(3) - y.size(3)
            return self.out(torch.cat([x, F.pad(y, [w // 2, w - w // 2, h // 2, h - h // 2])], 1))

    sizes = ((2, 3, 8, 8), (2, 3, 9, 7), (4, 3, 7, 10), (4, 3, 13, 13), (2, 3, 5, 6))
    inputs = [torch.randn(size, generator=torch.Generator().manual_seed(2)) for size in sizes]
    ours = beside(Skip(), lambda m: [[m(x), gradients(m, x)] for x in inputs], 1e-2)
    assert captures(ours) == 1


def test_pads_on_every_level_of_a_decoder(no_fallback):
    """More numbers that only the call tells than there are digits."""

    class Levels(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.ModuleList(nn.Conv2d(c, 4, 3, 2, 1) for c in (3, 4, 4))
            self.up = nn.ModuleList(nn.ConvTranspose2d(4, 4, 2, 2) for _ in range(3))
            self.out = nn.Conv2d(4, 2, 1)

        def forward(self, x):
            skips = []
            for down in self.down:
                skips.append(x)
                x = down(x).relu()
            for up, skip in zip(self.up, reversed(skips)):
                x = up(x)
                h, w = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
                x = F.pad(x, [w // 2, w - w // 2, h // 2, h - h // 2]) + skip.mean(1, keepdim=True)
            return self.out(x)

    inputs = [torch.randn(size) for size in ((2, 3, 21, 30), (2, 3, 22, 31), (3, 3, 17, 40), (2, 3, 33, 24))]
    ours = beside(Levels(), lambda m: [[m(x), gradients(m, x)] for x in inputs], 1e-2)
    assert captures(ours) == 1 and transfuse.report(ours).left == 0


@pytest.mark.parametrize("name", ["A", "f1", "f5", "f3", "f9"])
def test_random_sizes(name, no_fallback):
    """Sizes, batches and layouts in any order, some of them again: what was planned for one serves no other."""
    model, inputs = zoo.model(name)
    model.eval()
    ours = transfuse.optimize(model, tuple(inputs), never_slower=False)
    draw, (x,) = random.Random(3), inputs
    with torch.no_grad():
        for _ in range(24):
            shape = [draw.choice((1, 2, 5)), x.shape[1], *[draw.randint(3, 8) for _ in x.shape[2:]]]
            y = torch.randn(shape)
            if x.dim() == 4 and draw.random() < 0.4:
                y = y.to(memory_format=torch.channels_last)
            if draw.random() < 0.3:
                y = torch.cat([y, y], 2)[:, :, : shape[2]]
            found, expected = ours(y), model.double()(y.double())
            model.float()
            assert found.shape == expected.shape and torch.allclose(found.double(), expected, rtol=1e-3, atol=1e-4), (
                shape
            )


def test_edits_of_an_optimised_model(no_fallback):
    def edit(m):
        found = [m.eval()(X)]
        m.append(nn.Sigmoid())
        found.append(m(X))
        m[2] = nn.Softplus()
        found.append(m(X))
        del m[4]
        with torch.no_grad():
            m[0].weight.mul_(0.5)
        found.append(m(X))
        m[0].weight.data = m[0].weight.data * 3
        found.append(m(X))
        m.double()
        found.append(m(X.double()))
        m.float().load_state_dict({k: v.clone() for k, v in net().state_dict().items()}, assign=True)
        found += [m(X), m.requires_grad_(False)(X).requires_grad]
        return found

    beside(net(), edit)


def test_partly_frozen_shared_and_called_twice(no_fallback):
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.ConvTranspose2d(3, 3, 3, padding=1), nn.ConvTranspose2d(3, 3, 3, padding=1)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.a(self.b(self.a(x).tanh())) + self.b(x)

    def twice(m):
        m.zero_grad()
        (m(X).sum() + m(X[..., 1:]).square().sum()).backward()
        return [p.grad for p in m.parameters()]

    frozen = net()
    frozen[0].requires_grad_(False)
    beside(frozen, lambda m: [gradients(m), sum(p.grad is None for p in m.parameters())], 1e-2)
    beside(Shared(), gradients, 1e-2)
    beside(net(), lambda m: [twice(m), list(m.buffers())], 1e-2)


def test_results_and_inputs_changed_in_place():
    def on_result(m):
        x = X.clone().requires_grad_()
        y = m(x)
        y.mul_(2).add_(1)
        y.square().sum().backward()
        return [y.detach(), x.grad]

    def on_input(m):
        x = X.clone()
        y = m(x).sum()
        x.add_(1)
        return raised(y.backward)

    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.Softplus(), nn.Conv2d(4, 2, 1))
    beside(model, on_result, 1e-3)
    ours, plain = transfuse.optimize(copy.deepcopy(model), never_slower=False), model
    assert on_input(ours) == on_input(plain) is not None


def test_random_numbers_and_buffers_of_the_model():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(3, 4, 3)
            self.register_buffer("calls", torch.zeros(()))
            self.register_buffer("average", torch.zeros(4))

        def forward(self, x):
            y = F.dropout(self.up(x + torch.randn_like(x)), 0.3, self.training)
            self.calls += 1
            self.average.lerp_(y.detach().mean((0, 2, 3)), 0.1)
            return y / self.calls

    def call(m):
        torch.manual_seed(5)
        return [m(X), m(X), m.calls, m.average, torch.rand(3)]

    beside(Counting(), call)


def test_tensors_of_inference_mode():
    with torch.inference_mode():
        inside = X.clone()

    def call(m):
        with torch.no_grad():
            result = m(inside)
        return [result, raised(lambda: m(inside).sum().backward()), gradients(m)]

    beside(net().eval(), call, 1e-2)


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class PassingFunctions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class Own(torch.Tensor):
    """A tensor class of the user's."""


def test_modes_subclasses_and_the_profiler(no_fallback):
    model = net().eval()
    ours = transfuse.optimize(model, (X,), never_slower=False)
    expected = model(X)
    for mode in (Passing(), PassingFunctions()):
        with mode:
            assert torch.allclose(ours(X), expected, atol=1e-5)
    assert type(ours(X.as_subclass(Own))) is type(model(X.as_subclass(Own)))
    assert torch.allclose(ours(nn.Parameter(X)), expected, atol=1e-5)
    with FakeTensorMode(allow_non_fake_inputs=True) as fakes:
        x = fakes.from_tensor(X)
        assert ours(x).shape == model(x).shape and type(ours(x)) is type(model(x))
    with torch.profiler.profile() as profile:
        ours(X)
    assert any("transfuse" in event.key for event in profile.key_averages())


@pytest.mark.parametrize("kind", ["exported", "traced"])
def test_graph_modules(kind):
    """Of torch.fx and torch.export: each has a class of its own, its own way to be copied, and writes its forward anew."""
    plain = net().eval()
    module = torch.export.export(plain, (X,)).module() if kind == "exported" else torch.fx.symbolic_trace(plain)
    ours = transfuse.optimize(module, (X,), never_slower=False)
    taken = transfuse.report(ours)
    assert "4 operators taken, 0 left" in str(taken)
    with torch.no_grad():
        for _ in range(3):
            assert torch.allclose(ours(X), plain(X), atol=1e-5)
    copied = copy.deepcopy(ours)
    assert type(module).__mro__[1] in type(copied).__mro__ and str(transfuse.report(copied)) != str(taken)
    assert torch.allclose(copied(X), plain(X), atol=1e-5) and "4 operators taken" in str(transfuse.report(copied))
    if kind == "exported":  # PyTorch itself cannot pickle these
        return
    loaded = pickle.loads(pickle.dumps(ours))
    assert torch.allclose(loaded(X), plain(X), atol=1e-5) and "4 operators taken" in str(transfuse.report(loaded))
    (tanh,) = ours.graph.find_nodes(op="call_module", target="2")
    tanh.replace_all_uses_with(tanh.args[0])
    ours.graph.erase_node(tanh)
    ours.recompile()
    assert torch.allclose(ours(X), plain[3](plain[1](plain[0](X))), atol=1e-5)
    assert "3 operators taken, 0 left" in str(transfuse.report(ours))
