"""Values at the ends of the number line are PyTorch's."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from decoder import optimized
from torch import nn

pytestmark = pytest.mark.versions


POINTS = [
    -math.inf, math.inf, math.nan, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 6.0, 0.5, -0.5, 1e-30, -1e-30, 90.0, -90.0,
]  # fmt: skip
FUNCTIONS = {
    "abs": torch.abs, "sign": torch.sign, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal, "square": torch.square, "sin": torch.sin, "erf": torch.erf, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "relu": F.relu, "threshold": lambda x: F.threshold(x, 0.0, 0.0), "silu": F.silu, "mish": F.mish,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1), "hardsigmoid": F.hardsigmoid, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus": lambda x: F.softplus(x, 2.0, 2.0), "logsigmoid": F.logsigmoid,
    "hardtanh": F.hardtanh, "hardtanh to 0": lambda x: F.hardtanh(x, -1.0, 0.0), "hardtanh from 0": lambda x: F.hardtanh(x, 0.0, 1.0),
    "relu6": F.relu6, "clamp": lambda x: x.clamp(-1, 1), "clamp_min": lambda x: x.clamp_min(1), "clamp_max": lambda x: x.clamp_max(-1),
    "clamp by tensors": lambda x: torch.clamp(x, torch.tensor(-1.0, device=x.device), torch.tensor(1.0, device=x.device)),
    "pow 1.5": lambda x: x.abs().pow(1.5),
    "minimum": lambda x: torch.minimum(x, 2 - x), "maximum": lambda x: torch.maximum(x, 2 - x),
}  # fmt: skip
# Functions whose gradient at nan is one thing where PyTorch's loop is vectorised, and another at its ends.
ENDS = {"elu": F.elu, "selu": F.selu, "hardswish": F.hardswish, "softshrink": F.softshrink}


class Beside(nn.Module):
    """Each channel has a function of its own."""

    def __init__(self, functions):
        super().__init__()
        self.functions = list(functions)
        self.conv = nn.Conv2d(len(self.functions), len(self.functions), 1, bias=False, groups=len(self.functions))
        nn.init.ones_(self.conv.weight)

    def forward(self, x):
        y = self.conv(x)
        return torch.cat([f(y[:, i : i + 1]) for i, f in enumerate(self.functions)], 1)


def values_and_gradients(model, x):
    x = x.clone().requires_grad_()
    y = model(x)
    return y.detach(), torch.autograd.grad(y, x, torch.full_like(y, 0.75))[0]


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_pointwise_functions_and_their_gradients(dtype, engine, no_fallback, device):
    """At bounds, zeros, infinities and nan. (At nan some of PyTorch's gradients on CUDA are not those on CPUs.)"""
    if device == "cuda" and engine == "reference":
        pytest.skip("the reference engine runs on the CPU")
    rtol = 2e-5 if dtype == torch.float32 else 1e-7
    numbers = [p for p in POINTS if not math.isnan(p)]
    for functions, points in ((FUNCTIONS, POINTS if device == "cpu" else numbers), (ENDS, numbers)):
        model = Beside(functions.values()).to(device, dtype)
        ours = optimized(model, engine=engine)
        x = torch.tensor(points, dtype=dtype, device=device).expand(1, len(functions), 1, -1)
        for found, expected in zip(values_and_gradients(ours, x), values_and_gradients(model, x)):
            for i, name in enumerate(functions):
                near = torch.isclose(found[:, i], expected[:, i], rtol=rtol, atol=1e-6, equal_nan=True)
                assert near.all(), (name, x[0, 0, 0][~near.flatten()], found[:, i][~near], expected[:, i][~near])


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_powers(dtype, engine, no_fallback):
    """PyTorch takes roots for exponents ±1/2: nan at −∞, where a power would be ∞ or 0."""
    exponents = [0.5, -0.5, 1.5, 2.0, 3.0, -1.0, -2.0, 1 / 3]
    model = Beside([lambda x, e=e: x.pow(e) for e in exponents]).to(dtype)
    ours = optimized(model, engine=engine)
    x = torch.tensor([-math.inf, math.inf, math.nan, 0.0, 1.0, -1.0, 2.0, -2.0, 1e-3, 1e10], dtype=dtype).expand(
        1, 8, 1, -1
    )
    for i, (found, expected) in enumerate(zip(*[values_and_gradients(net, x) for net in (ours, model)])):
        if i == 1:  # PyTorch's gradient of a root of −∞, which is nan, is a power
            found, expected = found[..., 1:], expected[..., 1:]
        torch.testing.assert_close(found, expected, equal_nan=True)


INFINITE = [
    [math.inf, 0.0, 1.0], [-math.inf] * 3, [math.inf, -math.inf, 0.0],
    [math.inf, math.inf, 1.0], [math.nan, 1.0, 2.0], [-math.inf, 1.0, 2.0],
]  # fmt: skip


class Rows(nn.Module):
    def __init__(self, channels: int, of, dim: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 1, bias=False, groups=channels)
        self.of, self.dim = of, dim
        nn.init.ones_(self.conv.weight)

    def forward(self, x):
        return self.of(self.conv(x), self.dim)


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("of", [torch.softmax, torch.log_softmax, torch.logsumexp], ids=lambda f: f.__name__)
def test_rows_of_exponentials(of, engine, no_fallback, device):
    """All of a softmax's row is nan where it has ∞ in it, or nothing but −∞: of channels, and of space."""
    if device == "cuda" and engine == "reference":
        pytest.skip("the reference engine runs on the CPU")
    rows = torch.tensor(INFINITE, device=device)
    for x, dim in ((rows[:, :, None, None].expand(-1, -1, 1, 5), 1), (rows[:, None, :, None].expand(-1, 2, -1, 3), 2)):
        for dtype in (torch.float32, torch.float64):
            model = Rows(x.shape[1], of, dim).to(device, dtype)
            ours = optimized(model, engine=engine)
            for found, expected in zip(*[values_and_gradients(net, x.to(dtype)) for net in (ours, model)]):
                torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("offset", [1.0, 1e4, -1e8, 3e38])
def test_log_softmax_is_as_exact_as_it_is_small(offset, no_fallback):
    """Whatever the logits have in common."""
    x = offset + torch.tensor([0.0, 1.0, 2.0, -3.0]).reshape(4, 1).expand(3, 4, 4, 4)
    for dim in (1, 2, 3):
        logits = x.transpose(2, dim)
        expected = torch.log_softmax(logits.double(), dim).float()
        torch.testing.assert_close(optimized(Rows(4, torch.log_softmax, dim))(logits), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dim", [0, 1, 2, 3, (2, 3), (1, 3)], ids=str)
@pytest.mark.parametrize("of", [torch.softmax, torch.log_softmax], ids=lambda f: f.__name__)
def test_rows_of_large_logits_lose_no_more_digits_than_in_pytorch(of, dim, no_fallback):
    """Over every axis, over several that are flattened, and their gradients; error relative to float64."""

    def rows(y, dim):
        return of(y, dim) if isinstance(dim, int) else of(y.flatten(*dim), dim[0])

    torch.manual_seed(0)
    model = Rows(6, rows, dim)
    x = 1e4 + 3 * torch.randn(8, 6, 24, 30)
    exact = values_and_gradients(copy.deepcopy(model).double(), x.double())
    for found, theirs, expected in zip(
        values_and_gradients(optimized(model), x), values_and_gradients(model, x), exact
    ):
        error, allowed = (found - expected).abs(), (theirs - expected).abs()
        assert error.square().mean() <= 1.2**2 * allowed.square().mean()
        assert error.max() <= 2 * allowed.max()
