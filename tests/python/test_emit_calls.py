"""What a call of an emitted file hands to its kernels, and what it looks at again when tensors have changed; no GPU needed."""

import struct

import pytest
import torch
from torch import nn

from emitted import example, namespace, root

STREAM = 0x7F00_1234_5678  # streams are pointers: more than 32 bits


class Recorder:
    """In place of the kernels: what they were asked for and launched with."""

    def __init__(self, row: str, monkeypatch, need=1000):
        monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: STREAM, raising=False)
        self.asked, self.launched, self.need = [], [], need
        self.space = namespace(example(row).replace("if not leaves[0].is_cuda:", "if False:"))
        self.space["compiled"] = lambda name, *_: (lambda *given: self.called(name, *given), 90)
        theirs = namespace((root / "bench" / "models" / f"{row}.py").read_text())
        self.model = self.space["ModelNew"](*theirs["get_init_inputs"]()).eval()

    def called(self, name, at, counts, stream, arch, asks):
        pointers = list(struct.unpack(f"{len(at) // 8}P", at))
        (self.asked if asks else self.launched).append((name, pointers, list(counts)))
        assert asks or stream.value == STREAM
        return self.need if asks else 0


def leaves_of(model) -> list[torch.Tensor]:
    convolution, norm = model.conv_transpose, model.batch_norm
    return [convolution.weight, convolution.bias, norm.weight, norm.bias, norm.running_mean, norm.running_var]


@pytest.mark.parametrize("gradients", [False, True])
def test_a_repeated_call_is_handed_what_the_tensors_are_now(gradients, monkeypatch):
    calls = Recorder("C", monkeypatch)
    model, x = calls.model, torch.rand(2, 64, 3, 4, 32)
    with torch.set_grad_enabled(gradients):
        y = model(x)
        name, pointers, counts = calls.launched[-1]
        assert (name, counts, y.shape) == ("eval", [2, 3, 4, 32], (2, 128, 1, 1, 1))
        assert pointers[:7] == [t.data_ptr() for t in (x, *leaves_of(model))] and pointers[7] == y.data_ptr()
        assert y.requires_grad == gradients and len(pointers) == 9  # the last is workspace
        model.batch_norm.running_mean.add_(1)
        model.conv_transpose.bias.data = torch.rand(128)
        model.batch_norm.weight = nn.Parameter(torch.rand(128))
        again = torch.rand(2, 64, 3, 4, 32)
        model(again)
        assert calls.launched[-1][1][:7] == [t.data_ptr() for t in (again, *leaves_of(model))]
        assert len(calls.asked) == 1
        model(torch.rand(3, 64, 3, 4, 32))  # another size
        assert calls.launched[-1][2] == [3, 3, 4, 32] and len(calls.asked) == 2
        shifted = torch.rand(2 * 64 * 3 * 4 * 32 + 1)[1:].view(2, 64, 3, 4, 32)
        model(shifted)  # the kernels decide by where pointers lie
        assert calls.launched[-1][1][0] == shifted.data_ptr() and len(calls.asked) == 3
        model(x.transpose(2, 3).contiguous().transpose(2, 3))  # is made contiguous
        assert len(calls.launched) == 5 and len(calls.asked) == 3
        model.conv_transpose.bias.data = torch.rand(2, 64)
        with pytest.raises(ValueError, match=r"bias must have shape \(128,\), got \(2, 64\)"):
            model(x)
        model.conv_transpose.bias.data = torch.rand(128).double()
        with pytest.raises(ValueError, match="bias must be fp32 or 16 bits"):
            model(x)
    assert len(calls.launched) == 5


def test_16_bits_take_the_fp32_kernels_and_come_back(monkeypatch):
    calls = Recorder("C", monkeypatch)
    calls.model.bfloat16().train()
    with torch.no_grad():
        found = calls.space["run"]("train", torch.rand(2, 64, 3, 4, 32).bfloat16(), *leaves_of(calls.model)[:4])
    assert [t.dtype for t in found] == [torch.bfloat16, torch.float32, torch.float32]  # statistics stay fp32
    assert not set(calls.launched[-1][1]) & {t.data_ptr() for t in calls.model.parameters()}


def test_outputs_have_the_leaves_dtype_and_statistics_fp32(monkeypatch):
    """Of kernels that take 16 bits themselves."""
    calls = Recorder("A", monkeypatch)
    with torch.no_grad():
        assert calls.model.half()(torch.rand(2, 64, 4, 16).half()).dtype == torch.float16
    assert calls.launched[-1][1][1] == calls.model.conv_transpose.weight.data_ptr()


@pytest.mark.parametrize("row", ["A", "C"])
def test_parameters_are_found_without_the_search_of_nn_module(row, monkeypatch):
    """Which takes as long as all else: in eval mode kernels are short."""
    calls = Recorder(row, monkeypatch)
    x = torch.rand(2, 64, 4, 32) if row == "A" else torch.rand(2, 64, 3, 4, 32)
    with torch.no_grad():
        calls.model(x)
        monkeypatch.setattr(nn.Module, "__getattr__", lambda self, name: pytest.fail(f"searched for {name}"))
        calls.model(x)
    assert len(calls.launched) == 2
