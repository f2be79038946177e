"""transfuse.nn: PyTorch's own samples, names, initialisation and errors."""

import pickle
import sys
import types
import unittest

import pytest
import torch
from torch import nn

import transfuse

# PyTorch's sample inputs stand in a module that wants a test framework nobody needs here.
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase, assert_expected_inline=None))
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

LAYERS = [(1, nn.ConvTranspose1d), (2, nn.ConvTranspose2d), (3, nn.ConvTranspose3d)]


def ours(rank):
    return getattr(transfuse.nn, f"ConvTranspose{rank}d")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_opinfo_samples(rank, dtype):
    info = next(o for o in op_db if o.name == f"nn.functional.conv_transpose{rank}d")
    count = 0
    for sample in info.sample_inputs("cpu", dtype, requires_grad=True):
        x, (weight, *rest), kwargs = sample.input, sample.args, sample.kwargs
        bias = rest[0] if rest else kwargs.pop("bias", None)
        rest = rest[1:]
        names = ("stride", "padding", "output_padding", "groups", "dilation")
        options = {**dict(zip(names, rest)), **kwargs}
        expected = getattr(nn.functional, f"conv_transpose{rank}d")(x, weight, bias, **options)
        got = transfuse.nn.conv_transpose(x, weight, bias, **options)
        wide = [None if t is None else t.double() for t in (x, weight, bias)]
        exact = getattr(nn.functional, f"conv_transpose{rank}d")(*wide, **options)
        allowed = 2 * (expected - exact).abs().max() + 4 * torch.finfo(dtype).eps * exact.abs().max()
        assert got.shape == expected.shape and got.dtype == dtype and (got - exact).abs().max() <= allowed
        leaves = [t for t in (x, weight, bias) if t is not None and t.requires_grad]
        cotangent = torch.randn_like(expected)
        mine = torch.autograd.grad(got, leaves, cotangent)
        theirs = torch.autograd.grad(expected, leaves, cotangent)
        for a, b in zip(mine, theirs):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
        count += 1
    assert count >= 5


@pytest.mark.parametrize("rank,plain", LAYERS)
def test_same_seed_same_weights_same_repr(rank, plain):
    arguments = (4, 6, 3)
    options = {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}
    torch.manual_seed(7)
    a = plain(*arguments, **options)
    torch.manual_seed(7)
    b = ours(rank)(*arguments, **options)
    assert repr(a) == repr(b) and isinstance(b, plain)
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters()))
    x = torch.randn(2, 4, *[5, 4, 3][:rank])
    torch.testing.assert_close(b(x), a(x))
    torch.testing.assert_close(b(x[0]), a(x[0]))
    size = [s + 0 for s in a(x).shape[2:]]
    torch.testing.assert_close(b(x, output_size=size), a(x, output_size=size))
    b.load_state_dict(a.state_dict())
    torch.testing.assert_close(pickle.loads(pickle.dumps(b))(x), a(x))


def failing_calls(rank):
    x, c = torch.randn(2, 4, *[5, 4, 3][:rank]), {"in_channels": 4, "out_channels": 6, "kernel_size": 3}
    yield "rank", c, (torch.randn(4),), {}
    yield "too many axes", c, (torch.randn(2, 2, 4, *[5] * (rank + 1)),), {}
    yield "channels", c, (torch.randn(2, 5, *[5] * rank),), {}
    yield "dtype", c, (x.double(),), {}
    yield "integers", c, (x.long(),), {}
    yield "output padding", {**c, "stride": 2, "output_padding": 2}, (x,), {}
    yield "output size", {**c, "stride": 2}, (x,), {"output_size": [99] * rank}
    yield "groups", {**c, "groups": 2}, (torch.randn(2, 6, *[5] * rank),), {}


@pytest.mark.parametrize("rank,plain", LAYERS)
def test_errors_side_by_side(rank, plain):
    for what, constructor, args, kwargs in failing_calls(rank):
        with pytest.raises(Exception) as expected:
            plain(**constructor)(*args, **kwargs)
        with pytest.raises(type(expected.value)) as got:
            ours(rank)(**constructor)(*args, **kwargs)
        first = str(expected.value).split("\n")[0]
        assert str(got.value).split("\n")[0] == first, what


@pytest.mark.parametrize("options", [{"groups": 3}, {"padding_mode": "reflect"}, {"groups": 0}])
def test_constructor_errors(options):
    with pytest.raises(ValueError) as expected:
        nn.ConvTranspose2d(4, 6, 3, **options)
    with pytest.raises(ValueError) as got:
        transfuse.nn.ConvTranspose2d(4, 6, 3, **options)
    assert str(got.value) == str(expected.value)


def test_errors_of_an_optimised_model():
    model = nn.Sequential(nn.ConvTranspose2d(4, 6, 3), nn.ReLU())
    optimized = transfuse.optimize(model, torch.randn(1, 4, 5, 5), never_slower=False)
    for bad in (torch.randn(1, 5, 5, 5), torch.randn(4), torch.randn(1, 4, 5, 5).double(), torch.randn(1, 1, 4, 5, 5)):
        with pytest.raises(RuntimeError) as expected:
            model(bad)
        with pytest.raises(RuntimeError) as got:
            optimized(bad)
        assert str(got.value) == str(expected.value)
    torch.testing.assert_close(optimized(torch.ones(1, 4, 5, 5)), model(torch.ones(1, 4, 5, 5)))


def test_meta_tensors():
    assert transfuse.nn.ConvTranspose2d(4, 6, 3, device="meta")(torch.randn(2, 4, 5, 5, device="meta")).shape == (
        2,
        6,
        7,
        7,
    )


def test_empty_batch():
    layer, plain = transfuse.nn.ConvTranspose2d(4, 6, 3), nn.ConvTranspose2d(4, 6, 3)
    assert layer(torch.randn(0, 4, 5, 5)).shape == plain(torch.randn(0, 4, 5, 5)).shape
    optimized = transfuse.optimize(nn.Sequential(plain, nn.ReLU()), torch.randn(1, 4, 5, 5))
    assert optimized(torch.randn(0, 4, 5, 5)).shape == (0, 6, 7, 7)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_traced_and_scripted_by_torch_jit(rank):
    """TorchScript knows PyTorch's operators; what it makes serves other sizes, and shares the parameters."""
    layer = getattr(transfuse.nn, f"ConvTranspose{rank}d")(3, 4, 3, 2)
    model = nn.Sequential(layer, nn.ReLU())
    x = torch.randn(2, 3, *[5] * rank)
    for made in (torch.jit.trace(model, x), torch.jit.script(model)):
        with torch.no_grad():
            layer.weight.mul_(2)
        assert torch.allclose(made(x[:1]), model(x[:1]), atol=1e-5)


def test_they_join_what_is_around_them(no_fallback):
    """In an optimised or compiled model they are what PyTorch's layers are."""
    model = nn.Sequential(transfuse.nn.ConvTranspose2d(3, 4, 3, 2), nn.BatchNorm2d(4), nn.ReLU())
    x = torch.randn(2, 3, 5, 6)
    ours = transfuse.optimize(model, (x,), never_slower=False)
    assert (transfuse.report(ours).taken, transfuse.report(ours).left) == (3, 0)
    transfuse.backend.reset()
    compiled = torch.compile(model, backend="transfuse", options={"rest": "eager", "never_slower": False})
    for made in (ours, compiled):
        assert torch.allclose(made(x), model(x), atol=1e-5)
        made(x).sum().backward()
    assert (transfuse.report(compiled).taken, transfuse.report(compiled).left) == (3, 0)
