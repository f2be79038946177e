"""Files with inline C++: right beside float64 at sizes they were not written at, and clear about what they refuse."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from transfuse import emit
from transfuse.emit import cpu_text
from transfuse.problem import ProblemError

root = Path(__file__).resolve().parents[2]
FALLEN = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(6, 10, 3, stride=2, padding=1, groups=2)
        self.second = nn.ConvTranspose2d(10, 8, (3, 2), stride=(2, 3), padding=1, output_padding=(1, 0), groups=2, dilation=(1, 2))
    def forward(self, x):
        return nn.functional.softplus(self.second(nn.functional.leaky_relu(self.first(x), 0.2)), beta=2.0)
def get_inputs(): return [torch.rand(4, 6, 32, 32)]
def get_init_inputs(): return []
"""


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path_factory.mktemp("extensions")))
        yield


def loaded(path):
    theirs, ours = {}, {"__name__": "emitted"}
    exec(path.read_text(), theirs)
    text = emit.emit(path, "cpu")
    exec(compile(text, "emitted", "exec"), ours)
    return theirs, ours, text


def off(got, truth) -> float:
    return ((got.double() - truth).pow(2).mean().sqrt() / truth.pow(2).mean().sqrt()).item()


def compare(theirs, ours, sizes, training):
    arguments = theirs["get_init_inputs"]()
    torch.manual_seed(5)
    reference = theirs["Model"](*arguments).train(training)
    torch.manual_seed(5)
    model = ours["ModelNew"](*arguments).train(training)
    x = torch.rand(sizes, requires_grad=True)
    wide = copy.deepcopy(reference).double()
    with torch.no_grad():
        alone = copy.deepcopy(model)(x)
    truth, got, other = wide(x.double()), model(x), reference(x)
    assert torch.equal(alone, got)
    assert got.shape == truth.shape and off(got, truth) <= max(1.2 * off(other, truth), 6e-8)
    for mine, exact in zip(model.buffers(), wide.buffers()):
        assert torch.allclose(mine.double(), exact.double(), rtol=1e-5, atol=1e-6)
    grads = [torch.autograd.grad(y.square().sum(), [x, *m.parameters()]) for y, m in ((got, model), (other, reference))]
    assert all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(*grads))


@pytest.mark.parametrize(
    "row, sizes", (("A", (2, 64, 9, 13)), ("C", (3, 64, 4, 5, 7)), ("d5", (2, 32, 11, 18)), ("f12", (3, 3, 5, 6, 9)))
)
def test_rows_beside_float64(row, sizes):
    theirs, ours, text = loaded(root / "bench" / "models" / f"{row}.py")
    assert text.count("\n") < 600 and "_rewritten(" in text
    for training in (True, False) if row == "C" else (True,):
        compare(theirs, ours, sizes, training)


def test_what_has_no_rewritten_form_is_computed_as_written(tmp_path):
    (tmp_path / "problem.py").write_text(FALLEN)
    theirs, ours, text = loaded(tmp_path / "problem.py")
    assert "lattice(" in text
    compare(theirs, ours, (3, 6, 11, 14), True)


SHARES = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.ConvTranspose2d(3, 4, 3)
    def forward(self, x):
        return torch.softmax(self.conv(x).mean((2, 3), keepdim=True), dim=1)
def get_inputs(): return [torch.rand(2, 3, 8, 8)]
def get_init_inputs(): return []
"""


POOLED = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1)
    def forward(self, x):
        return torch.softmax(self.up(nn.functional.avg_pool2d(x, 2)).clamp(-1, 1).flatten(2), 2)
def get_inputs(): return [torch.rand(2, 4, 8, 12)]
def get_init_inputs(): return []
"""


def test_a_pool_before_it_has_weights_of_its_own(tmp_path):
    (tmp_path / "pooled.py").write_text(POOLED)
    theirs, ours, text = loaded(tmp_path / "pooled.py")
    assert "torch.full(" in text
    compare(theirs, ours, (3, 4, 10, 6), True)


def test_shares_of_an_infinite_row_are_nan(tmp_path):
    (tmp_path / "problem.py").write_text(SHARES)
    theirs, ours, _ = loaded(tmp_path / "problem.py")
    compare(theirs, ours, (3, 3, 5, 7), True)
    model = ours["ModelNew"]()
    with torch.no_grad():
        model.conv.bias[1] = torch.inf
        assert model(torch.rand(2, 3, 5, 7)).isnan().all()


