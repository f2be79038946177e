"""gradcheck in float64 on every family of operators, and what autograd expects of a custom operator."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import transfuse
from transfuse.bench.peers import ramp
from transfuse.native import library

pytestmark = pytest.mark.versions


class Chain(nn.Module):
    """A transposed convolution and something after (or before) it."""

    def __init__(self, function, rank=2, before=None, bias=True, **conv):
        super().__init__()
        layer = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}[rank]
        self.conv = layer(2, 4, conv.pop("kernel", 3), bias=bias, **conv)
        self.scale = nn.Parameter(torch.rand(4, *[1] * rank) + 0.5)
        self.function, self.before = function, before

    def forward(self, x):
        x = x if self.before is None else self.before(x)
        return self.function(self.conv(x), self.scale)


FAMILIES = {
    "plain": lambda y, s: y,
    "scale": lambda y, s: y * s + 1.5,
    "mean": lambda y, s: y.mean((2, 3)) * s.flatten(),
    "mean_of_depth": lambda y, s: y.mean(2, keepdim=True),
    "sum_all": lambda y, s: (y * s).sum(),
    "logsumexp": lambda y, s: torch.logsumexp(y.mean((2, 3), keepdim=True) + s, 1),
    "softmax": lambda y, s: torch.softmax(y, 1) * s,
    "log_softmax": lambda y, s: F.log_softmax(y * s, 1),
    "amax": lambda y, s: (y * s).amax(1),
    "min_sum_gelu": lambda y, s: F.gelu((y * s).min(1, keepdim=True)[0].sum(2, keepdim=True)),
    "max_pool": lambda y, s: F.max_pool2d(y * s, 2),
    "avg_pool": lambda y, s: F.avg_pool2d(y, 2) * s,
    "avg_pool_padded": lambda y, s: F.avg_pool2d(y, 3, 2, 1, count_include_pad=False),
    "adaptive": lambda y, s: F.adaptive_avg_pool2d(y, 2),
    "tanh": lambda y, s: torch.tanh(y - s),
    "sigmoid": lambda y, s: torch.sigmoid(y) * 2,
    "relu": lambda y, s: F.relu(y + s),
    "leaky": lambda y, s: F.leaky_relu(y, 0.2),
    "silu": lambda y, s: F.silu(y),
    "mish": lambda y, s: F.mish(y),
    "elu": lambda y, s: F.elu(y),
    "gelu_tanh": lambda y, s: F.gelu(y, approximate="tanh"),
    "softplus": lambda y, s: F.softplus(y),
    "hardswish": lambda y, s: F.hardswish(y * 3),
    "clamp": lambda y, s: torch.clamp(y * 2, -0.5, 0.5) / s,
    "prelu": lambda y, s: F.prelu(y, s.flatten()),
    "pow": lambda y, s: (y.square() + 1).pow(1.5) * s.abs().sqrt(),
    "exp_log": lambda y, s: torch.log(torch.exp(y) + s.abs() + 0.5),
    "batch_norm": lambda y, s: F.batch_norm(y, None, None, s.flatten(), None or s.flatten(), True),
    "group_norm": lambda y, s: F.group_norm(y, 2, s.flatten(), s.flatten()),
    "instance_norm": lambda y, s: F.instance_norm(y),
    "moved": lambda y, s: F.layer_norm(y.movedim(1, -1), (4,)).movedim((-1, 1), (1, 2))
    * y.flatten(2).tanh().view_as(y),
    "vector_norm": lambda y, s: y / y.norm(dim=(2, 3), keepdim=True) + torch.linalg.vector_norm(y * s, 1),
    "normalized": lambda y, s: F.normalize(y * s, dim=1) + F.softshrink(y, 0.1),
    "largest": lambda y, s: torch.linalg.vector_norm(y * s, float("inf"), dim=(1, 2))
    + F.rrelu(y, training=False).std(),
    "layer_norm": lambda y, s: F.layer_norm(y, y.shape[1:]),
    "var": lambda y, s: y.var((0, 2, 3)) + s.flatten(),
    "concat": lambda y, s: torch.cat([y * s, y[:, 1:3]], 1),
    "slice_pad": lambda y, s: F.pad(y[:, :, 1:-1, ::2], (1, 0, 2, 1)) * s,
    "reshape": lambda y, s: y.flatten(2).transpose(1, 2) * s.flatten(),
    "residual_detach": lambda y, s: (y + y.clone().detach()) * y.detach() * s,
    "minimum": lambda y, s: torch.minimum(y, s - 0.5) + torch.maximum(y, s),
}


def assert_gradcheck(model, *shape):
    model = model.double()
    x = torch.randn(*shape, dtype=torch.float64)
    ours = transfuse.optimize(model, (x,), never_slower=False, dynamic=False)
    told = transfuse.report(ours)
    assert told.left == 0, str(told)
    names = [n for n, _ in model.named_parameters()]

    def call(x, *parameters):
        return torch.func.functional_call(ours, dict(zip(names, parameters)), (x,))

    x.requires_grad_()
    parameters = [p.detach().clone().requires_grad_() for p in model.parameters()]
    expected = torch.func.functional_call(model, dict(zip(names, parameters)), (x,))
    assert torch.allclose(call(x, *parameters), expected, rtol=1e-9, atol=1e-9)
    wanted = torch.autograd.grad(expected.square().sum(), [x, *parameters], allow_unused=True)
    got = torch.autograd.grad(call(x, *parameters).square().sum(), [x, *parameters], allow_unused=True)
    for a, b in zip(got, wanted):
        if b is None:
            assert a is None or not a.any()
        else:
            assert torch.allclose(a, b, rtol=1e-7, atol=1e-8)
    if "detach" not in str(told):  # a numerical derivative sees through detach
        assert torch.autograd.gradcheck(call, (x, *parameters), fast_mode=True, atol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name, no_fallback):
    assert_gradcheck(Chain(FAMILIES[name], stride=2, padding=1, output_padding=1), 2, 2, 3, 4)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {"stride": 2, "padding": 1},
        {"kernel": 4, "stride": 3, "padding": 2, "output_padding": 2},
        {"dilation": 2, "padding": 1},
        {"groups": 2, "stride": 2, "bias": False},
        {"kernel": 1, "stride": 2, "output_padding": 1},
    ],
    ids=lambda o: "-".join(f"{k}{v}" for k, v in o.items()),
)
def test_convolutions(rank, options, no_fallback):
    assert_gradcheck(Chain(lambda y, s: y * s, rank=rank, **options), 2, 2, *[4, 3, 2][:rank])


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_plain_convolutions(rank, no_fallback):
    layer = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[rank]
    model = nn.Sequential(layer(2, 4, 3, stride=2, padding=1), nn.LeakyReLU(0.1), layer(4, 2, 2, groups=2))
    assert_gradcheck(model, 2, 2, *[6, 5, 5][:rank])


def test_before_the_convolution(no_fallback):
    assert_gradcheck(Chain(lambda y, s: y * s, before=lambda x: F.leaky_relu(x, 0.1), stride=2, padding=1), 2, 2, 4, 3)


def test_unbatched(no_fallback):
    assert_gradcheck(Chain(lambda y, s: torch.tanh(y * s), stride=2), 2, 4, 3)


ZEROS = {
    "std of equal values": lambda y: (y + 0.1).tanh().std((0, 2)),
    "std": lambda y: y.std((1, 2)),
    "std of all": lambda y: y.std(),
    "norm": lambda y: y.norm(dim=2),
    "norm of order 1": lambda y: y.norm(p=1, dim=2),
    "relu6": F.relu6,
    "hardtanh": lambda y: F.hardtanh(y, 0, 2),
    "threshold": lambda y: F.threshold(y, 0, 0),
    "softshrink": lambda y: F.softshrink(y, 0),
    "abs": torch.abs,
    "clamp": lambda y: y.clamp(0, 1),
}


@pytest.mark.parametrize("name", ZEROS)
def test_gradients_at_zero_are_pytorchs(name, no_fallback):
    """Channels that are zero all over are met in real models: no NaN where PyTorch has none, and the same side of a bend."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.ConvTranspose1d(3, 4, 1, bias=False)
            nn.init.zeros_(self.conv.weight)

        def forward(self, x):
            return ZEROS[name](self.conv(x))

    model, x = Model(), torch.randn(2, 3, 5)
    ours = transfuse.optimize(model, x, never_slower=False)
    found = [torch.autograd.grad(m(x).sum(), model.conv.weight)[0] for m in (ours, model)]
    assert transfuse.report(ours).left == 0
    assert torch.allclose(*found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("norm", [nn.BatchNorm2d, lambda channels: nn.InstanceNorm2d(channels, affine=True)])
def test_what_a_norm_centres_stays_centred(norm, no_fallback):
    """The gradient behind a norm sums to zero; where inputs are far from it, what is left of that sum is the weight's error."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1, bias=False), norm(8))
    nn.init.uniform_(model[1].weight, -1, 1.5)
    ours = transfuse.optimize(copy.deepcopy(model), torch.randn(3, 4, 12, 12), never_slower=False)
    models, errors = (ours, model, copy.deepcopy(model).double()), torch.zeros(2, dtype=torch.double)
    for _ in range(20):
        x = torch.randn(3, 4, 12, 12) + 3
        found = []
        for m in models:
            y = m(x.to(m[0].weight.dtype))
            found.append(torch.autograd.grad(y, m[0].weight, ramp(y.detach()))[0].double())
        errors += torch.stack([(g - found[2]).square().sum() for g in found[:2]])
    assert errors[0] < 0.25 * errors[1]


def test_double_backward():
    """A gradient that is differentiated again goes through PyTorch's own backward."""
    model = Chain(lambda y, s: torch.tanh(y * s)).double()
    x = torch.randn(1, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    ours = transfuse.optimize(model, (x,), never_slower=False)
    (g,) = torch.autograd.grad(ours(x).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.square().sum(), x)
    (p,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    (q,) = torch.autograd.grad(p.square().sum(), x)
    assert torch.allclose(h, q)


def test_what_lies_behind_a_detached_value_gets_no_gradient():
    """None, as in PyTorch, not zeros, by which an optimiser would let it decay: also where PyTorch computes in between."""

    class Behind(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = [nn.ConvTranspose1d(2, 2, 3, padding=1) for _ in range(3)]

        def forward(self, x):
            y = self.second(x)
            return y + self.first(x).cumsum(-1).detach(), self.third(self.first(x).cumsum(-1))

    model, x = Behind(), torch.randn(1, 2, 5)
    ours = transfuse.optimize(model, (x,), never_slower=False)
    for outputs in ([0], [1], [0, 1]):
        found = []
        for m in (ours, model):
            model.zero_grad()
            results = m(x)
            sum(results[i].sum() for i in outputs).backward()
            found.append([None if p.grad is None else p.grad.clone() for p in model.parameters()])
        assert [g is None for g in found[0]] == [g is None for g in found[1]], outputs
        torch.testing.assert_close(*[[g for g in gradients if g is not None] for gradients in found])


class Around(nn.Module):
    """A region between whose leaves PyTorch computes: one of them comes from another."""

    def __init__(self):
        super().__init__()
        self.up, self.conv = nn.ConvTranspose1d(2, 2, 2, 2), nn.Conv1d(2, 2, 3, padding=1)

    def forward(self, x):
        x = torch.tanh(self.up(x))
        return x + torch.tanh(self.conv(torch.cumsum(x, -1)))


def test_double_backward_where_a_leaf_comes_from_another():
    model, x = Around().double(), torch.randn(1, 2, 4, dtype=torch.float64, requires_grad=True)
    ours = transfuse.optimize(model, (x,), never_slower=False)
    found = []
    for m in (ours, model):
        (g,) = torch.autograd.grad(m(x).square().sum(), x, create_graph=True)
        found.append([g, *torch.autograd.grad(g.square().sum(), [x, *model.parameters()])])
    assert len(next(iter(ours.__dict__["_transfuse"].captures.values()))[0].cut.regions) == 2
    torch.testing.assert_close(*found)


def test_only_wanted_gradients():
    model = Chain(lambda y, s: y * s)
    model.conv.weight.requires_grad_(False)
    x = torch.randn(1, 2, 3, 3)
    ours = transfuse.optimize(model, (x,), never_slower=False)
    ours(x).sum().backward()
    assert model.conv.weight.grad is None and model.scale.grad is not None and model.conv.bias.grad is not None


class Apart(nn.Module):
    """Two results, each of parameters of its own, and one that no gradient passes."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.ConvTranspose1d(3, 4, 3), nn.ConvTranspose1d(4, 4, 3)
        self.still = nn.ConvTranspose1d(3, 3, 3, padding=1)

    def forward(self, x):
        with torch.no_grad():
            y = self.still(x)
        z = self.first(x + y)
        return z, self.second(z.detach())


@pytest.mark.parametrize("which", [0, 1])
def test_what_no_gradient_reaches_has_none(which, no_fallback):
    torch.manual_seed(4)
    plain = Apart().double()
    ours = transfuse.optimize(copy.deepcopy(plain), never_slower=False)
    x = torch.randn(2, 3, 7, dtype=torch.double)
    for module in (plain, ours):
        module(x)[which].square().sum().backward()
    for (name, a), b in zip(plain.named_parameters(), ours.parameters()):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            torch.testing.assert_close(b.grad, a.grad)


def test_a_value_that_nobody_uses_beside_a_block_without_gradients(no_fallback):
    def scaled(x):
        y = torch.sigmoid(x)
        F.softplus(torch.relu(y))
        with torch.no_grad():
            size = y.std() + 1
        return y / size

    plain = Chain(lambda y, s: y * s, before=scaled).double()
    ours = transfuse.optimize(copy.deepcopy(plain), never_slower=False)
    x = torch.randn(2, 2, 4, 5, dtype=torch.double, requires_grad=True)
    expected, found = plain(x), ours(x)
    torch.testing.assert_close(found, expected)
    gradients = [
        torch.autograd.grad(y.square().sum(), [x, *net.parameters()]) for y, net in ((found, ours), (expected, plain))
    ]
    torch.testing.assert_close(*gradients)


def test_no_grad_and_inference_mode():
    model = Chain(lambda y, s: y * s)
    x = torch.randn(1, 2, 3, 3)
    ours = transfuse.optimize(model, (x,), never_slower=False)
    expected = model(x).detach()
    with torch.no_grad():
        y = ours(x)
        assert not y.requires_grad and torch.allclose(y, expected, atol=1e-5)
    with torch.inference_mode():
        y = ours(x.clone())
        assert y.is_inference() and torch.allclose(y, expected, atol=1e-5)
    fresh = transfuse.optimize(copy.deepcopy(model), never_slower=False)
    with torch.inference_mode():  # captured inside
        assert torch.allclose(fresh(x.clone()), expected, atol=1e-5)
    fresh(x).sum().backward()
    assert fresh.conv.weight.grad is not None


def test_weights_changed_between_forward_and_backward_are_noticed():
    model = Chain(lambda y, s: y * s)
    x = torch.randn(1, 2, 3, 3, requires_grad=True)
    ours = transfuse.optimize(model, (x,), never_slower=False)
    y = ours(x)
    with torch.no_grad():
        model.conv.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_functorch_transforms_see_pytorch(no_fallback):
    model = Chain(lambda y, s: y * s)
    x = torch.randn(3, 1, 2, 3, 3)
    ours = transfuse.optimize(model, (x[0],), never_slower=False)
    assert torch.allclose(torch.vmap(ours)(x), torch.vmap(model)(x))
    slope = torch.func.grad(lambda x: ours(x).square().sum())(x[0])
    assert torch.allclose(slope, torch.func.grad(lambda x: model(x).square().sum())(x[0]), atol=1e-5)


def test_vmap_over_the_operator_is_refused_clearly():
    region = transfuse.nn._region(2, True, False, (1, 1), (0, 0), (0, 0), (1, 1), 1, None)
    x, w = torch.randn(3, 1, 2, 3, 3), torch.randn(2, 4, 3, 3)
    with pytest.raises(NotImplementedError, match="vmap"):
        torch.vmap(lambda x: torch.ops.transfuse.run([x, w], region.handle, [], 2)[0])(x)


def test_gradient_accumulation_and_retain_graph():
    model = Chain(lambda y, s: y * s)
    plain = copy.deepcopy(model)
    x = torch.randn(2, 2, 3, 3)
    ours = transfuse.optimize(model, (x,), never_slower=False)
    for module in (ours, plain):
        y = module(x)
        y.sum().backward(retain_graph=True)
        y.square().sum().backward()
    for a, b in zip(ours.parameters(), plain.parameters()):
        assert torch.allclose(a.grad, b.grad, rtol=1e-4, atol=1e-5)


def test_collapsed_gradients_do_not_read_the_input_again():
    class Averages(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv_transpose = nn.ConvTranspose2d(4, 8, 3, stride=2, padding=1, output_padding=1)

        def forward(self, x):
            return self.conv_transpose(x).mean((2, 3))

    model, x = Averages(), torch.rand(2, 4, 32, 32, requires_grad=True)
    ours = transfuse.optimize(copy.deepcopy(model), x, never_slower=False)
    wide = copy.deepcopy(model).double()
    g = torch.rand(2, 8)
    found = torch.autograd.grad(ours(x), [x, *ours.parameters()], g)
    wide_x = x.detach().double().requires_grad_()
    for a, b in zip(found, torch.autograd.grad(wide(wide_x), [wide_x, *wide.parameters()], g.double())):
        assert torch.allclose(a.double(), b, rtol=1e-5, atol=1e-7)
    region = next(iter(ours.__dict__["_transfuse"].entries.values())).entry.cut.regions[0]
    forward_and_backward = library.describe(region.handle)["executables"]
    assert len(forward_and_backward) == 2
    assert sum("moments" in text for text in forward_and_backward) == 1


class Rounded(torch.autograd.Function):
    """Straight through: the gradient that autograd would not find."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


rounded = Rounded.apply  # as such functions are mostly written


class OwnGradient(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind, self.up = kind, nn.ConvTranspose2d(3, 4, 2, 2)
        self.held = {"head": [nn.Conv2d(4, 2, 1)]}  # which registers nothing

    def forward(self, x):
        y = self.up(x)
        if self.kind == "function":
            return rounded(y) * 2
        if self.kind == "hook":
            if y.requires_grad:
                y.register_hook(lambda gradient: 3 * gradient)
            return y.tanh()
        return self.held["head"][0](y)


@pytest.mark.parametrize("kind", ["function", "hook", "unregistered"])
def test_gradients_that_a_graph_does_not_know_are_pytorchs(kind):
    model = OwnGradient(kind)
    x = torch.randn(2, 3, 4, 5)
    with pytest.warns(transfuse.fallback.Warned, match="gradient of its own"):
        ours = transfuse.optimize(model, (x,), never_slower=False)
    wanted = [*model.parameters(), *(model.held["head"][0].parameters() if kind == "unregistered" else ())]
    found = [torch.autograd.grad(module(x).square().sum(), wanted) for module in (ours, model)]
    for a, b in zip(*found):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        assert torch.allclose(ours(x), model(x), atol=1e-5)
        model.held["head"][0].weight.mul_(2)
        assert torch.allclose(ours(x), model(x), atol=1e-5)
    assert transfuse.report(ours).taken


class Below(nn.Module):
    """How far each element lies below the largest of all."""

    def __init__(self):
        super().__init__()
        self.up, self.norm = nn.ConvTranspose2d(1, 2, 1, bias=False), nn.BatchNorm2d(2)

    def forward(self, x):
        y = self.norm(self.up(x))
        return y - y.amax()


@pytest.mark.parametrize("batch", [2, 3])
def test_the_largest_element_is_found_again_in_backward(batch, no_fallback):
    torch.manual_seed(0)
    model = Below()
    ours, wide = transfuse.optimize(copy.deepcopy(model), never_slower=False), copy.deepcopy(model).double()
    x, g = torch.randn(batch, 1, 31, 9), torch.randn(batch, 2, 31, 9)
    ours(x).backward(g), wide(x.double()).backward(g.double())
    scale = max(p.grad.norm() for p in wide.parameters())
    for mine, truth in zip(ours.parameters(), wide.parameters()):
        assert (mine.grad - truth.grad).norm() <= 1e-4 * scale
