"""Files with inline C++: right beside float64, and what they leave to PyTorch's operators."""

import copy
import re
import subprocess
import sys

import pytest
import torch
from emitted import deviation, namespace, needs_compiler, root

from transfuse import emit
from transfuse.problem import ProblemError

pytestmark = needs_compiler


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path_factory.mktemp("extensions")))
        yield


def loaded(path, *sizes: str) -> tuple[dict, dict, str]:
    file = emit.emit(path, emit.Request(device="cpu", sizes=sizes))
    return namespace(path.read_text()), namespace(file.text), file.text


def compare(theirs: dict, ours: dict, shape, training: bool, dtype=torch.float32) -> None:
    arguments, made = theirs["get_init_inputs"](), []
    for model in (theirs["Model"], ours["ModelNew"]):
        torch.manual_seed(5)
        made.append(model(*arguments).to(dtype).train(training))
    reference, model = made
    wide, x = copy.deepcopy(reference).double(), torch.rand(shape, dtype=dtype)
    ours["_left"].clear()
    with torch.no_grad():
        truth, got, other = wide(x.double()), model(x), reference(x)
    assert not ours["_left"], "by the file's own functions"
    assert got.dtype == other.dtype and got.shape == truth.shape
    assert deviation(got, truth) <= max(1.2 * deviation(other, truth), 6e-8)
    for mine, exact in zip(model.buffers(), wide.buffers()):
        assert torch.allclose(mine.double(), exact.double(), rtol=1e-5, atol=1e-6)
    x.requires_grad_()
    grads = [torch.autograd.grad(m(x).square().sum(), [x, *m.parameters()]) for m in made]
    assert all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(*grads))


SIZES = {"A": (2, 64, 9, 13), "C": (3, 64, 4, 5, 7), "d5": (2, 32, 11, 18), "f12": (3, 3, 5, 6, 9)}


@pytest.mark.parametrize("row", SIZES)
def test_rows_beside_float64(row):
    shape = SIZES[row]
    theirs, ours, _ = loaded(root / "bench" / "models" / f"{row}.py", "x".join(map(str, shape)))
    for training in (True, False) if row == "C" else (True,):
        compare(theirs, ours, shape, training)


SHARES = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.ConvTranspose2d(3, 4, 3)
    def forward(self, x):
        return torch.softmax(self.conv(nn.functional.avg_pool2d(x, 2)).mean((2, 3), keepdim=True), dim=1)
def get_inputs(): return [torch.rand(2, 3, 8, 8)]
def get_init_inputs(): return []
"""


def test_statistics_of_groups_and_a_bound(tmp_path):
    """Expanded along channels, and the least of a tensor and a number."""
    text = SHARES.replace(
        "nn.ConvTranspose2d(3, 4, 3)", "nn.Sequential(nn.ConvTranspose2d(3, 8, 3), nn.GELU(), nn.GroupNorm(2, 8))"
    )
    line = "return torch.min(self.conv(x), torch.tensor(0.3))"
    text = "\n".join(f"        {line}" if "softmax" in old else old for old in text.splitlines())
    (tmp_path / "problem.py").write_text(text)
    theirs, ours, written = loaded(tmp_path / "problem.py")
    assert ".expand(" in written and "clamp_max" in written
    compare(theirs, ours, (2, 3, 8, 8), True)


def test_shares_of_an_infinite_row_are_nan(tmp_path):
    (tmp_path / "problem.py").write_text(SHARES)
    theirs, ours, _ = loaded(tmp_path / "problem.py")
    compare(theirs, ours, (2, 3, 8, 8), True)
    model = ours["ModelNew"]()
    with torch.no_grad():
        model.conv.bias[1] = torch.inf
        assert model(torch.rand(2, 3, 8, 8)).isnan().all()


def test_other_sizes_and_gradients_are_pytorchs_and_said_so(tmp_path):
    (tmp_path / "problem.py").write_text(SHARES)
    theirs, ours, text = loaded(tmp_path / "problem.py")
    assert "gradients" in text.partition("import")[0] and "other sizes" in text.partition("import")[0]
    torch.manual_seed(0)
    model = ours["ModelNew"]()
    torch.manual_seed(0)
    reference = theirs["Model"]()
    x = torch.rand(2, 3, 10, 6)
    with pytest.warns(ours["Left"], match=r"float32\[2, 3, 10, 6\] is none of the sizes"):
        torch.testing.assert_close(model(x), reference(x))
    with pytest.warns(ours["Left"], match="gradients of forward"):
        model(torch.rand(2, 3, 8, 8)).sum().backward()


def test_a_model_of_which_nothing_can_be_said_is_refused(tmp_path):
    odd = SHARES.replace("nn.functional.avg_pool2d(x, 2)", "torch.nn.functional.adaptive_max_pool2d(x, 5)")
    (tmp_path / "problem.py").write_text(odd)
    with pytest.raises(
        ProblemError, match=r"PyTorch's operators would compute all of it: forward .its .* is not written"
    ):
        emit.emit(tmp_path / "problem.py", emit.Request(device="cpu"))


NORMALISED = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(8, 8, 3, 2, 1, 1)
        self.norm = nn.BatchNorm2d(8)
    def forward(self, x):
        return torch.relu(self.norm(self.up(x)))
def get_inputs(): return [torch.rand(2, 8, 9, 10)]
def get_init_inputs(): return []
"""


def checked(reference, file, *words):
    script = root / "python" / "transfuse" / "emit" / "check.py"
    return subprocess.run(
        [sys.executable, script, reference, file, "device=cpu", "seeds=1", *words], capture_output=True, text=True
    )


def test_check_names_the_tensor_that_is_wrong(tmp_path):
    reference, file = tmp_path / "reference.py", tmp_path / "file.py"
    reference.write_text(NORMALISED)
    text = emit.emit(reference, emit.Request(device="cpu")).text
    file.write_text(text)
    run = checked(reference, file)
    assert run.returncode == 0 and "WRONG" not in run.stdout, run.stdout + run.stderr
    assert all(f"{mode} {dtype}" in run.stdout for mode in ("train", "eval") for dtype in ("fp16", "bf16"))
    wrong = re.sub(r"(    update\(.*, )0\.1\)", r"\g<1>0.2)", text)
    assert wrong != text
    file.write_text(wrong)
    run = checked(reference, file, "backward=0")
    assert run.returncode == 1 and "WRONG" in run.stdout, run.stdout + run.stderr
    assert "norm.running_mean: rms" in run.stdout and "output 0:" not in run.stdout
