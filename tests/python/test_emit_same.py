"""A file launches what `optimize` does: both ask a driver that computes nothing for the same, to the last byte of every argument."""

import os
import subprocess
import sys

import pytest
from emitted import needs_compiler, root

from transfuse.native import library

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(library.nvrtc_unavailable() is not None, reason="no NVRTC here"),
]

# Several regions, results that the gradients read, a linear layer beside convolutions, batch statistics.
NETWORK = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self, act="tanh"):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.up, self.head = nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.Linear(8, 4)
        self.act = getattr(torch, act)
    def forward(self, x):
        y = self.act(self.up(torch.relu(self.norm(self.stem(x)))))
        return y, self.head(y.mean((2, 3))), torch.sort(y, 1)[0]
def get_inputs(): return [torch.rand(4, 8, 16, 16)]
def get_init_inputs(): return []
"""


def compared(tmp_path, *words) -> subprocess.CompletedProcess:
    own = {"TRANSFUSE_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(root / "tools" / "launches" / "launches.py"), *map(str, words)]
    return subprocess.run(command, env=os.environ | own, capture_output=True, text=True)


def test_rows_and_a_network_at_two_sizes(tmp_path):
    network = tmp_path / "network.py"
    network.write_text(NETWORK)
    told = compared(tmp_path, network, "--sizes", "2x8x12x20", "--precision", "tf32")
    assert told.returncode == 0, told.stdout + told.stderr
    told = compared(tmp_path, *[root / "bench" / "models" / f"{row}.py" for row in ("A", "d5")])
    assert told.returncode == 0 and told.stdout.count("as optimize's") == 2, told.stdout + told.stderr


def test_what_differs_is_named(tmp_path):
    text = (root / "examples" / "emitted" / "A.py").read_text()
    plans = text.index("PLANS = {")
    file = tmp_path / "A.py"
    file.write_text(text[:plans] + text[plans:].replace("leaf(0)", "leaf(0, 16)", 1))
    told = compared(tmp_path, root / "bench" / "models" / "A.py", "--file", file)
    assert told.returncode == 1 and "launch 0 of" in told.stdout, told.stdout + told.stderr
