"""Where TF32 is allowed, ours uses it only where PyTorch does: a PyTorch that rounds like TF32 stands in for a GPU here."""

import itertools
import threading

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

import transfuse
from transfuse.native import library, on_disk
from transfuse.run import precision, rounding

SWITCHES = [("generic", "all"), ("cuda", "all"), ("cuda", "conv"), ("cuda", "rnn")]


@pytest.fixture
def switches():
    yield  # (torch.testing, once imported, forbids setting torch.backends.…)
    for switch in SWITCHES[:2]:
        torch._C._set_fp32_precision_setter(*switch, "none")
    torch._C._set_cudnn_allow_tf32(True)


@pytest.fixture(autouse=True)
def forgotten():
    rounding.forget()
    yield
    rounding.forget()


def readings():
    return [torch._C._get_fp32_precision_getter(*switch) for switch in SWITCHES]


@pytest.mark.versions
@pytest.mark.parametrize(
    "settings", [("none", "none", "ieee", "tf32"), ("tf32", "none", "none", "ieee"), ("ieee",) * 4]
)
def test_capture_changes_no_switch(settings, switches, no_fallback):
    """Other threads compute meanwhile. (torch.export alone reads the old switch, which refuses where the new ones differ.)"""
    for switch, setting in zip(SWITCHES, settings):
        torch._C._set_fp32_precision_setter(*switch, setting)

    def seen():
        switches = [f"{k} {torch._C._get_fp32_precision_getter(k, 'all')}" for k in ("generic", "cuda", "mkldnn")]
        return [*readings(), *switches, torch._C._get_cudnn_enabled(), torch._C._get_mkldnn_enabled()]

    class Seen(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose1d(3, 4, 3)

        def forward(self, x):
            found.append(seen())
            return self.up(x)

    found, before, model, x = [], seen(), Seen(), torch.randn(2, 3, 5)
    ours = transfuse.optimize(model, (x,), never_slower=False)
    assert len(found) == 1 and found[0] == before == seen()
    assert torch.allclose(ours(x), model(x), atol=1e-6)


def test_a_model_is_captured_where_convolutions_alone_are_strict(switches, no_fallback):
    torch._C._set_fp32_precision_setter("cuda", "conv", "ieee")
    before, model, x = readings(), nn.ConvTranspose1d(3, 4, 3), torch.randn(2, 3, 5)
    assert torch.allclose(transfuse.optimize(model, (x,), never_slower=False)(x), model(x), atol=1e-6)
    assert readings() == before


def test_the_switches_are_read_alike_in_any_order(switches, monkeypatch):
    """The quick reading of the old switch says what the new ones say, also once they were mixed."""
    get = torch._C._get_fp32_precision_getter
    monkeypatch.setattr(precision, "_mixed", False)
    for allowed, setting in itertools.product((True, False), ("none", "tf32", "ieee", "none")):
        torch._C._set_cudnn_allow_tf32(allowed)
        torch._C._set_fp32_precision_setter("cuda", "conv", setting)
        reading = get("cuda", "conv")
        if reading in ("tf32", "ieee"):
            assert precision.allows_tf32() == (reading == "tf32")
        else:
            assert not precision.allows_tf32()
    torch._C._set_cudnn_allow_tf32(True)
    assert precision.allows_tf32()


def rounded(x):
    """fp32 with the ten bits of mantissa that TF32 keeps."""
    return (x.view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32)


class Library(TorchDispatchMode):
    """Convolutions of a library that uses TF32 where it is allowed and wanted; where it is forbidden, the last bits are others."""

    def __init__(self, forward, backward):
        super().__init__()
        self.rounds = {
            torch.ops.aten.convolution.default: forward,
            torch.ops.aten.convolution_backward.default: backward,
        }

    def __torch_dispatch__(self, operator, types, arguments=(), named=None):
        wanted = self.rounds.get(operator)
        allowed = readings()[2] == "tf32"
        if wanted and allowed:
            arguments = [rounded(a) if torch.is_tensor(a) and a.dim() == 4 else a for a in arguments]
        results = operator(*arguments, **(named or {}))
        if wanted is None or allowed:
            return results
        return tree_map_only(torch.Tensor, lambda r: r * (1 + 2.0**-22), results)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("forward", [False, True])
@pytest.mark.parametrize("chain", ["norm", "saturated", "channels_last"])
def test_whether_pytorch_uses_tf32_is_seen(forward, backward, chain, switches):
    """Also where what follows the convolution hides it: a normalisation of it, a gelu of very negative numbers."""
    torch.manual_seed(0)
    state = torch.random.get_rng_state()
    x, w = torch.rand(2, 40, 9, 8, requires_grad=True), torch.randn(40, 24, 3, 3, requires_grad=True)
    drawn = torch.random.get_rng_state()

    def eager(x, w):
        y = nn.functional.conv_transpose2d(x, w, stride=2)
        if chain == "norm":
            return [nn.functional.layer_norm(y, y.shape[1:])]
        return [nn.functional.gelu(y - 1e4) if chain == "saturated" else y.to(memory_format=torch.channels_last)]

    with Library(forward, backward):
        assert precision.rounding_of(eager, (x, w), (), [0, 1]) == [(forward, backward, backward)]
        assert precision.rounding_of(eager, (x, w), (), [1]) == [(forward, True, backward)]
        assert precision.rounding_of(eager, (x, w), (), []) == [(forward, True, True)]
    assert torch.equal(torch.random.get_rng_state(), drawn) and not torch.equal(state, drawn)
    assert x.grad is None and w.grad is None and precision.allows_tf32()


@pytest.mark.parametrize("wide", [3, 5])
def test_each_convolution_is_asked(wide, switches):
    """Two, of which PyTorch rounds the wide one, forward, and the gradient of the other's weight: ours does the same."""
    x, weights = torch.randn(2, 16, 12, 12), [nn.Parameter(torch.randn(16, 16, extent, extent)) for extent in (3, 5)]

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = weights

        def forward(self, x):
            return nn.functional.conv_transpose2d(nn.functional.conv_transpose2d(x, self.first).tanh(), 2 * self.second)

    class InPart(Library):
        def __torch_dispatch__(self, operator, types, arguments=(), named=None):
            if operator is torch.ops.aten.convolution.default:
                self.rounds[operator] = arguments[1].shape[-1] == wide
            if operator is torch.ops.aten.convolution_backward.default:
                self.rounds[operator] = arguments[2].shape[-1] != wide
            return super().__torch_dispatch__(operator, types, arguments, named)

    region = region_of(transfuse.optimize(Two(), x, never_slower=False))
    leaves = x, *weights
    assert [[leaves[i].shape[-1] for i in weight] for weight in region.weights] == [[3], [5]]
    with InPart(True, True):
        found = precision.rounding_of(region.eager, leaves, (), [1, 2])
    assert found == [(wide == 3, True, wide != 3), (wide == 5, wide != 5, wide != 5)]

    allowed = library.TF32 | library.TF32_BACKWARD
    mode = region.rounding_as(found, allowed)
    assert mode & allowed == allowed and library.excepts(mode) and mode == region.rounding_as(found, allowed)
    assert region.rounding_as([(True,) * 3] * 2, allowed) == allowed
    assert region.rounding_as([(False,) * 3] * 2, allowed) == 0
    assert region.rounding_as([(True, False, False)] * 2, allowed) & allowed == library.TF32
    with pytest.raises(library.CompileError, match="a number for each leaf"):
        library.products(region.handle, [0])


def region_of(model):
    return next(iter(model.__dict__["_transfuse"].captures.values()))[0].cut.regions[0]


def test_linear_layers_are_multiplied_in_full_fp32():
    """PyTorch's products of matrices have a switch of their own."""
    model = nn.Sequential(nn.Conv2d(8, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)).eval()
    fast = transfuse.optimize(model, (torch.randn(2, 8, 8, 8),), never_slower=False)
    region = next(r for entries in fast._transfuse.captures.values() for e in entries for r in e.cut.regions)
    assert len(region.linear) == 1 and library.excepts(region.in_full)
    allowed = library.TF32 | library.TF32_BACKWARD
    mode = region.rounding_as([(True, True, True)], allowed | region.in_full)
    assert mode == allowed | region.in_full
    assert region.rounding_as([(False, False, False)], allowed | region.in_full) & allowed == 0


def test_a_convolution_of_no_images_rounds_nothing():
    arguments = (torch.zeros(0, 3, 5, 5), torch.ones(4, 3, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    assert rounding.rounds(torch.ops.aten.convolution.default, arguments) == [False]


@pytest.mark.parametrize("channels, extent", [(1, 3), (3, 1), (512, 32)])
@pytest.mark.parametrize("uses", [False, True])
def test_a_convolution_is_asked_by_numbers_that_tf32_cannot_hold(uses, channels, extent, switches):
    """Whatever it computes here, with a bias larger than its products, and no switch is touched."""
    x, w = torch.zeros(2, channels, extent + 2, extent + 2), torch.full((4, channels, 3, 3), 1e-30)
    arguments = (x, w, torch.full((4,), 1e6), [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    before = readings()
    with Library(uses, uses):
        assert rounding.rounds(torch.ops.aten.convolution.default, arguments) == [uses]
        backward = (torch.zeros(2, 4, extent, extent), x, w, None, *arguments[3:], [True, True, False])
        assert rounding.rounds(torch.ops.aten.convolution_backward.default, backward) == [uses, uses]
    assert readings() == before


def test_what_was_found_is_kept_on_disk(tmp_path, monkeypatch, switches):
    """For the next process; not what a clock decided. A line that is no line is passed over."""
    monkeypatch.setenv("TRANSFUSE_CACHE_DIR", str(tmp_path / "new"))
    on_disk.keep("tf32", "a problem", [True, False])
    (file,) = (tmp_path / "new").iterdir()
    file.write_text("torn" + "\n" + file.read_text())
    on_disk.forget()
    assert on_disk.find("tf32", "a problem") == [True, False] and on_disk.find("tf32", "another") is None
    monkeypatch.setenv("TRANSFUSE_CACHE_DIR", "")
    assert on_disk.find("tf32", "a problem") is None


def test_by_the_switches_alone(monkeypatch, switches):
    """precision="switches": PyTorch's convolutions are not asked."""
    model, x = nn.ConvTranspose2d(3, 4, 3), torch.randn(2, 3, 8, 8)
    ours = transfuse.optimize(model, x, never_slower=False, precision="switches")
    region = next(iter(ours.__dict__["_transfuse"].captures.values()))[0].cut.regions[0]
    region.call_mode = lambda _, grad: library.TF32 | library.INFERENCE
    monkeypatch.setattr(transfuse.run.region, "rounding_of", None)
    seen, run = [], library.run_detached
    monkeypatch.setattr(library, "run_detached", lambda *a: (seen.append(a[3] & library.TF32), run(*a))[1])
    with torch.no_grad():
        assert torch.allclose(ours(x), model(x), atol=1e-5)
    assert seen == [library.TF32]
    with pytest.raises(ValueError, match="unknown precision 'high'"):
        transfuse.optimize(model, precision="high")


def test_a_backward_in_another_thread_is_not_waited_for_by_itself(switches):
    """On CUDA autograd has threads of its own, which meet the same mode, while the caller's waits for them."""
    met, uses_tf32 = [], Library(True, True)

    class Elsewhere(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return nn.functional.conv_transpose2d(x, w)

        @staticmethod
        def backward(ctx, gradient):
            mode = torch.utils._python_dispatch._get_current_dispatch_mode()
            arguments = (
                gradient,
                *ctx.saved_tensors,
                None,
                [1, 1],
                [0, 0],
                [1, 1],
                True,
                [0, 0],
                1,
                [True, True, False],
            )

            def work():
                with uses_tf32, mode:
                    met.append(torch.ops.aten.convolution_backward.default(*arguments)[:2])

            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            thread.join(20)
            return met.pop()  # nothing: it still waits

    x, w = torch.randn(1, 3, 4, 4, requires_grad=True), torch.randn(3, 2, 3, 3, requires_grad=True)
    with uses_tf32:
        found = precision.rounding_of(lambda x, w: [Elsewhere.apply(x, w)], (x, w), (), [0, 1])
    assert found == [(True, True, True)]


def test_a_region_multiplies_as_pytorch_does(monkeypatch, switches):
    """The mode of each call, remembered for sizes alike, asked anew for others, and told."""
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU())
    ours = transfuse.optimize(model, torch.randn(2, 3, 8, 8), never_slower=False)
    region = next(iter(ours.__dict__["_transfuse"].captures.values()))[0].cut.regions[0]
    allowed = library.TF32 | library.TF32_BACKWARD
    region.call_mode = lambda _, grad: allowed if grad else library.TF32 | library.INFERENCE
    probes, seen, capturing = [], [], [True]

    def rounding(eager, leaves, sizes, wanted):
        probes.append(len(wanted))
        return [(False, True, True)]

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing[0])
    run, run_keeping, run_backward = library.run_detached, library.run_keeping, library.run_backward
    monkeypatch.setattr(transfuse.run.region, "rounding_of", rounding)
    monkeypatch.setattr(library, "run_keeping", lambda *a: (seen.append(a[3] & allowed), run_keeping(*a))[1])
    monkeypatch.setattr(library, "run_detached", lambda *a: (seen.append(a[3] & allowed), run(*a))[1])
    monkeypatch.setattr(library, "run_backward", lambda *a: (seen.append(a[4] & allowed), run_backward(*a))[1])
    with torch.no_grad():
        ours(
            torch.randn(2, 3, 8, 8)
        )  # in a CUDA graph nothing can be tried: the switches decide, and nothing is remembered
    assert not probes and seen.pop() == library.TF32
    capturing[0] = False
    for height in (8, 12, 40):
        x = torch.randn(2, 3, height, 8)
        with torch.no_grad():
            assert torch.allclose(ours(x), model(x), atol=1e-5)
    assert probes == [0] * 2 and seen == [0] * 3
    ours(torch.randn(2, 3, 8, 8)).sum().backward()
    # Backward computes no product of forward again.
    assert probes == [0, 0, 1] and seen[3:] == [library.TF32_BACKWARD] * 2
    text = str(transfuse.report(ours))
    assert "2×3×40×8 forward: PyTorch multiplies in full fp32 here, ours too" in text
    assert "with gradients: PyTorch multiplies in full fp32 forward and TF32 backward" in text


@pytest.mark.parametrize(
    "layer, size",
    [
        (lambda: torch.nn.Conv1d(64, 32, 2, dilation=4), (1, 64, 1000)),
        (lambda: torch.nn.Conv2d(64, 1, 1), (2, 64, 32, 32)),
        (lambda: torch.nn.Conv2d(256, 64, 1), (1, 256, 56, 56)),
    ],
    ids=["two_taps", "one_output", "one_tap"],
)
@pytest.mark.parametrize("seed", range(2))
def test_sums_are_as_exact_as_pytorchs(layer, size, seed):
    torch.manual_seed(seed)
    module, x = layer().eval(), torch.randn(size)
    fast = transfuse.optimize(module, (x,), never_slower=False)
    with torch.no_grad():
        ours, theirs, exact = fast(x), module(x), module.double()(x.double())
    assert (ours - exact).norm() <= 1.2 * (theirs - exact).norm()
