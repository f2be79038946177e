"""Random convolutions, transposed or not, with random chains behind them, through `optimize`: as exact as PyTorch's own."""

import copy
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import zoo
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from torch import nn

import transfuse

CONVOLUTIONS = {
    True: (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
    False: (nn.Conv1d, nn.Conv2d, nn.Conv3d),
}


class PerChannel(nn.Module):
    """A parameter for each channel, added or multiplied."""

    def __init__(self, channels, rank, multiplied):
        super().__init__()
        self.weight, self.multiplied = nn.Parameter(torch.randn(channels, *[1] * rank)), multiplied

    def forward(self, x):
        return x * self.weight if self.multiplied else x + self.weight


class Pointwise(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


POINTWISE = {
    "relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "gelu": nn.functional.gelu,
    "leaky": lambda x: nn.functional.leaky_relu(x, 0.1), "clamp": lambda x: x.clamp(-0.7, 1.1), "twice": lambda x: 2 * x,
    "away": lambda x: 1 - x, "third": lambda x: x / 3, "hardswish": nn.functional.hardswish, "square": lambda x: x * x,
}  # fmt: skip
ENDS = {
    "none": lambda rank: None,
    "softmax": lambda rank: nn.Softmax(1),
    "mean": lambda rank: Pointwise(lambda x: x.mean(list(range(2, rank + 2)), keepdim=True)),
    "lse": lambda rank: Pointwise(lambda x: torch.logsumexp(x, 1, keepdim=True)),
    "channel mean": lambda rank: Pointwise(lambda x: x.mean(1, keepdim=True)),
}
NORMS = {
    "none": lambda rank, channels: None,
    "batch": lambda rank, channels: (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[rank - 1](channels),
    "instance": lambda rank, channels: (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)[rank - 1](channels),
    "group": lambda rank, channels: nn.GroupNorm(1, channels),
}


@st.composite
def convolutions(draw, rank, channels, size):
    """A convolution of these channels, and the sizes of its result."""
    transposed, groups = draw(st.integers(0, 3)) > 0, draw(st.sampled_from([1, 1, 1, channels]))
    out = groups * draw(st.integers(1, 12 if groups == 1 else 2))
    kernel, stride, padding, dilation, more, result = [], [], [], [], [], []
    for extent in size:
        s, d = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        reach = extent if not transposed else 5  # a convolution's kernel lies within its input
        k = draw(st.integers(1, max(1, min(5, (reach - 1) // d + 1))))
        p = draw(st.integers(0, (k - 1) * d // 2))
        m = draw(st.integers(0, max(s, d) - 1)) if transposed else 0
        length = (
            (extent - 1) * s - 2 * p + d * (k - 1) + m + 1
            if transposed
            else (extent + 2 * p - d * (k - 1) - 1) // s + 1
        )
        for values, value in zip((kernel, stride, padding, dilation, more, result), (k, s, p, d, m, length)):
            values.append(value)
    bias = draw(st.booleans())
    arguments = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "bias": bias}
    if transposed:
        arguments["output_padding"] = more
    make = CONVOLUTIONS[transposed][rank - 1]
    return (lambda: make(channels, out, tuple(kernel), **arguments)), out, result


@st.composite
def cases(draw, widest=10):
    """How to make a model, and the shape of its input."""
    rank = draw(st.integers(1, 3))
    batch, channels = draw(st.integers(1, 3)), draw(st.integers(1, 12))
    shape = size = draw(st.lists(st.integers(1, widest if rank < 3 else 5), min_size=rank, max_size=rank))
    makers, inputs = [], (batch, channels, *shape)
    for _ in range(draw(st.integers(1, 2))):
        make, channels, size = draw(convolutions(rank, channels, size))
        makers.append(make)
        norm = draw(st.sampled_from(sorted(NORMS))) if batch > 1 and min(size) > 1 else "none"
        if norm != "none":
            makers.append(lambda norm=norm, channels=channels: NORMS[norm](rank, channels))
        for step in draw(st.lists(st.sampled_from([*sorted(POINTWISE), "plus", "times"]), max_size=3)):
            if step in POINTWISE:
                makers.append(lambda step=step: Pointwise(POINTWISE[step]))
            else:
                makers.append(lambda step=step, channels=channels: PerChannel(channels, rank, step == "times"))
    if (end := draw(st.sampled_from(sorted(ENDS)))) != "none":
        if end == "mean" and norm == "instance":  # of what has mean zero nothing but errors is left
            makers.append(lambda: Pointwise(torch.relu))
        makers.append(lambda: ENDS[end](rank))
    return (lambda: nn.Sequential(*[make() for make in makers])), inputs


def drawn(count, number, **sizes):
    """So many cases, the same for the same number."""
    found = []
    calm = dict(database=None, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])

    @seed(number)
    @settings(max_examples=count, **calm)
    @given(cases(**sizes))
    def collect(case):
        found.append(case)

    collect()
    return found


def prepared(case, device):
    make, shape = case
    model, x = make().to(device), torch.randn(shape, device=device)
    ours = transfuse.optimize(copy.deepcopy(model), (x,), never_slower=False)
    zoo.outputs(copy.deepcopy(ours), [x])  # compiles, and leaves running statistics alone
    return model, ours, x


def compare(model, ours, x):
    assert [t.shape for t in zoo.outputs(copy.deepcopy(ours), [x])] == [
        t.shape for t in zoo.outputs(copy.deepcopy(model), [x])
    ]
    verdict, _ = zoo.verdict_of_draws(ours, model, [x], zoo.outputs, fresh=zoo.shuffled)
    assert verdict == "right", f"{verdict}: {model} of {tuple(x.shape)}"


def test_random_chains(no_fallback):
    for case in drawn(30, 1):
        compare(*prepared(case, "cpu"))


EXAMPLES = int(os.environ.get("TRANSFUSE_EXAMPLES", 300))
A_TEST = 30  # so many that a test ends within its limit


@pytest.mark.gpu
@pytest.mark.parametrize("share", range(-(-EXAMPLES // A_TEST)))
def test_random_chains_on_a_gpu(share, no_fallback):
    """TRANSFUSE_EXAMPLES: how many in all, 300 unless it says so. Those of a test are compiled first, several at a time."""
    several = drawn(min(A_TEST, EXAMPLES - A_TEST * share), 100 + share, widest=40)
    with ThreadPoolExecutor(4) as threads:
        ready = list(threads.map(lambda case: prepared(case, "cuda"), several))
    for each in ready:
        compare(*each)
