"""What is not ours goes to Inductor: torch.compile(backend="transfuse"), and optimize(rest="inductor")."""

import copy
import gc
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._dynamo.backends.debugging import aot_eager

import transfuse
from transfuse import backend as transfuse_backend
from transfuse.choose import candidates, choice, inductor
from transfuse.native import library, on_disk
from transfuse.run import kept_forms, region, region_operators

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no pool of processes beside the tests
pytestmark = pytest.mark.versions


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    transfuse_backend.reset()
    gc.collect()  # what was measured of equal regions goes with them


class Network(nn.Module):
    """Two results, one behind a running sum that is Inductor's; a norm with running averages."""

    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.ConvTranspose2d(3, 4, 3, 2), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, padding=1)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        y = self.down(self.norm(self.up(x)).relu())
        return nn.functional.gelu(self.head(y.mean((2, 3))).cumsum(1)), y.softmax(1)


def compiled(model, **options):
    return torch.compile(model, backend="transfuse", options={"never_slower": False, **options})


def assert_same(ours, plain, x, training=True):
    """Results, gradients, statistics and strides; `plain` computes in float64."""
    given, exact = x.detach().clone().requires_grad_(training), x.detach().double().requires_grad_(training)
    found, expected = ours(given), plain(exact)
    for a, b in zip(found, expected, strict=True):
        assert torch.allclose(a.double(), b, rtol=1e-4, atol=1e-5) and a.stride() == b.stride()
    if training:
        for module, results in ((ours, found), (plain, expected)):
            module.zero_grad()
            sum(result.square().sum() for result in results).backward()
        pairs = [(given, exact), *zip(ours.parameters(), plain.parameters(), strict=True)]
        assert all(torch.allclose(a.grad.double(), b.grad, rtol=1e-3, atol=1e-4) for a, b in pairs)
        assert given.grad.stride() == exact.grad.stride()
    for a, b in zip(ours.buffers(), plain.buffers(), strict=True):
        assert torch.allclose(a.double(), b.double(), atol=1e-6)


def called(monkeypatch) -> list[str]:
    """Which of our operators run in compiled graphs."""
    seen: list[str] = []
    for name in ("run_detached", "run_keeping", "run_backward"):
        own = getattr(library, name)
        monkeypatch.setattr(library, name, lambda *a, name=name, own=own: seen.append(name) or own(*a))
    return seen


