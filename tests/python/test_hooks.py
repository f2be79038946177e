"""Hooks of modules run as often as they would, whenever they were registered."""

import pytest
import torch
from decoder import optimized, same
from torch import nn

from transfuse import fallback


def test_hooks_are_not_lost():
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU())
    seen = []
    x = torch.randn(1, 3, 4, 4)
    model[0].register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    ours = optimized(model)
    with pytest.warns(fallback.Warned, match="hook"):
        same(ours(x), model(x))
    assert len(seen) == 2


def test_hooks_added_later_are_not_lost():
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU())
    x = torch.randn(1, 3, 4, 4)
    ours = optimized(model, x)
    ours(x)
    seen = []
    handle = model[0].register_forward_hook(lambda *_: seen.append(1))
    ours(x)
    assert seen == [1]
    handle.remove()
    ours(x)
    assert seen == [1]


def test_hooks_of_the_model_itself_run_once(no_fallback):
    """They stand around what is captured, also if they are there when it is captured."""
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.Tanh())
    x = torch.randn(1, 3, 4, 4)
    plain = model(x)
    doubles = model.register_forward_hook(lambda module, inputs, output: 2 * output)
    ours = optimized(model)
    for _ in range(2):
        same(ours(x), 2 * plain)
    doubles.remove()
    ours.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    for length in (4, 5):  # known and new
        y = torch.randn(1, 3, length, 4)
        same(ours(y), model(y))


def test_hooks_on_all_modules_see_every_one():
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU())
    x = torch.randn(1, 3, 4, 4)
    ours = optimized(model, x)
    ours(x)
    seen = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(type(module).__name__))
    try:
        ours(x)
    finally:
        handle.remove()
    assert seen == ["ConvTranspose2d", "ReLU", "Sequential"]
    ours(x)
    assert len(seen) == 3
