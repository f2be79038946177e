"""torch.compile as a backend and around an optimised module; torch.export; artefacts that run in another process."""

import copy
import inspect
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
import torch.utils._pytree as pytree
import zoo
from torch import nn
from torch._subclasses import FakeTensorMode

import transfuse
from transfuse import backend as transfuse_backend
from transfuse import fallback

pytestmark = pytest.mark.versions


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    transfuse_backend.reset()


def decoder():
    return nn.Sequential(
        nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3, padding=1)
    )  # fmt: skip


def close(a, b, tolerance=1e-5):
    assert torch.allclose(a, b, rtol=tolerance, atol=tolerance)


def test_backend_is_found_without_importing_transfuse():
    script = "import torch; assert 'transfuse' in torch._dynamo.list_backends(), torch._dynamo.list_backends()"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_backend_takes_everything_and_trains():
    model = decoder()
    plain = copy.deepcopy(model)
    ours = torch.compile(
        model, backend="transfuse", options={"rest": "eager", "never_slower": False, "require_full_compilation": True}
    )
    x = torch.randn(2, 3, 5, 6)
    close(ours(x), plain(x))
    ours(x).square().sum().backward()
    plain(x).square().sum().backward()
    for a, b in zip(model.parameters(), plain.parameters()):
        close(a.grad, b.grad, 1e-3)
    for a, b in zip(model.buffers(), plain.buffers()):
        close(a.double(), b.double())
    assert transfuse.report(ours).taken == 4


def test_backend_with_graph_breaks_and_other_ops():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.head = nn.ConvTranspose2d(3, 4, 3), nn.Linear(4, 2)

        def forward(self, x):
            y = self.up(x).relu()
            if y.sum() > 1e9:
                y = -y
            return self.head(torch.fft.fft2(y).abs().mean((2, 3)))

    model = Mixed()
    x = torch.randn(2, 3, 4, 4)
    ours = torch.compile(model, backend="transfuse", options={"rest": "eager", "never_slower": False})
    close(ours(x), model(x), 1e-4)
    told = str(transfuse.report(ours))
    assert "aten.conv_transpose2d.input" in told and "has no counterpart" in told


def test_backend_dynamic_shapes():
    model = decoder().eval()
    ours = torch.compile(model, backend="transfuse", dynamic=True, options={"rest": "eager", "never_slower": False})
    with torch.no_grad():
        for size in (4, 7, 9, 12):
            x = torch.randn(2, 3, size, size + 1)
            close(ours(x), model(x))
    assert len(transfuse_backend.cuts()) == 1


def test_backend_options(capsys):
    x = torch.randn(1, 3, 4, 4)
    with pytest.raises(Exception, match="unknown option 'colour'"):
        torch.compile(decoder(), backend="transfuse", options={"colour": 1})(x)
    model = decoder()
    torch.compile(model, backend="transfuse", options={"rest": "eager", "dryrun": True})(x)
    assert "region_0" in capsys.readouterr().out
    told = torch.compile(
        decoder(),
        backend="transfuse",
        options={"rest": "eager", "torch_executed_ops": ["aten.batch_norm"], "never_slower": False},
    )
    told(x)
    assert "listed in torch_executed_ops" in str(transfuse.report(told))
    strict = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2))
    with pytest.raises(Exception, match="require_full_compilation"):
        torch.compile(strict, backend="transfuse", options={"require_full_compilation": True})(x)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_fullgraph_around_an_optimised_module(mode):
    model = decoder().train(mode == "train")
    plain = copy.deepcopy(model)
    x = torch.randn(2, 3, 5, 6)
    ours = transfuse.optimize(model, (x,), never_slower=False)
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    close(compiled(x), plain(x))
    compiled(x).square().sum().backward()
    plain(x).square().sum().backward()
    for a, b in zip(model.parameters(), plain.parameters()):
        close(a.grad, b.grad, 1e-3)
    for a, b in zip(model.buffers(), plain.buffers()):
        close(a.double(), b.double())


