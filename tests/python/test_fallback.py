"""What is left to PyTorch, why, and who is told."""

import copy
import dataclasses
import warnings

import pytest
import torch
import zoo
from decoder import optimized, same
from torch import nn

import transfuse
from transfuse import fallback

pytestmark = pytest.mark.versions


def test_control_flow_that_cannot_be_captured_still_runs():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(3, 4, 3)

        def forward(self, x):
            y = self.up(x)
            return y.relu() if y.sum() > 0 else y

    model = Odd()
    x = torch.randn(1, 3, 4, 4)
    ours = optimized(model)
    with pytest.warns(fallback.Warned, match="could not be captured"):
        same(ours(x), model(x))
    assert "could not be captured" in str(transfuse.report(ours))
    with pytest.raises(RuntimeError, match="could not be captured"):
        optimized(Odd(), x, require_full_compilation=True)


def test_the_reason_names_the_line_that_branches_on_values(capfd):
    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.ConvTranspose2d(3, 4, 3)

        def forward(self, x):
            y = self.conv(x)
            if y.mean() > 0:
                y = y * 2
            return y

    model = Branching()
    ours = transfuse.optimize(model)
    with pytest.warns(fallback.Warned, match=r"test_fallback.py:\d+: if y.mean\(\) > 0:.*torch.compile"):
        same(ours(torch.ones(2, 3, 5, 5)), model(torch.ones(2, 3, 5, 5)))
    state = ours.__dict__["_transfuse"]
    ours(torch.ones(2, 3, 9, 7))  # another size branches on values too: it is not tried again
    assert len(state.failures) == 1
    assert "def forward" not in capfd.readouterr().err


def test_a_result_that_cannot_be_taken_apart_is_named():
    @dataclasses.dataclass
    class Result:
        sample: torch.Tensor

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.ConvTranspose2d(3, 4, 3)

        def forward(self, x):
            return Result(self.conv(x))

    x = torch.randn(2, 3, 5, 5)
    model = Model()
    ours = transfuse.optimize(model)
    with pytest.warns(fallback.Warned, match="gives a Result.*register_dataclass"):
        same(ours(x).sample, model(x).sample)


def test_a_call_that_pytorch_refuses_raises_its_error_without_a_warning():
    ours = transfuse.optimize(nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.BatchNorm2d(4)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match="to have 3 channels"):
            ours(torch.randn(2, 5, 6, 6))


def test_require_full_compilation_names_what_is_left():
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.Flatten(1), nn.Linear(4 * 36, 2))
    with pytest.raises(RuntimeError, match="linear"):
        optimized(model, torch.randn(1, 3, 4, 4), require_full_compilation=True)


def test_torch_executed_ops_and_min_block_size():
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3))
    x = torch.randn(1, 3, 4, 4)
    told = transfuse.report(optimized(model, x, torch_executed_ops=["aten.relu"]))
    assert [line.taken for line in told.graphs[0].lines] == ["region_0", None, "region_1"]
    told = transfuse.report(optimized(model, x, torch_executed_ops=["aten.relu"], min_block_size=2))
    assert told.taken == 0 and "min_block_size" in str(told)


def test_dryrun(capsys):
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU())
    assert transfuse.optimize(model, torch.randn(1, 3, 4, 4), dryrun=True) is model
    assert "region_0" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::transfuse.fallback.Warned")
def test_a_scripted_part_runs_as_before():
    model = nn.Sequential(torch.jit.script(nn.ConvTranspose2d(3, 4, 3)), nn.ReLU())
    x = torch.randn(1, 3, 4, 4)
    same(optimized(model)(x), model(x))


