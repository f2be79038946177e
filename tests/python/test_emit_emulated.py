"""What the plans of emitted files compute, beside float64: forward and gradients, with TF32 and in full fp32."""

import copy
import warnings

import pytest
import torch
from emitted import deviation, emulated, namespace, needs_compiler
from torch.utils._python_dispatch import TorchDispatchMode

from transfuse import emit

pytestmark = needs_compiler

COLLAPSED = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(6, 10, 3, 2, 1, 1)
        self.norm = nn.BatchNorm2d(10)
    def forward(self, x):
        return torch.tanh(self.norm(self.up(x)).mean((2, 3), keepdim=True))
def get_inputs(): return [torch.rand(3, 6, 8, 12)]
def get_init_inputs(): return []
"""
DENSE = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(16, 32, 3, 1, 1)
    def forward(self, x):
        return torch.relu(self.up(x))
def get_inputs(): return [torch.rand(2, 16, 6, 16)]
def get_init_inputs(): return []
"""


def both(text: str, ours: dict, training: bool) -> tuple:
    """The file's model, the reference, and the reference in float64."""
    made = []
    for model in (ours["ModelNew"], namespace(text)["Model"]):
        torch.manual_seed(0)
        made.append(model().train(training))
    return *made, copy.deepcopy(made[1]).double()


def gradients(model, x: torch.Tensor, of_input: bool) -> list[torch.Tensor]:
    x = x.clone().requires_grad_(of_input)
    y = model(x)
    wanted = [*model.parameters(), *([x] if of_input else [])]
    given = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape)
    return [y.detach(), *torch.autograd.grad(y, wanted, given)]


def close(found: torch.Tensor, theirs: torch.Tensor, truth: torch.Tensor, least: float) -> bool:
    if truth.abs().max() < 1e-12:  # a bias before a norm
        return bool(found.abs().max() < 1e-5)
    return deviation(found, truth) <= max(1.2 * deviation(theirs, truth), least)


@pytest.fixture(scope="module")
def collapsed(tmp_path_factory) -> tuple:
    folder = tmp_path_factory.mktemp("collapsed")
    (folder / "problem.py").write_text(COLLAPSED)
    file = emit.emit(folder / "problem.py", emit.Request(sizes=("2x6x5x7",), precisions=("strict",)))
    ours, run = emulated(file.text, folder, False)
    return ours | {"TEXT": file.text}, run


@pytest.mark.parametrize("training", (True, False))
@pytest.mark.parametrize("shape", ((3, 6, 8, 12), (2, 6, 5, 7)))
def test_a_collapsed_model_in_both_modes(collapsed, training, shape):
    ours, run = collapsed
    new, model, wide = both(COLLAPSED, ours, training)
    x = torch.rand(shape)
    run.ran.clear()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert close(new(x), model(x), wide(x.double()), 1e-7)
    assert len(run.ran) == 1
    for mine, exact in zip(new.buffers(), wide.buffers()):
        torch.testing.assert_close(mine.double(), exact.double(), rtol=1e-5, atol=1e-6)
    new, model, wide = both(COLLAPSED, ours, training)
    for of_input in (False, True):
        run.ran.clear()
        found = gradients(new, x, of_input)
        assert len(run.ran) == 2
        for f, t, e in zip(found, gradients(model, x, of_input), gradients(wide, x.double(), of_input), strict=True):
            assert close(f, t, e, 3e-7)


def test_what_no_plan_computes_is_differentiated_by_pytorch(collapsed):
    ours, _ = collapsed
    new, model, _ = both(COLLAPSED, ours, False)
    x = torch.rand(3, 6, 8, 12, requires_grad=True)
    found = []
    for owner in (new, model):
        y = owner(x)
        (first,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        found.append([first, *torch.autograd.grad(first.square().sum(), [x, owner.up.weight])])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-8)
    (
        new.norm.weight.requires_grad_(False),
        model.norm.weight.requires_grad_(False),
    )  # some parameters: no plan of their own
    found = [torch.autograd.grad(owner(x.detach()).sum(), owner.up.weight)[0] for owner in (new, model)]
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-8)
    many = [torch.autograd.grad(owner(x), x, torch.eye(30).view(30, 3, 10, 1, 1), is_grads_batched=True)[0]
            for owner in (new, model)]  # fmt: skip
    torch.testing.assert_close(*many, rtol=1e-4, atol=1e-8)


