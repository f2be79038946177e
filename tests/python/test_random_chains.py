"""Drawn models (random_models.py) through `optimize`: results, and gradients of a step of training, as exact as PyTorch's own."""

import copy
import math
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import random_models
import torch
import zoo

import transfuse
from transfuse.bench import accuracy

EXAMPLES = int(os.environ.get("TRANSFUSE_EXAMPLES", 300))
A_TEST = 30  # so many that a test ends within its limit
GROSS = (
    4.0  # how many times larger than PyTorch's one error of one model may be; over all of a test accuracy.RMS_FACTOR
)


def prepared(seed, way, device, widest=10):
    model, x, step = random_models.trained(seed, way, widest, device)
    ours = transfuse.optimize(copy.deepcopy(model), (x,), never_slower=False)
    step(copy.deepcopy(ours), [x])  # compiles, and leaves running statistics alone
    return seed, model, ours, x, step


def compare(several, dtype):
    """dtype: what values were rounded to on the way."""
    ulps, ratios = accuracy.ULPS * torch.finfo(dtype).eps, []
    for seed, model, ours, x, step in several:
        modules = ours, copy.deepcopy(model), copy.deepcopy(model).double()
        draws = [x, *(zoo.shuffled(x, torch.Generator().manual_seed(number)) for number in (1, 2))]
        found = [
            [step(m, [t.to(m_dtype)]) for t in draws] for m, m_dtype in zip(modules, (x.dtype, x.dtype, torch.double))
        ]
        mine, theirs, truth = ([torch.stack(result) for result in zip(*steps)] for steps in found)
        assert [(t.shape, t.dtype) for t in mine] == [(t.shape, t.dtype) for t in theirs], f"{seed}: {model}"
        for i, (a, b) in enumerate(zip(accuracy.errors(mine, truth), accuracy.errors(theirs, truth))):
            for one, other in ((a.rms, b.rms), (a.worst, b.worst)):
                place = f"{seed}: result {i}: {one:.2e}, PyTorch {other:.2e}: {model} of {tuple(x.shape)}"
                assert one <= max(GROSS * other, ulps), place
            if min(a.rms, b.rms) > 0:
                ratios.append(math.log(a.rms / b.rms))
    assert math.exp(sum(ratios) / len(ratios)) <= accuracy.RMS_FACTOR


@pytest.mark.parametrize("way", random_models.WAYS)
def test_random_chains(way, no_fallback):
    compare([prepared(seed, way, "cpu") for seed in range(12)], random_models.rounded_to(way))


@pytest.mark.gpu
@pytest.mark.parametrize("way", random_models.WAYS)
@pytest.mark.parametrize("share", range(-(-EXAMPLES // (3 * A_TEST))))
def test_random_chains_on_a_gpu(share, way, no_fallback):
    """TRANSFUSE_EXAMPLES: how many in all, 300 unless it says so. Those of a test are compiled first, several at a time."""
    seeds = range(100 + A_TEST * share, 100 + A_TEST * (share + 1))
    with ThreadPoolExecutor(4) as threads:
        ready = list(threads.map(lambda seed: prepared(seed, way, "cuda", 40), seeds))
    compare(ready, random_models.rounded_to(way))
