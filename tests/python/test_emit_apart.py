"""Files take what `optimize` takes where a tile cannot make all of a pass: products with their taps apart, of few output channels,
and a product alone, with the general kernel behind it."""

import copy
import shutil

import pytest
import torch

from emitted import namespace
from test_emit_emulated import deviation, emulated
from transfuse import emit

MODEL = """import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.{up}

    def forward(self, x):
        return {behind}


def get_inputs():
    return [torch.rand{sizes}]


def get_init_inputs():
    return []
"""
# Of each: the layer, what is behind it, the example's sizes, kernels that the file has, and sizes that they are run at.
CASES = {
    "a chain adds the products up": (
        ("ConvTranspose2d(64, 3, 4, stride=2, padding=1)", "torch.tanh(self.up(x))", (8, 64, 64, 128)),
        ("dense", "dense_tail"),
        ((1, 64, 4, 32), (2, 64, 3, 16)),
    ),
    "a launch adds them up before a pool": (
        ("ConvTranspose2d(96, 3, 4, stride=2, padding=1)", "F.max_pool2d(self.up(x), 2)", (32, 96, 128, 128)),
        ("dense", "gather", "dense_tail"),
        ((1, 96, 4, 32), (2, 96, 3, 16)),
    ),
    "a pool cuts periods of phases": (
        ("ConvTranspose2d(64, 64, 3, stride=3)", "F.max_pool2d(self.up(x), 2)", (8, 64, 32, 64)),
        ("dense", "dense_tail"),
        ((1, 64, 4, 32), (2, 64, 3, 16)),
    ),
}


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
@pytest.mark.parametrize("case", CASES)
def test_products_that_a_tile_does_not_finish(case, tmp_path, monkeypatch):
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: -1, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)
    (up, behind, sizes), kernels, shapes = CASES[case]
    path = tmp_path / "model.py"
    path.write_text(MODEL.format(up=up, behind=behind, sizes=sizes))
    text = emit.emit(path)
    assert text.count("\n") < 600
    assert all(f" forward_{kernel}(" in text for kernel in kernels)
    space, theirs = emulated(text, tmp_path, 90), namespace(path.read_text())
    for shape in shapes:
        torch.manual_seed(0)
        reference = theirs["Model"]()
        torch.manual_seed(0)
        model, x = space["ModelNew"](), torch.rand(shape)
        with torch.no_grad():
            assert deviation(model(x), copy.deepcopy(reference).double()(x.double())) <= 1e-3
    assert all(need >= 0 for _, _, _, need, *_ in space["_calls"].values())  # no call was left to PyTorch