@pytest.mark.parametrize("last", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_training_and_eval(last, no_fallback, monkeypatch):
    form = torch.channels_last if last else torch.contiguous_format
    model = Network().to(memory_format=form)
    plain, x = copy.deepcopy(model).double(), torch.randn(2, 3, 5, 6).to(memory_format=form)
    ours, seen = compiled(model), called(monkeypatch)
    assert_same(ours, plain, x)
    assert seen == ["run_keeping", "run_backward"]
    model.eval(), plain.eval()
    with torch.no_grad():
        assert_same(ours, plain, x, training=False)
    assert len(seen) == 3 and transfuse.report(ours).left == 4


def test_where_pytorch_may_round_to_tf32(no_fallback, monkeypatch):
    """What is asked of PyTorch once a size is found again by an operator's arguments, which are lists."""
    asked = []
    own = region.Region.call_mode
    monkeypatch.setattr(region.Region, "call_mode", lambda *a: own(*a) | library.TF32 | library.TF32_BACKWARD)
    monkeypatch.setattr(
        region, "rounding_of", lambda eager, leaves, *_: asked.append(len(leaves)) or [(False,) * 3] * 2
    )
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    model = Network()
    plain, ours = copy.deepcopy(model).double(), compiled(model)
    for _ in range(2):
        assert_same(ours, plain, torch.randn(2, 3, 5, 6))
    assert len(asked) == 1


def test_gradients_of_code_that_is_gone(no_fallback):
    model, x = Network(), torch.randn(2, 3, 5, 6, requires_grad=True)
    plain, exact = copy.deepcopy(model).double(), x.detach().double().requires_grad_()
    ours = compiled(model)
    loss = sum(result.square().sum() for result in ours(x))
    del ours
    torch._dynamo.reset()
    gc.collect()
    loss.backward()
    sum(result.square().sum() for result in plain(exact)).backward()
    assert torch.allclose(x.grad.double(), exact.grad, rtol=1e-3, atol=1e-4)


def test_equal_regions_outlive_each_other(no_fallback):
    """Models of equal text share a number, whichever goes first."""
    x = torch.randn(2, 3, 5, 6)
    models = [Network().eval() for _ in range(2)]
    compiled_ones = [compiled(lambda x, model=model: model(x)) for model in models]
    with torch.no_grad():
        for ours in compiled_ones:
            ours(x)
        del ours, compiled_ones[0]
        gc.collect()
        expected = copy.deepcopy(models[1]).double()(x.double())
        for a, b in zip(compiled_ones[0](x), expected, strict=True):
            assert torch.allclose(a.double(), b, rtol=1e-4, atol=1e-5)


def test_other_sizes_are_no_other_graphs(no_fallback):
    model = Network().eval()
    options = {"never_slower": False}
    plain, ours = (
        copy.deepcopy(model).double(),
        torch.compile(model, backend="transfuse", dynamic=True, options=options),
    )
    with torch.inference_mode():
        for size in (5, 7, 12):
            assert_same(ours, plain, torch.randn(2, 3, size, size + 1), training=False)
    assert len(transfuse_backend.cuts()) == 1


def kept_for_backward(monkeypatch) -> list[bool]:
    """Of each forward and each backward of a region whether something was kept."""
    seen, keeping, backward = [], library.run_keeping, library.run_backward
    monkeypatch.setattr(library, "run_keeping", lambda *a: (seen.append(bool(a[-1])), keeping(*a))[1])
    monkeypatch.setattr(library, "run_backward", lambda *a: (seen.append(bool(a[-1])), backward(*a))[1])
    return seen


class Symbols(nn.Sequential):
    """A batch and a width that are symbols; what is kept follows from them, and of a stride by more than sums."""

    def __init__(self, stride):
        super().__init__(nn.ConvTranspose2d(3, 4, 4, 2, 1), nn.LeakyReLU(0.1), nn.Conv2d(4, 4, 3, stride), nn.SiLU())

    def forward(self, x):
        return (super().forward(x),)


@pytest.mark.parametrize("case", ["sums", "no sums", "others at another size"])
def test_what_is_kept_where_sizes_are_symbols(case, no_fallback, monkeypatch):
    monkeypatch.setattr(inductor, "compiled", lambda graph, inputs, settings: aot_eager(graph, inputs))  # in seconds
    model, seen = Symbols(3 if case == "no sums" else 1), kept_for_backward(monkeypatch)
    plain = copy.deepcopy(model).double()
    ours = torch.compile(model, backend="transfuse", dynamic=True, options={"never_slower": False})
    if case == "others at another size":
        forms = kept_forms.forms

        def of_the_first_size(*call):
            found = forms(*call)
            return found and kept_forms.hints(found)

        monkeypatch.setattr(kept_forms, "forms", of_the_first_size)
    for batch, width in ((2, 6), (3, 8), (4, 11), (2, 6)):
        assert_same(ours, plain, torch.randn(batch, 3, 5, width))
    assert len(transfuse_backend.cuts()) == 1
    forward, backward = seen[0::2], seen[1::2]
    assert forward == [case != "no sums"] * 4
    assert backward == {"sums": [True] * 4, "no sums": [False] * 4}.get(case, [True, False, False, True])


@pytest.mark.slow
def test_training_at_other_sizes(no_fallback):
    model = Network()
    plain, ours = copy.deepcopy(model).double(), compiled(model)
    for size in (5, 7, 12):
        assert_same(ours, plain, torch.randn(2, 3, size, size + 1))
    assert len(transfuse_backend.cuts()) == 2


def test_autocast(no_fallback):
    """What the operator promises is what it gives: half of the numbers' bytes."""
    model, x = Network(), torch.randn(2, 3, 5, 6)
    plain, ours = copy.deepcopy(model), compiled(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, expected = ours(x), plain(x)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype and torch.allclose(a.float(), b.float(), atol=3e-2)
    sum(a.float().square().sum() for a in found).backward()
    sum(b.float().square().sum() for b in expected).backward()
    assert torch.allclose(model.down.weight.grad, plain.down.weight.grad, rtol=5e-2, atol=5e-2)


def test_an_operator_that_cannot_run_is_pytorchs(monkeypatch):
    model = Network()
    plain, ours, x = copy.deepcopy(model).double(), compiled(model), torch.randn(2, 3, 5, 6)
    assert_same(ours, plain, x)
    model.load_state_dict(plain.state_dict())

    def refuses(*arguments):
        raise RuntimeError("no")

    monkeypatch.setattr(library, "run_backward", refuses)
    with pytest.warns(UserWarning, match="the gradient of a region"):
        assert_same(ours, plain, x)
    monkeypatch.setattr(library, "run_detached", refuses)
    monkeypatch.setattr(library, "run_keeping", refuses)
    with pytest.warns(UserWarning, match="region_0 could not run"):
        assert_same(ours, plain, x)


def test_small_sums_are_kept_for_backward(no_fallback):
    """Of a collapsed chain: as results of the forward operator."""

    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(3, 8, 3, 2, padding=1)

        def forward(self, x):
            return self.up(x).mean((2, 3)), x.sin()

    model, x = Mean(), torch.randn(2, 3, 32, 32)
    plain, ours = copy.deepcopy(model).double(), compiled(model)
    assert_same(ours, plain, x)
    (region,) = transfuse_backend.cuts()[-1].regions
    assert library.kept(region.handle, [x, *model.parameters()], (), [1, 0, 3, 0, 1, 2]) != []


def test_where_inductor_is_faster_it_has_all(monkeypatch):
    timed(monkeypatch, lambda count: [2.0, 1.0][:count])
    model, seen = Network(), called(monkeypatch)
    ours = torch.compile(model, backend="transfuse")
    assert_same(ours, copy.deepcopy(model).double(), torch.randn(2, 3, 5, 6))
    assert seen == [] and transfuse.report(ours).taken == 0


def timed(monkeypatch, seconds, least=0.0):
    """Clocks that say so of two calls side by side, and of ours alone; Inductor's convolutions take a second each with what is behind
    them, and so long in all by themselves."""
    monkeypatch.setattr(candidates, "least", lambda *a: least)
    for owner in (candidates, choice, region):
        monkeypatch.setattr(owner, "fastest_on_device", lambda calls, like: seconds(len(calls)))
    monkeypatch.setattr(region.Region, "bytes", lambda *a: 0)
    monkeypatch.setattr(candidates.Stopwatch, "mark", lambda watch: float(len(watch.marks)))


@pytest.mark.parametrize("training", [True, False])
def test_a_region_is_cut_at_a_convolution_that_is_faster_in_inductor(training, monkeypatch, tmp_path):
    """Ours takes half a second for the first convolution, and four for the second one; Inductor a second for each, and for its backward."""
    monkeypatch.setenv("TRANSFUSE_CACHE_DIR", str(tmp_path))
    own = iter([8.0, 0.5, 4.0])  # the region, and each convolution
    timed(monkeypatch, lambda count: [next(own)] if count == 1 else [8.0, 9.0])
    model, x = Network().train(training), torch.randn(2, 3, 5, 6)
    plain, seen = copy.deepcopy(model).double(), called(monkeypatch)
    ours = torch.compile(model, backend="transfuse")
    with torch.set_grad_enabled(training):
        assert_same(ours, plain, x, training)
    (graph,) = transfuse.report(ours).graphs
    taken = {line.op: (line.taken or line.reason, line.compared) for line in graph.lines if "conv" in line.op}
    theirs = f"Inductor's {1 + training}e+03 ms"
    assert taken == {
        "aten.conv_transpose2d.input": ("region_0", f"ours 500 ms, {theirs}"),
        "aten.conv2d.default": ("Inductor is faster", f"ours 4e+03 ms, {theirs}"),
    }
    assert "run_keeping" in seen or "run_detached" in seen

    # In another process, or at another compilation, nothing is timed.
    torch._dynamo.reset(), on_disk.forget()
    monkeypatch.setattr(candidates, "version", None)
    again = torch.compile(model, backend="transfuse")
    with torch.set_grad_enabled(training):
        again(x.requires_grad_(training))
    assert [line.taken for line in transfuse.report(again).graphs[-1].lines] == [line.taken for line in graph.lines]


@pytest.mark.parametrize("training", [True, False])
def test_far_ahead_of_pytorchs_convolutions_nothing_is_compiled_to_compare(training, monkeypatch, tmp_path):
    monkeypatch.setenv("TRANSFUSE_CACHE_DIR", str(tmp_path))
    timed(monkeypatch, lambda count: [1.0] * count, least=2.0)
    monkeypatch.setattr(candidates, "version", None)
    model, x = Network().train(training), torch.randn(2, 3, 5, 6)
    plain, ours = copy.deepcopy(model).double(), torch.compile(model, backend="transfuse")
    with torch.set_grad_enabled(training):
        assert_same(ours, plain, x, training)
    assert transfuse.report(ours).graphs[0].notes == ["region_0: ours 1e+03 ms, PyTorch's convolutions alone 2e+03 ms"]


@pytest.mark.parametrize("wanted", [True, False])
def test_pytorchs_convolutions_alone(wanted, monkeypatch):
    """Each problem is timed once, in planes and channels last; it counts as often as it is met, and backward, too."""
    asked = []
    monkeypatch.setattr(candidates, "fastest_on_device", lambda calls, like, *_: [asked.append(like.shape) or 3.0, 1.0])
    model = nn.Sequential(*[nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()) for _ in range(3)])
    x = torch.randn(2, 4, 6, 6, requires_grad=wanted)
    (region,) = transfuse.optimize(model, (x,))._transfuse.captures.popitem()[1][0].cut.regions
    leaves = [x, *model.parameters()]
    seconds = candidates.least(region, tuple([leaf.detach().requires_grad_(wanted) for leaf in leaves]), ())
    assert seconds == 3 * (1 + wanted) and len(asked) == 1 + wanted


def test_blocks_that_are_alike_are_compared_once(monkeypatch, tmp_path):
    monkeypatch.setenv("TRANSFUSE_CACHE_DIR", str(tmp_path))
    timed(monkeypatch, lambda count: [1.0, 2.0][:count])

    class Blocks(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()) for _ in range(3)])

        def forward(self, x):
            for block in self.blocks:
                x = block(x).cumsum(1)
            return x

    made, version = [], candidates.version
    monkeypatch.setattr(candidates, "version", lambda *a: made.append(a) or version(*a))
    model, x = Blocks().eval(), torch.randn(2, 4, 6, 6)
    ours = torch.compile(model, backend="transfuse")
    with torch.no_grad():
        assert torch.allclose(ours(x), model(x), rtol=1e-4, atol=1e-4)
    assert len(made) == 3, "one block, and the whole with ours and without"
    assert transfuse.report(ours).taken == 6