def test_refusals_name_what_was_expected():
    _, ours, _ = loaded(root / "bench" / "models" / "A.py")
    model = ours["ModelNew"](64, 128, 3, 2, 1, 1, 0.5)
    with pytest.raises(ValueError, match=r"x must have shape \('batch', 64, 'height', 'width'\), got \(1, 3, 4, 4\)"):
        model(torch.rand(1, 3, 4, 4))
    with pytest.raises(RuntimeError, match="written for CPU tensors, got x on meta"):
        model.to("meta")(torch.rand(1, 64, 4, 4, device="meta"))


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
    text = emit.emit(reference, "cpu")
    file.write_text(text)
    run = checked(reference, file)
    assert run.returncode == 0 and "WRONG" not in run.stdout, run.stdout + run.stderr
    update = "for t in running], found, "
    assert update + "0.1)" in text
    file.write_text(text.replace(update + "0.1)", update + "0.2)"))
    run = checked(reference, file, "backward=0")
    assert run.returncode == 1 and "WRONG" in run.stdout, run.stdout + run.stderr
    assert "norm.running_mean: rms" in run.stdout and "output 0:" not in run.stdout


def test_check_tries_sixteen_bits(tmp_path):
    """In a file for fp32, and the other sixteen bits in one for some."""
    reference, file = tmp_path / "reference.py", tmp_path / "file.py"
    reference.write_text(NORMALISED)
    file.write_text(emit.emit(reference, "cpu"))
    run = checked(reference, file)
    assert run.returncode == 0, run.stdout + run.stderr
    assert all(f"{mode} {dtype}" in run.stdout for mode in ("train", "eval") for dtype in ("fp16", "bf16"))
    run = checked(reference, file, "dtype=bfloat16", "backward=0")
    assert "train fp16" in run.stdout and "train bf16" not in run.stdout
    rounds = file.read_text().replace("x.new_zeros(2, x.shape[1], dtype=wide)", "x.new_zeros(2, x.shape[1])")
    assert rounds != file.read_text()
    file.write_text(rounds)  # PyTorch refuses 16 bits beside fp32
    assert checked(reference, file).returncode == 1
    run = checked(reference, file, "dtype=float64")
    assert run.returncode == 0 and "fp16" not in run.stdout, run.stdout + run.stderr


SEVERAL = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 8)
        self.up = nn.ConvTranspose1d(8, 6, 4, 2, 1)
        self.flat = nn.ConvTranspose2d(6, 6, 3)
    def forward(self, i, image):
        y = self.up(self.table(i).transpose(1, 2))
        return {"signal": torch.tanh(y), "rest": (self.flat(image), [self.up(y[:, :1].expand(-1, 8, -1)).mean()])}
def get_inputs(): return [torch.randint(0, 10, (2, 20)), torch.rand(6, 9, 7)]
def get_init_inputs(): return []
"""


def test_indices_images_without_a_batch_and_results_without_axes(tmp_path):
    reference, file = tmp_path / "reference.py", tmp_path / "file.py"
    reference.write_text(SEVERAL)
    file.write_text(emit.emit(reference, "cpu"))
    run = checked(reference, file)
    assert run.returncode == 0 and run.stdout.count("right") == 6, run.stdout + run.stderr


DROPPED = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 3, 2, 1)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5)
    def forward(self, x):
        return self.drop(self.norm(self.up(x)))
def get_inputs(): return [torch.rand(2, 3, 8, 8)]
def get_init_inputs(): return []
"""


def test_short_sums_before_a_norm_and_random_numbers(tmp_path):
    """Sums in double meet parameters in fp32; both sides draw the same numbers."""
    reference, file = tmp_path / "reference.py", tmp_path / "file.py"
    reference.write_text(DROPPED)
    file.write_text(emit.emit(reference, "cpu"))
    run = checked(reference, file)
    said = run.stdout + run.stderr
    assert run.returncode == 0 and run.stdout.count("right") == 12, said  # other sizes and arithmetics, too


def test_dropout_behind_one_convolution_alone(tmp_path):
    reference = tmp_path / "reference.py"
    # of groups, whose kernels are short to write
    text = DROPPED.replace("self.norm(self.up(x))", "self.up(x)").replace(
        "(3, 4, 3, 2, 1)", "(3, 3, 3, 2, 1, groups=3)"
    )
    reference.write_text(text)
    assert "class ModelNew" in emit.emit(reference, "cuda")


def test_inputs_in_a_dictionary_are_refused(tmp_path):
    reference = tmp_path / "reference.py"
    text = DROPPED.replace("self.up(x)", 'self.up(x["x"])').replace(
        "[torch.rand(2, 3, 8, 8)]", '[{"x": torch.rand(2, 3, 8, 8)}]'
    )
    reference.write_text(text)
    with pytest.raises(ProblemError, match="holds a dict"):
        emit.emit(reference, "cpu")


def test_differentiated_again_where_a_leaf_comes_from_another():
    names = {"torch": torch}
    exec(cpu_text.DIFFERENTIATED, names)
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    y = x.tanh()
    with torch.enable_grad():
        (by_x, by_y) = names["differentiated"](lambda _, a, b: (a * b.square(),), [x, y], [torch.ones_like(x)])
    torch.testing.assert_close((by_x, by_y), (y.square(), 2 * x * y))
    (again,) = torch.autograd.grad((by_x + by_y).sum(), x)
    torch.testing.assert_close(again, 2 * y + (2 * x + 2 * y) * (1 - y.square()))