@pytest.mark.filterwarnings("ignore::transfuse.fallback.Warned")
def test_arguments_that_a_graph_does_not_know():
    """What is written into a dictionary is found there; a module that is given is called."""

    class Given(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose1d(3, 4, 3)

        def forward(self, batch, act=None):
            batch["y"] = self.up(batch["x"] if isinstance(batch, dict) else batch[0])
            return batch if act is None else act(batch["y"])

    class Called(Given):
        def forward(self, x, act):
            return act(self.up(x))

    x = torch.randn(2, 3, 5)
    ours, model, called = optimized(Given()), Given(), Called()
    model.load_state_dict(ours.state_dict())
    for size in (5, 6, 5):
        batches = [{"x": torch.ones(2, 3, size)} for _ in range(2)]
        results = [m(batch) for m, batch in zip((ours, model), batches)]
        assert results[0] is batches[0]
        same(batches[0]["y"], batches[1]["y"])
    assert "list or dictionary" in str(transfuse.report(ours))
    ours = optimized(called)
    for act in (nn.Tanh(), torch.tanh, nn.Softplus(), nn.Conv1d(4, 4, 1)):
        for _ in range(2):
            same(ours(x, act), called(x, act))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_scripted_model_is_left_as_it_is():
    x = torch.randn(1, 3, 4, 4)
    for model in (torch.jit.script(nn.ConvTranspose2d(3, 4, 3)), torch.jit.trace(nn.ConvTranspose2d(3, 4, 3), x)):
        with pytest.warns(fallback.Warned, match="TorchScript"):
            fallback._said.clear()
            assert transfuse.optimize(model, x) is model
        with pytest.raises(RuntimeError, match="TorchScript"):
            transfuse.optimize(model, x, require_full_compilation=True)


@pytest.mark.filterwarnings("ignore::transfuse.fallback.Warned", "ignore:The PyTorch API of nested")
def test_tensors_without_strides_are_pytorchs():
    """Of a shape that was met before, and before any: neither may decide what becomes of other tensors."""
    model, x = (
        nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU()).eval().requires_grad_(False),
        torch.randn(1, 3, 4, 4),
    )
    nested = torch.nested.nested_tensor([torch.randn(3, 5)])
    for first in (x, nested, x.to_mkldnn(), x.to_sparse()):
        ours = optimized(model)
        for given in (first, nested, x.to_mkldnn(), x.to_sparse()):
            try:
                expected = model(given)
            except RuntimeError as error:
                with pytest.raises(type(error)) as found:
                    ours(given)
                assert str(found.value)[:60] == str(error)[:60]
            else:
                same(ours(given).to_dense(), expected.to_dense())
        same(ours(x), model(x))
        regions = [
            r for entries in ours.__dict__["_transfuse"].captures.values() for e in entries for r in e.cut.regions
        ]
        assert regions and all(region.failure is None for region in regions)


def test_never_slower_measures_and_says_so():
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU())
    x = torch.randn(2, 3, 8, 8)
    ours = transfuse.optimize(model, x)
    with torch.no_grad():
        same(ours(x), model(x))
    assert "is used (ours" in str(transfuse.report(ours))
    region = next(iter(ours.__dict__["_transfuse"].captures.values()))[0].cut.regions[0]
    region.forget()
    region.measure = lambda *_: transfuse.run.region.Choice(2.0, 1.0)
    with torch.no_grad():
        same(ours(x), model(x))
    assert "PyTorch's is used" in str(transfuse.report(ours))
    region.forget()
    region.measure = lambda *_: transfuse.run.region.Choice(1.0, 2.0, 3 << 20, 1 << 20)
    with torch.no_grad():
        same(ours(x), model(x))
    assert "PyTorch's is used, which needs less memory" in str(transfuse.report(ours))


def test_a_failing_region_falls_back_with_one_warning(pair, monkeypatch):
    model, ours, x = pair
    entry = next(iter(ours.__dict__["_transfuse"].captures.values()))[0]
    monkeypatch.setattr(
        transfuse.native.library, "run_keeping", lambda *_: (_ for _ in ()).throw(RuntimeError("no kernel for you"))
    )
    plain = copy.deepcopy(model)
    with pytest.warns(fallback.Warned, match="no kernel for you"):
        same(ours(x), plain(x))
    assert entry.cut.regions[0].failure == "no kernel for you"
    assert "no kernel for you" in str(transfuse.report(ours))
    for a, b in zip(ours.buffers(), plain.buffers()):
        same(a.double(), b.double())


def test_report_and_explain():
    model, inputs = zoo.model("A")
    ours = transfuse.optimize(model, tuple(inputs), never_slower=False)
    text = str(transfuse.report(ours))
    assert "collapse" in text and "aten.conv_transpose2d.input" in text and "region_0" in text
    told = transfuse.explain(model, tuple(inputs))
    assert told.flops_after < told.flops_before / 4 and told.bytes_after < told.bytes_before
    assert "collapse" in str(told) and "pass" in told.plan


def test_a_report_speaks_of_its_model():
    """Not of what torch.compile was given elsewhere; of optimised parts, and of what could not be taken."""
    x = torch.randn(2, 3, 5, 6)
    transfuse.backend.reset()
    compiled = torch.compile(
        nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU()), backend="transfuse", options={"rest": "eager"}
    )
    compiled(x)
    assert transfuse.report(compiled).taken == 2
    assert transfuse.report(nn.ReLU()).taken == 0 and "nothing captured" in str(transfuse.report(nn.ReLU()))
    part = transfuse.optimize(nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU()), (x,), never_slower=False)
    whole = nn.Sequential(part, nn.Tanh())
    assert transfuse.report(whole).taken == 2 and "0: training" in str(transfuse.report(whole))
    transfuse.backend.reset()
    refused = torch.compile(
        lambda x: torch.func.vjp(part, x)[1](part(x))[0], backend="transfuse", options={"rest": "eager"}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refused(x)
    assert "torch.func" in str(transfuse.report(refused))