def test_fullgraph_around_a_model_whose_sizes_the_call_tells():
    class Cropped(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.skip = nn.ConvTranspose2d(3, 4, 3, stride=2), nn.Conv2d(3, 4, 1)

        def forward(self, x):
            return self.up(x)[..., : x.shape[2], : x.shape[3]] + self.skip(x)

    model = Cropped()
    ours = transfuse.optimize(copy.deepcopy(model), (torch.randn(2, 3, 5, 6),), never_slower=False)
    compiled = torch.compile(ours, fullgraph=True, dynamic=True, backend="aot_eager")
    for size in (5, 6, 9):
        x = torch.randn(2, 3, size, 7)
        found = [torch.autograd.grad(m(x).square().sum(), m.parameters()) for m in (compiled, model)]
        for a, b in zip(*found):
            close(a, b, 1e-4)


def test_attributes_that_changed_before_and_after_tracing(no_fallback):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.act = nn.ConvTranspose2d(3, 4, 2, 2), nn.functional.relu
            self.alpha, self._gain, self.options = 1.0, 1.0, {"shift": 1.0}

        def forward(self, x):
            y = self.act(self.up(x)) * self.alpha * self._gain
            return y + self.options["shift"] if self.alpha > 5 else y

    model, x = Scaled().eval(), torch.randn(2, 3, 5, 5)
    ours = transfuse.optimize(model, (x,), never_slower=False)

    def change(name, value):
        setattr(model, name, value)
        setattr(ours, name, value)

    torch._dynamo.reset()
    compiled = torch.compile(ours, backend="eager", fullgraph=True)
    close(compiled(x), model(x))
    for name, value in (("alpha", 3.0), ("_gain", 2.0), ("act", nn.functional.gelu), ("alpha", 7.0)):
        change(name, value)
        close(compiled(x), model(x))
        close(torch.export.export(ours, (x,)).module()(x), model(x))
        close(ours(x), model(x))
        close(torch.export.export(ours, (x,)).module()(x), model(x))


class Louder(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 5


def hooked(y):
    y.register_hook(lambda gradient: gradient * 3)
    return y * 2


@pytest.mark.parametrize("own", [Louder.apply, hooked], ids=["function", "hook"])
def test_gradients_that_the_model_makes_its_own(own):
    def forward(x, weight):
        return own(nn.functional.conv_transpose2d(x, weight)).relu()

    compiled = torch.compile(forward, backend="transfuse", options={"rest": "eager", "never_slower": False})
    x, weight = torch.randn(2, 3, 5, 6), torch.randn(3, 4, 3, 3)
    found = []
    fallback._said.clear()
    with pytest.warns(fallback.Warned, match="gradient of its own"):
        for way in (compiled, forward):
            leaves = [t.clone().requires_grad_() for t in (x, weight)]
            y = way(*leaves)
            y.sum().backward()
            found.append([y, *[leaf.grad for leaf in leaves]])
    for ours, plain in zip(*found):
        close(ours, plain)
    if own is hooked:  # which PyTorch refuses without gradients
        return
    transfuse_backend.reset()
    with torch.no_grad():
        close(compiled(x, weight), forward(x, weight))
    assert transfuse_backend.account("").taken > 0


def test_transforms_inside_are_pytorchs():
    up = nn.ConvTranspose2d(3, 4, 3)

    def forward(x):
        return torch.func.vjp(up, x)[1](up(x))[0]

    x = torch.randn(2, 3, 5, 6)
    fallback._said.clear()
    with pytest.warns(fallback.Warned, match="torch.func"):
        close(torch.compile(forward, backend="transfuse")(x), forward(x))


@pytest.mark.parametrize("training", [False, True], ids=["eval", "training"])
def test_export_of_an_optimised_model(tmp_path, training):
    model = decoder().train(training)
    x = torch.randn(2, 3, 5, 6)
    ours = transfuse.optimize(copy.deepcopy(model), (x,), never_slower=False)
    program = torch.export.export(ours, (x,))
    assert "transfuse.run_text" in str(program.graph)
    assert set(program.state_dict) == set(model.state_dict())
    torch.export.save(program, tmp_path / "decoder.pt2")
    close(program.module()(x), model(x))
    torch.save((x, model(x)), tmp_path / "data.pt")
    script = f"""
import torch, transfuse
x, y = torch.load({str(tmp_path / "data.pt")!r})
module = torch.export.load({str(tmp_path / "decoder.pt2")!r}).module()
assert torch.allclose(module(x), y, atol=1e-5)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.skipif(shutil.which("nm") is None, reason="nm is not installed")
def test_one_binary_serves_every_pytorch():
    """It needs the stable C functions alone: nothing of C++ namespaces, which change from version to version."""
    library = Path(transfuse.native.library._folder()) / "libtransfuse_torch.so"
    listed = subprocess.run(
        ["nm", "-DC", "--undefined-only", library], capture_output=True, text=True, check=True
    ).stdout
    needed = [line.split(maxsplit=1)[1] for line in listed.splitlines()]
    assert any(name.startswith("aoti_torch_") for name in needed)
    assert not [name for name in needed if "at::" in name or "c10::" in name or "_Py" in name or name.startswith("Py")]


def test_operators_pass_pytorchs_own_checks():
    region = transfuse.nn._region(2, True, True, (2, 2), (1, 1), (0, 0), (1, 1), 1, None)
    x = torch.randn(2, 3, 4, 4, requires_grad=True)
    w, b = torch.randn(3, 4, 3, 3, requires_grad=True), torch.randn(4)
    torch.library.opcheck(
        torch.ops.transfuse.run.default, ([x, w, b], region.handle, [], 0),
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
    )  # fmt: skip


def test_fake_results_lie_as_real_ones_do():
    """Where PyTorch's own operators would lay them otherwise too: inductor's code looks at strides."""

    class Permuted(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.norm, self.out = (
                nn.ConvTranspose2d(3, 4, 2, 2),
                nn.LayerNorm(4),
                nn.ConvTranspose2d(4, 2, 2, 2),
            )

        def forward(self, x):
            return self.out(self.norm(self.up(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2))

    def lie(operator, leaves, *rest):
        with FakeTensorMode() as mode:
            fakes = operator(
                [mode.from_tensor(leaf) for leaf in leaves], *pytree.tree_map_only(torch.Tensor, mode.from_tensor, rest)
            )
        real = operator(leaves, *rest)
        assert [(t.shape, t.stride()) for t in fakes] == [(t.shape, t.stride()) for t in real]
        return real

    x, met = torch.randn(2, 3, 8, 5).to(memory_format=torch.channels_last), []
    for model in (Permuted(), nn.Sequential(nn.ConvTranspose2d(3, 4, 2), nn.PixelShuffle(2)), decoder().eval()):
        ours = transfuse.optimize(model, x, never_slower=False)
        entry = next(iter(ours.__dict__["_transfuse"].captures.values()))[0]
        for part in entry.cut.graph_module.children():
            part.register_forward_pre_hook(lambda part, given: met.append((part.region, given)))
        for given in (x, x[:, :, ::2]):
            entry.traced(ours, [given])
    assert len(met) >= 6
    for region, given in met:
        leaves, sizes = [leaf.detach() for leaf in given[: region.leaf_count]], list(given[region.leaf_count :])
        results = lie(torch.ops.transfuse.run.default, leaves, region.handle, sizes, 0)
        gradient, every = [torch.ones_like(results[0])], list(range(len(leaves)))
        keep = [1, 0, len(every), *every]  # as Program.kept has it: the first result's gradient, with respect to all
        kept = lie(torch.ops.transfuse.run_keeping.default, leaves, region.handle, sizes, 0, keep)[len(results) :]
        given = [*gradient, *kept]
        lie(torch.ops.transfuse.run_backward.default, leaves, given, region.handle, sizes, 0, [0], every, keep)


def test_whole_model_under_compile_of_pytorch():
    """Inductor around us: our regions stay one operator each."""
    model, inputs = zoo.model("A")
    ours = transfuse.optimize(model, tuple(inputs), never_slower=False)
    graphs = []

    def look(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module.forward

    with torch.no_grad():
        close(torch.compile(ours, fullgraph=True, backend=look)(*inputs), model(*inputs))
    assert "ops.transfuse.run(" in graphs[0].code and "conv_transpose2d" not in graphs[0].code


@pytest.mark.parametrize(
    "option,words",
    [
        ({"torch_executed_ops": "aten.relu"}, "takes a list of operators"),
        ({"torch_executed_ops": ["aten.rellu"]}, "there is no operator 'aten.rellu'"),
        ({"torch_executed_ops": [torch.relu]}, "there is no operator"),
        ({"min_block_size": "3"}, "takes a number of operators"),
        ({"engine": "fast"}, "unknown engine 'fast'"),
    ],
)
def test_options_of_the_wrong_kind_are_refused(option, words):
    """Not taken for something else, nor for a failure to compile."""
    model, x = torch.nn.Sequential(torch.nn.ConvTranspose2d(3, 4, 3), torch.nn.ReLU()), torch.randn(2, 3, 5, 6)
    with pytest.raises((TypeError, ValueError), match=words):
        transfuse.optimize(model, (x,), **option)
    with pytest.raises(Exception, match=words):
        torch.compile(model, backend="transfuse", options=option)(x)


def graphs_of(monkeypatch):
    made = []
    cut = transfuse_backend.cut
    monkeypatch.setattr(transfuse_backend, "cut", lambda *a: made.append(a[2]) or cut(*a))
    torch._dynamo.reset()
    return made


@pytest.mark.parametrize("dynamic, count", [(None, 2), (True, 1), (False, 4)])
def test_dynamic_is_heeded(dynamic, count, monkeypatch, no_fallback):
    made, model = graphs_of(monkeypatch), nn.Sequential(nn.ConvTranspose1d(3, 4, 3), nn.ReLU())
    options = {"rest": "eager", "never_slower": False}
    compiled = torch.compile(model, backend="transfuse", dynamic=dynamic, options=options)
    for size in (5, 6, 7, 8):
        x = torch.randn(1, 3, size)
        close(compiled(x), model(x))
    assert len(made) == count


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes_are_heeded_or_said_not_to_be(mode, monkeypatch):
    made, model, x = graphs_of(monkeypatch), nn.ConvTranspose1d(3, 4, 3), torch.randn(1, 3, 5)
    monkeypatch.setattr(fallback, "_said", set())
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", fallback.Warned)
        for _ in range(2):
            torch._dynamo.reset()
            close(torch.compile(model, backend="transfuse", options={"rest": "eager", "mode": mode})(x), model(x))
    said = [w for w in heard if "makes CUDA graphs where" in str(w.message)]
    assert len(said) == (mode in ("reduce-overhead", "max-autotune"))
    assert all(options.autotune == mode.startswith("max") for options in made)


def test_a_mode_that_is_unknown():
    torch._dynamo.reset()
    with pytest.raises(Exception, match="unknown mode 'fast'"):
        torch.compile(nn.ReLU(), backend="transfuse", mode="fast")(torch.randn(2))


def test_a_compiled_model_may_have_a_name(no_fallback):
    torch._dynamo.reset()
    model, x = nn.ConvTranspose1d(3, 4, 3), torch.randn(1, 3, 5)
    named = {"name": "up"} if "name" in inspect.signature(torch.compile).parameters else {}
    close(torch.compile(model, backend="transfuse", options={"rest": "eager"}, **named)(x), model(x))