def test_a_bias_may_change_before_backward_and_a_tensor_that_is_read_may_not(collapsed):
    ours, _ = collapsed
    new, model, _ = both(COLLAPSED, ours, False)
    found = []
    for owner in (new, model):
        y = owner(torch.ones(3, 6, 8, 12))
        with torch.no_grad():
            owner.norm.running_var.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
        found.append(owner)
    assert len(found) == 2


def test_tensors_in_another_layout_are_pytorchs(collapsed):
    ours, run = collapsed
    new, model, _ = both(COLLAPSED, ours, False)
    x = torch.rand(3, 6, 8, 12).contiguous(memory_format=torch.channels_last)
    run.ran.clear()
    with torch.no_grad(), pytest.warns(ours["Left"], match="another dtype or layout"):
        torch.testing.assert_close(new(x), model(x))
    memory = torch.rand(3 * 6 * 8 * 12 + 1)[1:].view(3, 6, 8, 12)
    with torch.no_grad(), pytest.warns(ours["Left"], match="does not begin on 16 bytes"):
        torch.testing.assert_close(new(memory), model(memory))
    assert run.ran == []


@pytest.mark.parametrize("tf32", (True, False))
def test_a_dense_model_in_both_arithmetics(tmp_path, tf32):
    (tmp_path / "problem.py").write_text(DENSE)
    text = emit.emit(tmp_path / "problem.py").text
    ours, run = emulated(text, tmp_path, tf32)
    new, model, wide = both(DENSE, ours, True)
    x = torch.rand(2, 16, 6, 16)
    for f, t, e in zip(
        gradients(new, x, True), gradients(model, x, True), gradients(wide, x.double(), True), strict=True
    ):
        assert close(f, t, e, 5e-4 if tf32 else 3e-7)
    assert len(run.ran) == 2


def test_how_pytorch_multiplies_is_asked_and_switches_stay(collapsed, monkeypatch):
    """On a CPU no convolution rounds to TF32."""
    space = namespace(collapsed[0]["TEXT"])
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    read = lambda *switch: torch._C._get_fp32_precision_getter(*switch)  # noqa: E731
    before = [(read("cuda", "conv"), space["setting"](("cuda", "conv"))), torch.backends.cudnn.allow_tf32]
    assert space["allows_tf32"]() == torch.backends.cudnn.allow_tf32
    with pytest.raises(ZeroDivisionError), space["in_full_fp32"]():
        assert read("cuda", "conv") == "ieee" and not space["allows_tf32"]()
        raise ZeroDivisionError
    assert before == [(read("cuda", "conv"), space["setting"](("cuda", "conv"))), torch.backends.cudnn.allow_tf32]
    call = next(call for call in space["_calls"].values() if call.name == "train")
    leaves = [torch.rand(3, 6, 8, 12), torch.rand(6, 10, 3, 3), *(torch.rand(10) for _ in range(3))]
    assert space["rounds"](call, leaves, (), (1, 2), None) == (False, False)
    drawn = torch.random.get_rng_state()
    for rounds in (False, True):
        space["_rounding"].clear()
        with Rounding(rounds):
            assert space["rounds"](call, leaves, (), (0, 1), None) == (rounds, rounds)
    assert torch.equal(torch.random.get_rng_state(), drawn)


class Rounding(TorchDispatchMode):
    """A library whose convolutions keep ten bits of their operands' mantissas, or all."""

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def __torch_dispatch__(self, operator, types, arguments=(), named=None):
        if self.rounds and operator in (
            torch.ops.aten.convolution.default,
            torch.ops.aten.convolution_backward.default,
        ):
            arguments = [
                (a.view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32)
                if torch.is_tensor(a) and a.dim() == 4
                else a
                for a in arguments
            ]
        return operator(*arguments, **(named or {}))