@pytest.mark.slow
def test_optimize(no_fallback):
    model, x = Network(), torch.randn(2, 3, 5, 6)
    plain = copy.deepcopy(model).double()
    ours = transfuse.optimize(model, (x,), rest="inductor", never_slower=False)
    for size in (5, 8):
        assert_same(ours, plain, torch.randn(2, 3, size, 6))


def test_results_of_graphs_are_the_callers(no_fallback):
    """Also where all is one region."""
    model, x = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU()), torch.randn(2, 3, 5, 6)
    ours = transfuse.optimize(model, (x,), graphs=True, never_slower=False)
    with torch.no_grad():
        first, second = ours(x), ours(2 * x)
        assert first.data_ptr() != second.data_ptr()
        for result, given in ((first, x), (second, 2 * x)):
            assert torch.allclose(result, model(given), atol=1e-5)
    assert ours._transfuse.options.mode == "reduce-overhead"


def test_options():
    x = torch.randn(1, 3, 4, 4)
    with pytest.raises(Exception, match="unknown rest 'nobody'"):
        compiled(Network(), rest="nobody")(x)
    with pytest.raises(ValueError, match="unknown mode 'fast'"):
        transfuse.optimize(Network(), mode="fast")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        eager = compiled(Network(), rest="eager")(x)
    assert len(eager) == 2


def test_numbers_of_regions_tell_builds_apart(monkeypatch):
    """What another build left in Inductor's caches is not found."""
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU())
    ours = transfuse.optimize(model, (torch.randn(1, 3, 4, 4),))
    ((entry,),) = ours._transfuse.captures.values()
    (region,) = entry.cut.regions
    here, on_cuda = (region_operators.numbered(region, device, False)[0] for device in ("cpu", "cuda"))
    assert here == region_operators.numbered(region, "cpu", False)[0] != on_cuda
    monkeypatch.setattr(library, "build", lambda: "another")
    assert here != region_operators.numbered(region, "cpu", False)[0]


@pytest.mark.slow
def test_a_second_process_finds_the_compiled_graph(tmp_path):
    script = f"""
import sys, torch; sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_inductor import Network, compiled
from torch._dynamo.utils import counters
torch.manual_seed(0)
sum(t.sum() for t in compiled(Network())(torch.ones(2, 3, 5, 6))).backward()
print(counters["aot_autograd"]["autograd_cache_hit"])
"""
    where = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    told = [subprocess.run([sys.executable, "-c", script], env=where, capture_output=True, text=True) for _ in range(2)]
    assert [out.stdout.strip() for out in told] == ["0", "1"], told[1].stderr
