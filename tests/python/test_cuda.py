"""On a GPU: the rows in every precision and layout, borders, gradients, streams, CUDA graphs, precision switches, tensors
beyond 2^31 elements, and the numerics that collapsing and statistics promise."""

import copy
import os
import subprocess
import sys
import threading

import pytest
import torch
import zoo
from torch import nn

import transfuse
from transfuse.bench import accuracy, peers

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


def laid_out(model, inputs, layout):
    """Model and inputs in a memory format, where they have the rank for it."""
    if layout == "channels_last":
        model = copy.deepcopy(model)
        for parameter in model.parameters():
            if parameter.dim() == inputs[0].dim():
                parameter.data = peers.laid_out(parameter.data, True)
        inputs = [peers.laid_out(t, True) for t in inputs]
    return model, inputs


def same_bits(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def verdict(ours, model, inputs, run):
    return zoo.verdict_of_draws(ours, model, inputs, run, draws=(1, 8, 32), fresh=zoo.shuffled)[0]


CASES = [(name, "train") for name in zoo.ROWS] + [(name, "eval") for name in ("C", "f5", "f10")]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


# (The first of several parametrisations varies fastest: all rows in fp32 come before any in 16 bits.)
@pytest.mark.parametrize("name, mode", CASES)
@pytest.mark.parametrize("dtype", DTYPES, ids=["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_rows(name, mode, dtype, layout, no_fallback, strict_fp32):
    model, inputs = laid_out(*on_gpu(name, dtype), layout)
    model.train(mode == "train")
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    assert verdict(ours, model, inputs, zoo.outputs) == "right"
    assert same_bits(zoo.outputs(copy.deepcopy(ours), inputs), zoo.outputs(copy.deepcopy(ours), inputs))


def test_an_empty_batch():
    model = nn.Sequential(nn.ConvTranspose2d(4, 6, 3, stride=2), nn.ReLU()).cuda()
    ours = transfuse.optimize(copy.deepcopy(model), torch.randn(2, 4, 5, 5, device="cuda"))
    x = torch.randn(0, 4, 5, 5, device="cuda")
    with torch.no_grad():
        assert ours(x).shape == model(x).shape == (0, 6, 11, 11)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.over_time = nn.ConvTranspose1d(4, 6, 4, stride=2), nn.LSTM(6, 5, batch_first=True)

    def forward(self, x):
        return self.over_time(self.up(x).relu().transpose(1, 2))[0]


def test_recurrent_layers_beside_convolutions(no_fallback, strict_fp32):
    model, x = Recurrent().cuda().eval(), torch.randn(2, 4, 9, device="cuda")
    with torch.no_grad():
        ours = transfuse.optimize(copy.deepcopy(model), (x,), never_slower=False)
        torch.testing.assert_close(ours(x), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["A", "B", "C", "D", "d2", "d3", "d5", "d6", "f1", "f3", "f6", "f8", "dcgan", "unet"])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_gradients(name, layout, no_fallback, strict_fp32):
    model, inputs = laid_out(*on_gpu(name), layout)
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    zoo_run = zoo.outputs_and_gradients
    wide, wide_inputs = accuracy.clone64(model, inputs)
    mine, truth = zoo_run(ours, inputs), zoo_run(wide, wide_inputs)
    for a, b in zip(mine, truth):
        assert torch.allclose(a.double(), b, rtol=1e-4, atol=1e-4 * max(1.0, b.abs().max().item()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["A", "D", "f1"])
def test_gradients_in_sixteen_bits(name, dtype, no_fallback):
    model, inputs = on_gpu(name, dtype)
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    assert verdict(ours, model, inputs, zoo.outputs_and_gradients) == "right"


def large_enough_for_tf32():
    """Small problems are multiplied in strict fp32 whatever is allowed, as cuDNN does."""
    torch.manual_seed(0)
    model = torch.nn.ConvTranspose2d(64, 128, (3, 5), bias=False).cuda()
    return model, [torch.rand(4, 64, 64, 128, device="cuda")]


def test_the_newer_precision_switch(no_fallback):
    model, inputs = large_enough_for_tf32()
    exact = copy.deepcopy(model).double()(inputs[0].double())
    ours = transfuse.optimize(model, tuple(inputs), never_slower=False)
    before = torch.backends.cudnn.conv.fp32_precision
    try:
        results = {}
        for precision in ("tf32", "ieee"):
            torch.backends.cudnn.conv.fp32_precision = precision
            results[precision] = zoo.outputs(ours, inputs)[0]
    finally:
        torch.backends.cudnn.conv.fp32_precision = before
    error = {precision: (result - exact).abs().max().item() for precision, result in results.items()}
    assert error["ieee"] < 2e-6 < error["tf32"] < 1e-2


# cuDNN uses TF32 for some of these and not for others.
ALLOWED_TF32 = {
    "few channels": (nn.ConvTranspose2d(3, 6, 4, stride=2), (4, 3, 64, 64)),
    "some channels": (nn.ConvTranspose2d(16, 16, 3), (4, 16, 96, 96)),
    "many channels": (nn.ConvTranspose2d(64, 128, (3, 5), bias=False), (4, 64, 64, 128)),
    "a large kernel": (nn.ConvTranspose3d(16, 32, 5, stride=2, padding=2), (2, 16, 16, 16, 16)),
    "convolution": (nn.Conv2d(8, 48, 3, padding=1), (4, 8, 96, 96)),
    "one dimension": (nn.ConvTranspose1d(64, 32, 8, stride=4, padding=2), (4, 64, 2000)),
    "groups": (nn.ConvTranspose2d(32, 64, 3, groups=2), (4, 32, 64, 64)),
}


@pytest.mark.parametrize("case", ALLOWED_TF32)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_errors_are_like_pytorchs_where_tf32_is_allowed(case, layout, no_fallback):
    module, shape = ALLOWED_TF32[case]
    # (Smooth: where rounding decides a sign, a gradient is another, by luck in ours or in PyTorch's.)
    model = nn.Sequential(copy.deepcopy(module), nn.GELU()).cuda()
    model, inputs = laid_out(model, [torch.randn(shape, device="cuda")], layout)
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    switches = torch.backends.cudnn.allow_tf32, torch.backends.cudnn.conv.fp32_precision
    assert verdict(ours, model, inputs, zoo.outputs_and_gradients) == "right"
    assert switches == (torch.backends.cudnn.allow_tf32, torch.backends.cudnn.conv.fp32_precision) == (True, "tf32")
    assert "PyTorch multiplies in" in str(transfuse.report(ours))


class Shares(nn.Module):
    """Behind a softmax the products' rounding has become small beside 1: what follows must be as exact as PyTorch's."""

    def __init__(self, channels, follows):
        super().__init__()
        self.convolution = nn.ConvTranspose2d(32, channels, 4, stride=2, padding=1)
        self.bias = nn.Parameter(torch.randn(channels, 1, 1))
        self.follows = follows

    def forward(self, x):
        return self.follows(torch.softmax(self.convolution(x), dim=1) + self.bias)


@pytest.mark.parametrize("channels", [16, 64, 128])
@pytest.mark.parametrize("follows", [torch.tanh, torch.sigmoid, nn.functional.gelu, nn.functional.silu, torch.exp])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_functions_of_shares_are_as_exact_as_pytorchs(channels, follows, layout, no_fallback):
    torch.manual_seed(0)
    model, inputs = laid_out(Shares(channels, follows).cuda(), [torch.randn(8, 32, 64, 64, device="cuda")], layout)
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    assert verdict(ours, model, inputs, zoo.outputs) == "right"


def test_tf32_follows_pytorchs_switch(no_fallback):
    model, inputs = large_enough_for_tf32()
    ours = transfuse.optimize(model, tuple(inputs), never_slower=False)
    exact = copy.deepcopy(model).double()(inputs[0].double())
    errors = {}
    before = torch.backends.cudnn.allow_tf32
    for allowed in (True, False):
        torch.backends.cudnn.allow_tf32 = allowed
        with torch.no_grad():
            errors[allowed] = (ours(*inputs) - exact).abs().max().item()
    torch.backends.cudnn.allow_tf32 = before
    assert errors[False] < 2e-6 < errors[True] < 1e-2


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


def test_streams_and_graphs_have_scratch_memory_of_their_own(no_fallback):
    """Small scratch is kept for a thread's next call on the same stream: other streams, graphs replayed beside them and other
    threads must never share it, and what streams take turns over does not grow."""
    model, inputs = on_gpu("A")
    ours = transfuse.optimize(model, tuple(inputs), never_slower=False)
    given = [torch.rand_like(inputs[0]) for _ in range(3)]
    with torch.no_grad():
        expected = [ours(x).clone() for x in given]
        streams = [torch.cuda.Stream() for _ in given]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=streams[0]):
            captured = ours(given[0])
        torch.cuda.synchronize()
        allocated = None
        for _ in range(20):
            results = []
            with torch.cuda.stream(streams[0]):
                graph.replay()
            for x, stream in zip(given[1:], streams[1:], strict=True):
                with torch.cuda.stream(stream):
                    results.append([ours(x) for _ in range(3)])
            thread = threading.Thread(target=_call_on, args=(ours, given[2], streams[1], results))
            thread.start(), thread.join()
            torch.cuda.synchronize()
            assert torch.equal(captured, expected[0])
            for got, wanted in zip(results, (expected[1], expected[2], expected[2]), strict=True):
                assert all(torch.equal(r, wanted) for r in got)
            del results, got
            allocated = allocated or torch.cuda.memory_allocated()
        assert torch.cuda.memory_allocated() <= allocated


def _call_on(module, x, stream, results):
    with torch.no_grad(), torch.cuda.stream(stream):
        results.append([module(x) for _ in range(3)])


def test_channels_last(no_fallback):
    model = (
        nn.Sequential(nn.ConvTranspose2d(16, 32, 3, stride=2), nn.ReLU()).cuda().to(memory_format=torch.channels_last)
    )
    x = torch.randn(2, 16, 12, 12, device="cuda").contiguous(memory_format=torch.channels_last)
    ours = transfuse.optimize(model, x, never_slower=False)
    with torch.no_grad():
        got, expected = ours(x), model(x)
    assert torch.allclose(got, expected, rtol=1e-2, atol=1e-2)
    assert got.is_contiguous(memory_format=torch.channels_last) == expected.is_contiguous(
        memory_format=torch.channels_last
    )


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


def test_a_hundred_sizes_are_right(no_fallback):
    model = nn.Sequential(nn.ConvTranspose1d(16, 16, 4, stride=2, padding=1), nn.LeakyReLU(0.1)).cuda().eval()
    ours = transfuse.optimize(model, torch.randn(2, 16, 64, device="cuda"), never_slower=False)
    with torch.no_grad():
        for length in range(32, 132):
            x = torch.randn(2, 16, length, device="cuda")
            assert torch.allclose(ours(x), model(x), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("freeze", [False, True])
def test_tensors_that_begin_anywhere(freeze, no_fallback, strict_fp32):
    """Other kernels, other packed weights, another workspace: each call must find its own."""
    model = nn.Sequential(nn.ConvTranspose2d(24, 33, 3, stride=2), nn.GroupNorm(3, 33), nn.SiLU()).cuda().eval()
    x = torch.randn(3, 24, 8, 8, device="cuda")
    shifted = torch.empty(x.numel() + 1, device="cuda")[1:].view_as(x).copy_(x)
    ours = transfuse.optimize(model, x, freeze=freeze, never_slower=False)
    with torch.no_grad():
        for given in (x, shifted, x, shifted):
            assert torch.allclose(ours(given), model(given), rtol=1e-4, atol=1e-5)


USER = """
import sys, torch, transfuse
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.ConvTranspose2d(32, 48, 4, 2, 1), nn.BatchNorm2d(48), nn.ReLU(), nn.Conv2d(48, 8, 3, padding=1)).cuda()
x = torch.randn(4, 32, 20, 20, device="cuda")
ours = transfuse.optimize(model, x, never_slower=False, require_full_compilation=True)
ours(x).square().mean().backward()
print(ours(x).double().abs().mean().item(), model[0].weight.grad.double().abs().mean().item())
"""


def test_a_warm_cache_serves_another_process_without_a_compilation(tmp_path):
    """Whatever is compiled is kept in the folder: a second process adds nothing to it."""

    def use():
        environment = dict(os.environ, TRANSFUSE_CACHE_DIR=str(tmp_path), PYTHONPATH=os.pathsep.join(sys.path))
        run = subprocess.run([sys.executable, "-c", USER], capture_output=True, text=True, env=environment, timeout=100)
        assert run.returncode == 0, run.stderr[-2000:]
        return run.stdout, {file.name: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}

    (first, made), (second, left) = use(), use()
    assert first == second and len(made) >= 3 and made == left


TUNER = """
import torch, transfuse
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU()).cuda().eval()
x = torch.randn(8, 32, 32, 32, device="cuda")
with torch.no_grad():
    assert torch.allclose(transfuse.optimize(model, x, never_slower=False)(x), model(x), rtol=1e-2, atol=1e-2)
"""


def test_what_was_tuned_is_remembered(tmp_path):
    """The first process measures configurations, the second finds the fastest beside the compiled kernels."""

    def use():
        environment = dict(os.environ, TRANSFUSE_CACHE_DIR=str(tmp_path), PYTHONPATH=os.pathsep.join(sys.path))
        environment |= {"TRANSFUSE_AUTOTUNE": "1", "TRANSFUSE_LOG": "1"}
        run = subprocess.run(
            [sys.executable, "-c", TUNER], capture_output=True, text=True, env=environment, timeout=100
        )
        assert run.returncode == 0, run.stderr[-2000:]
        return run.stderr.count("transfuse: tuning pass")

    assert use() > 5
    assert use() == 0


@pytest.mark.parametrize("momentum", [0.1, None])
def test_running_statistics(momentum, no_fallback, strict_fp32):
    """Unbiased variances by momentum, or the mean of all batches so far; over several calls."""
    model = nn.Sequential(
        nn.ConvTranspose2d(8, 12, 3, stride=2), nn.BatchNorm2d(12, momentum=momentum), nn.ReLU()
    ).cuda()
    plain, x = copy.deepcopy(model), torch.randn(4, 8, 9, 10, device="cuda")
    ours = transfuse.optimize(model, x, never_slower=False)
    for turn in range(3):
        for module in (ours, plain):
            module(x * (turn + 1) + turn)
    for mine, theirs in zip(model[1].buffers(), plain[1].buffers(), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["B", "C", "D", "f7", "f8", "f9"])
def test_cuda_graphs_see_new_weights_and_inputs(name, no_fallback, strict_fp32):
    model, inputs = on_gpu(name)
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    x = inputs[0].clone()
    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            ours(x)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = ours(x)
        for _ in range(3):
            x.copy_(torch.rand_like(x))
            for parameter in ours.parameters():
                parameter.add_(torch.rand_like(parameter), alpha=0.1)
            captured.fill_(float("nan"))
            graph.replay()
            assert same_bits([captured.clone()], [ours(x)])


def test_weights_changed_in_place_are_seen(no_fallback, strict_fp32):
    model, inputs = on_gpu("f1")
    ours = transfuse.optimize(model, tuple(inputs), never_slower=False)
    optimiser = torch.optim.SGD(ours.parameters(), lr=0.5)
    for _ in range(3):
        optimiser.zero_grad()
        ours(*inputs).square().mean().backward()
        optimiser.step()
        assert torch.allclose(zoo.outputs(ours, inputs)[0], zoo.outputs(model, inputs)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name, mode", [("A", "train"), ("B", "train"), ("C", "eval")])
def test_collapsed_chains_are_more_exact_than_pytorch(name, mode, no_fallback):
    model, inputs = on_gpu(name)
    model.train(mode == "train")
    wide, wide_inputs = accuracy.clone64(model, inputs)
    ours = transfuse.optimize(
        model, tuple(inputs), never_slower=False
    )  # TF32 stays allowed: no product is left to use it
    error = accuracy.errors(zoo.outputs(ours, inputs), zoo.outputs(wide, wide_inputs))[0]
    assert error.worst <= 1e-6


@pytest.mark.parametrize("bias, mean", [(10.0, 0.0), (0.0, 100.0), (10.0, 100.0)])
@pytest.mark.parametrize("name", ["C", "f5", "f10"])
def test_variances_of_shifted_values(name, bias, mean, no_fallback, strict_fp32):
    model, inputs = on_gpu(name)
    with torch.no_grad():
        model.conv_transpose.bias.add_(bias)
        inputs[0].add_(mean)
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    assert verdict(ours, model, inputs, zoo.outputs) == "right"
    plain, wide = copy.deepcopy(model), copy.deepcopy(model).double()
    zoo.outputs(plain, inputs), zoo.outputs(wide, [inputs[0].double()])
    for (key, mine), theirs, truth in zip(ours.named_buffers(), plain.buffers(), wide.buffers(), strict=False):
        if mine.is_floating_point() and "running" in key:
            error, its = (mine - truth).abs().max().item(), (theirs - truth).abs().max().item()
            assert error <= max(2 * its, 1e-6 * truth.abs().max().item()), key


# Every option at its border: what padding cuts off, what output_padding adds, axes of extent 1, taps nothing meets.
BORDERS = {
    "padding": (nn.ConvTranspose2d(6, 10, (3, 5), stride=(2, 3), padding=(2, 4)), (2, 6, 7, 9)),
    "output_padding": (nn.ConvTranspose2d(6, 10, 3, stride=3, padding=1, output_padding=2), (2, 6, 5, 11)),
    "dilation": (nn.ConvTranspose2d(8, 12, 3, stride=2, padding=2, dilation=(3, 2), output_padding=1), (3, 8, 9, 6)),
    "empty phases": (nn.ConvTranspose3d(8, 8, 2, stride=3, dilation=3), (2, 8, 3, 4, 5)),
    "groups": (nn.ConvTranspose2d(24, 36, 3, stride=2, groups=3), (2, 24, 9, 7)),
    "depthwise": (nn.ConvTranspose2d(12, 12, 4, stride=2, padding=1, groups=12), (2, 12, 9, 7)),
    "one pixel": (nn.ConvTranspose2d(16, 16, 4), (5, 16, 1, 1)),
    "one channel": (nn.ConvTranspose1d(1, 1, 7, stride=5), (3, 1, 31)),
    "odd channels": (nn.ConvTranspose2d(67, 131, 3, stride=2, padding=1), (2, 67, 13, 17)),
    "one output": (nn.ConvTranspose1d(4, 9, 3, padding=1), (2, 4, 1)),
    "unbatched": (nn.ConvTranspose2d(5, 7, 3), (5, 6, 8)),
    "many channels": (nn.ConvTranspose1d(520, 300, 4, stride=2, padding=1), (2, 520, 37)),
    "strided convolution": (nn.Conv2d(16, 40, 3, stride=2, padding=1), (2, 16, 31, 29)),
}


@pytest.mark.parametrize("case", BORDERS)
@pytest.mark.parametrize("dtype", [torch.float64, *DTYPES], ids=["fp64", "fp32", "fp16", "bf16"])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_borders(case, dtype, layout, no_fallback, strict_fp32):
    module, shape = BORDERS[case]
    model = nn.Sequential(copy.deepcopy(module), nn.LeakyReLU(0.1)).cuda().to(dtype)
    model, inputs = laid_out(model, [torch.randn(shape, device="cuda", dtype=dtype)], layout)
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    if dtype is torch.float64:
        assert torch.allclose(zoo.outputs(ours, inputs)[0], zoo.outputs(model, inputs)[0], rtol=1e-11, atol=1e-11)
    else:
        assert verdict(ours, model, inputs, zoo.outputs) == "right"


# Tens of kernels each: every precision and layout once, not all of both.
WHOLE = [
    (torch.float32, "contiguous", "train"),
    (torch.float32, "contiguous", "eval"),
    (torch.float16, "channels_last", "train"),
    (torch.bfloat16, "contiguous", "train"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.WHOLE)
@pytest.mark.parametrize("dtype, layout, mode", WHOLE, ids=["fp32", "fp32-eval", "fp16-channels_last", "bf16"])
def test_whole_models(name, dtype, layout, mode, no_fallback, strict_fp32):
    model, inputs = laid_out(*on_gpu(name, dtype), layout)
    model.train(mode == "train")
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    assert verdict(ours, model, inputs, zoo.outputs) == "right"


@pytest.mark.slow
def test_more_than_two_to_the_31_elements(no_fallback):
    model = nn.Sequential(nn.ConvTranspose2d(8, 16, 2, stride=2), nn.ReLU()).cuda().half()
    x = torch.randn(3, 8, 3400, 3456, device="cuda", dtype=torch.float16)  # 2.3e9 elements out
    ours = transfuse.optimize(copy.deepcopy(model), x[:, :, :4, :8].contiguous(), never_slower=False)
    with torch.no_grad():
        result = ours(x)
        assert result.numel() > 2**31
        for rows in (slice(0, 8), slice(-8, None)):
            for image in (0, 2):
                expected = model(x[image : image + 1, :, rows])
                cut = slice(0, 16) if rows.start == 0 else slice(-16, None)
                assert torch.allclose(result[image : image + 1, :, cut], expected, rtol=1e-2, atol=1e-2)


@pytest.mark.slow
def test_a_sum_over_more_than_two_to_the_31_elements(no_fallback):
    class Averages(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv_transpose = nn.ConvTranspose2d(16, 8, 3, stride=2)

        def forward(self, x):
            return self.conv_transpose(x).mean((2, 3))

    model = Averages().cuda().half()
    x = torch.rand(4, 16, 5800, 5808, device="cuda", dtype=torch.float16)
    assert x.numel() > 2**31
    ours = transfuse.optimize(model, x[:, :, :8, :8].contiguous(), never_slower=False)
    wide = copy.deepcopy(model).double()
    with torch.no_grad():
        # One image at a time by the definition: the collapse of each is checked elsewhere, here only its indices.
        weight, bias = wide.conv_transpose.weight, wide.conv_transpose.bias
        sums = torch.stack([image.sum((1, 2), dtype=torch.float64) for image in x])
        expected = sums @ weight.sum((2, 3)) / (11601 * 11617) + bias
        assert torch.allclose(ours(x).double(), expected, rtol=2e-3, atol=2e-3)


def test_threads_with_contexts_of_their_own(no_fallback, strict_fp32):
    model, inputs = on_gpu("f1")
    ours = transfuse.optimize(model, tuple(inputs), never_slower=False)
    expected = zoo.outputs(ours, inputs)
    found = []

    def work():  # a new thread has no current CUDA context, and a stream of its own
        with torch.cuda.stream(torch.cuda.Stream()):
            results = [zoo.outputs(ours, inputs) for _ in range(20)]
            torch.cuda.current_stream().synchronize()
            found.append(all(same_bits(result, expected) for result in results))

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4
