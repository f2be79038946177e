"""On a GPU: the rows, gradients, streams, CUDA graphs, precision switches and layouts."""

import copy

import pytest
import torch
import zoo
from torch import nn

import transfuse
from transfuse.bench import accuracy

pytestmark = pytest.mark.gpu


def on_gpu(name, dtype=torch.float32):
    model, inputs = zoo.model(name)
    return model.cuda().to(dtype), [t.cuda().to(dtype) for t in inputs]


@pytest.fixture
def strict_fp32():
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


def verdict(ours, model, inputs, run):
    wide, wide_inputs = accuracy.clone64(model, inputs)
    mine, theirs, truth = run(ours, inputs), run(copy.deepcopy(model), inputs), run(wide, wide_inputs)
    return accuracy.verdict(accuracy.errors(mine, truth), accuracy.errors(theirs, truth), [t.dtype for t in theirs])


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", [*zoo.ROWS, *zoo.WHOLE])
def test_rows(name, mode, no_fallback, strict_fp32):
    model, inputs = on_gpu(name)
    model.train(mode == "train")
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    assert verdict(ours, model, inputs, zoo.outputs) == "right"


@pytest.mark.parametrize("name", ["A", "B", "C", "D", "d5", "f1", "f3", "f6", "dcgan", "unet"])
def test_gradients(name, no_fallback, strict_fp32):
    model, inputs = on_gpu(name)
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    zoo_run = zoo.outputs_and_gradients
    wide, wide_inputs = accuracy.clone64(model, inputs)
    mine, truth = zoo_run(ours, inputs), zoo_run(wide, wide_inputs)
    for a, b in zip(mine, truth):
        assert torch.allclose(a.double(), b, rtol=1e-3, atol=1e-3 * max(1.0, b.abs().max().item()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["A", "B", "D", "d5", "f1", "f7", "f8", "f11"])
def test_sixteen_bits(name, dtype, no_fallback):
    model, inputs = on_gpu(name, dtype)
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    assert verdict(ours, model, inputs, zoo.outputs) == "right"


def test_tf32_follows_pytorchs_switch(no_fallback):
    model, inputs = on_gpu("D")
    ours = transfuse.optimize(model, tuple(inputs), never_slower=False)
    exact = copy.deepcopy(model).double()(inputs[0].double())
    errors = {}
    before = torch.backends.cudnn.allow_tf32
    for allowed in (True, False):
        torch.backends.cudnn.allow_tf32 = allowed
        with torch.no_grad():
            errors[allowed] = (ours(*inputs) - exact).abs().max().item()
    torch.backends.cudnn.allow_tf32 = before
    assert errors[False] < 1e-5 and errors[False] <= errors[True]


def test_side_stream_and_cuda_graph(no_fallback):
    model, inputs = on_gpu("A")
    ours = transfuse.optimize(model, tuple(inputs), never_slower=False)
    x = inputs[0].clone()
    with torch.no_grad():
        expected = model(x)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                side = ours(x)
        torch.cuda.current_stream().wait_stream(stream)
        assert torch.allclose(side, expected, rtol=1e-3, atol=1e-4)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = ours(x)
        x.copy_(torch.rand_like(x))
        model.conv_transpose.weight.mul_(1.25)  # weights are prepared inside the graph: never stale
        graph.replay()
        assert torch.allclose(captured, model(x), rtol=1e-3, atol=1e-4)


def test_channels_last(no_fallback):
    model = nn.Sequential(nn.ConvTranspose2d(16, 32, 3, stride=2), nn.ReLU()).cuda().to(memory_format=torch.channels_last)
    x = torch.randn(2, 16, 12, 12, device="cuda").contiguous(memory_format=torch.channels_last)
    ours = transfuse.optimize(model, x, never_slower=False)
    with torch.no_grad():
        got, expected = ours(x), model(x)
    assert torch.allclose(got, expected, rtol=1e-2, atol=1e-2)
    assert got.is_contiguous(memory_format=torch.channels_last) == expected.is_contiguous(memory_format=torch.channels_last)


def test_autocast(no_fallback):
    model = nn.Sequential(nn.ConvTranspose2d(16, 32, 3, stride=2), nn.BatchNorm2d(32), nn.ReLU()).cuda()
    x = torch.randn(2, 16, 12, 12, device="cuda")
    plain = copy.deepcopy(model)
    ours = transfuse.optimize(model, x, never_slower=False)
    with torch.autocast("cuda", dtype=torch.float16):
        got, expected = ours(x), plain(x)
        assert got.dtype is expected.dtype and torch.allclose(got, expected, rtol=2e-2, atol=2e-2)


def test_moving_a_model(no_fallback):
    model, inputs = zoo.model("A")
    ours = transfuse.optimize(model, tuple(inputs), never_slower=False)
    with torch.no_grad():
        expected = ours(*inputs)
        ours.cuda()
        got = ours(*[t.cuda() for t in inputs])
        assert got.is_cuda and torch.allclose(got.cpu(), expected, rtol=1e-3, atol=1e-4)
        ours.cpu()
        assert torch.allclose(ours(*inputs), expected)


def test_tensors_on_two_devices_get_pytorchs_error():
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU()).cuda()
    ours = transfuse.optimize(model, torch.randn(1, 3, 4, 4, device="cuda"))
    with pytest.raises(RuntimeError):
        ours(torch.randn(1, 3, 4, 4))


def test_a_hundred_sizes_compile_little(no_fallback):
    model = nn.Sequential(nn.ConvTranspose1d(16, 16, 4, stride=2, padding=1), nn.LeakyReLU(0.1)).cuda().eval()
    ours = transfuse.optimize(model, torch.randn(2, 16, 64, device="cuda"), never_slower=False)
    with torch.no_grad():
        for length in range(32, 132):
            x = torch.randn(2, 16, length, device="cuda")
            assert torch.allclose(ours(x), model(x), rtol=1e-2, atol=1e-2)
