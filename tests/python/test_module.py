"""An optimised module is the module: the same objects, the same names, the same behaviour."""

import copy
import dataclasses
import io
import logging
import pickle
import subprocess
import sys
import threading
import types
import warnings

import pytest
import torch
import zoo
from torch import nn
from torch.nn.utils import prune

import transfuse
from transfuse import fallback


class Decoder(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, channels, 3, stride=2, padding=1, output_padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.act = nn.LeakyReLU(0.2, inplace=True)
        self.head = nn.Conv2d(channels, 2, 3, padding=1)

    def forward(self, x, scale=1.0, *, shift=None):
        y = self.act(self.norm(self.up(x))) * scale
        y = self.head(y)
        return y if shift is None else {"y": y + shift, "shift": shift}


def optimized(model, x=None, **options):
    options.setdefault("never_slower", False)
    return transfuse.optimize(model, x, **options)


@pytest.fixture
def pair():
    model = Decoder()
    x = torch.randn(2, 3, 5, 6)
    return model, optimized(model, (x,)), x


def same(a, b, tolerance=1e-5):
    assert torch.allclose(a, b, rtol=tolerance, atol=tolerance)


def test_same_objects_and_names(pair):
    model, ours, _ = pair
    assert isinstance(ours, Decoder) and repr(ours) == repr(model)
    assert list(ours.state_dict()) == list(model.state_dict())
    assert all(a is b for a, b in zip(ours.parameters(), model.parameters()))
    assert all(a is b for a, b in zip(ours.buffers(), model.buffers()))


def test_every_way_to_call(pair):
    model, ours, x = pair
    plain = copy.deepcopy(model).eval()
    ours.eval()
    same(ours(x), plain(x))
    same(ours(x=x), plain(x))
    same(ours(x, 0.5), plain(x, 0.5))
    same(ours(x, scale=2.0), plain(x, 2.0))
    both = ours(x, shift=x[:1, :2, :1, :1])
    assert list(both) == ["y", "shift"]
    same(both["y"], plain(x, shift=x[:1, :2, :1, :1])["y"])
    with pytest.raises(TypeError):
        ours()
    with pytest.raises(TypeError):
        ours(x, colour=3)


def test_in_place_updates_of_weights_are_seen(pair):
    model, ours, x = pair
    ours.eval()
    before = ours(x)
    with torch.no_grad():
        model.up.weight.add_(0.1)
    model.up.weight.data.mul_(1.5)
    model.head.bias.data.copy_(torch.tensor([1.0, 2.0]))
    plain = copy.deepcopy(model).eval()
    assert not torch.allclose(ours(x), before)
    same(ours(x), plain(x))


def test_an_optimiser_trains_it_like_the_plain_one():
    model = Decoder()
    plain = copy.deepcopy(model)
    x, target = torch.randn(4, 3, 5, 6), torch.randn(4, 2, 10, 12)
    ours = optimized(model, (x,))
    for module in (ours, plain):
        step = torch.optim.SGD(module.parameters(), lr=1e-2, momentum=0.9)
        for _ in range(4):
            step.zero_grad()
            nn.functional.mse_loss(module(x), target).backward()
            step.step()
    for (name, a), b in zip(ours.state_dict().items(), plain.state_dict().values()):
        assert torch.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-4), name


def test_frozen_weights_are_prepared_once():
    model = Decoder().eval()
    x = torch.randn(2, 3, 5, 6)
    ours = optimized(model, (x,), freeze=True)
    other = optimized(Decoder().eval(), (x,), freeze=True)
    with torch.no_grad():
        first = ours(x)
        same(first, model(x))
        assert not torch.allclose(other(x), first)  # frozen weights belong to their model
        same(ours(x), first)


def test_load_state_dict(pair):
    _, ours, x = pair
    donor = Decoder()
    ours.load_state_dict(donor.state_dict())
    same(ours.eval()(x), donor.eval()(x))
    ours.load_state_dict(Decoder().state_dict(), assign=True)
    ours.load_state_dict(donor.state_dict(), assign=True)
    same(ours(x), donor(x))


def test_deepcopy_and_pickle(pair):
    model, ours, x = pair
    ours.eval()
    expected = ours(x)
    for copied in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert copied.up.weight is not model.up.weight
        with torch.no_grad():
            same(copied(x), expected)
            copied.up.weight.zero_()
            assert not torch.allclose(copied(x), expected)
            same(ours(x), expected)
    buffer = io.BytesIO()
    torch.save(ours, buffer)
    buffer.seek(0)
    same(torch.load(buffer, weights_only=False)(x), expected)


def test_to_another_dtype(pair):
    model, ours, x = pair
    ours.to(torch.float64)
    plain = copy.deepcopy(model).eval()
    assert model.up.weight.dtype is torch.float64
    out = ours.eval()(x.double())
    assert out.dtype is torch.float64
    same(out, plain(x.double()), 1e-12)
    ours.to(torch.bfloat16)
    assert ours(x.bfloat16()).dtype is torch.bfloat16


def test_train_and_eval_switch(pair):
    model, ours, x = pair
    plain = copy.deepcopy(model)
    for training in (True, False, True, True, False):
        ours.train(training)
        plain.train(training)
        same(ours(x), plain(x))
        for a, b in zip(ours.buffers(), plain.buffers()):
            same(a.double(), b.double())
    assert ours.norm.num_batches_tracked == 3


def test_shared_batch_norm_part_in_eval():
    """A frozen BatchNorm in a model that trains: fine-tuning."""
    model = Decoder().train()
    model.norm.eval()
    x = torch.randn(2, 3, 5, 6)
    ours = optimized(model, (x,))
    before = model.norm.running_mean.clone()
    same(ours(x), copy.deepcopy(model)(x))
    assert torch.equal(before, model.norm.running_mean)


@pytest.mark.parametrize("momentum", [0.1, 0.5, None])
@pytest.mark.parametrize("affine", [True, False])
def test_running_statistics(momentum, affine, no_fallback):
    model = nn.Sequential(
        nn.ConvTranspose1d(3, 4, 4, stride=2), nn.BatchNorm1d(4, momentum=momentum, affine=affine), nn.Tanh()
    )
    plain = copy.deepcopy(model)
    ours = optimized(model)
    for i in range(4):
        x = torch.randn(3, 3, 7) * (i + 1)
        same(ours(x), plain(x))
        for (name, a), b in zip(ours.named_buffers(), plain.buffers()):
            assert torch.allclose(a, b, rtol=1e-5, atol=1e-6), name
    x = torch.randn(2, 3, 7)
    same(ours.eval()(x), plain.eval()(x))


def test_batch_norm_without_running_statistics(no_fallback):
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 2), nn.BatchNorm2d(4, track_running_stats=False))
    x = torch.randn(2, 3, 4, 4)
    ours = optimized(model, x)
    same(ours(x), copy.deepcopy(model)(x))
    same(ours.eval()(x), copy.deepcopy(model).eval()(x))


def test_statistics_do_not_carry_gradients(pair):
    _, ours, x = pair
    ours(x.requires_grad_()).sum().backward()
    assert not ours.norm.running_mean.requires_grad and x.grad is not None


@pytest.mark.parametrize("old", [True, False])
def test_weight_norm(old, no_fallback):
    make = nn.utils.weight_norm if old else nn.utils.parametrizations.weight_norm
    model = nn.Sequential(
        make(nn.ConvTranspose1d(3, 4, 4, stride=2, padding=1)), nn.LeakyReLU(0.1), make(nn.Conv1d(4, 2, 3))
    )
    names = list(model.state_dict())
    x = torch.randn(2, 3, 9)
    ours = optimized(model, x)
    assert list(ours.state_dict()) == names
    reference = nn.Sequential(nn.ConvTranspose1d(3, 4, 4, stride=2, padding=1), nn.LeakyReLU(0.1), nn.Conv1d(4, 2, 3))
    with torch.no_grad():
        reference[0].weight.copy_(model[0].weight)
        reference[0].bias.copy_(model[0].bias)
        reference[2].weight.copy_(model[2].weight)
        reference[2].bias.copy_(model[2].bias)
    same(ours(x), reference(x))
    loss = ours(x).square().sum()
    mine = torch.autograd.grad(loss, list(ours.parameters()))
    theirs = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    for a, b in zip(mine, theirs):
        same(a, b, 1e-4)
    with torch.no_grad():
        next(p for n, p in model.named_parameters() if "g" in n or "original0" in n).mul_(2)
    same(ours(x), model(x))


@pytest.mark.parametrize("old", [True, False])
def test_spectral_norm(old):
    make = nn.utils.spectral_norm if old else nn.utils.parametrizations.spectral_norm
    model = nn.Sequential(make(nn.ConvTranspose2d(3, 4, 3, stride=2)), nn.ReLU())
    plain = copy.deepcopy(model)
    x = torch.randn(2, 3, 5, 5)
    ours = optimized(model, x)
    for _ in range(3):
        same(ours(x), plain(x))
    for (name, a), b in zip(ours.named_buffers(), plain.buffers()):
        assert torch.allclose(a, b, atol=1e-5), name
    same(ours.eval()(x), plain.eval()(x))
    assert list(ours.state_dict()) == list(plain.state_dict())


def test_dropout_in_training_stays_with_pytorch():
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.Dropout(0.5), nn.Conv2d(4, 2, 3))
    plain = copy.deepcopy(model)
    x = torch.randn(2, 3, 5, 5)
    ours = optimized(model, x)
    torch.manual_seed(3)
    a = ours(x)
    torch.manual_seed(3)
    same(a, plain(x))
    assert "dropout in training" in str(transfuse.report(ours))
    same(ours.eval()(x), plain.eval()(x))
    assert transfuse.report(ours).graphs[-1].lines[1].taken


def test_hooks_are_not_lost():
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU())
    seen = []
    x = torch.randn(1, 3, 4, 4)
    model[0].register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    ours = optimized(model)
    with pytest.warns(fallback.Warned, match="hook"):
        same(ours(x), model(x))
    assert len(seen) == 2


def test_hooks_added_later_are_not_lost():
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU())
    x = torch.randn(1, 3, 4, 4)
    ours = optimized(model, x)
    ours(x)
    seen = []
    handle = model[0].register_forward_hook(lambda *_: seen.append(1))
    ours(x)
    assert seen == [1]
    handle.remove()
    ours(x)
    assert seen == [1]


def test_hooks_of_the_model_itself_run_once(no_fallback):
    """They stand around what is captured, also if they are there when it is captured."""
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.Tanh())
    x = torch.randn(1, 3, 4, 4)
    plain = model(x)
    doubles = model.register_forward_hook(lambda module, inputs, output: 2 * output)
    ours = optimized(model)
    for _ in range(2):
        same(ours(x), 2 * plain)
    doubles.remove()
    ours.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    for length in (4, 5):  # known and new
        y = torch.randn(1, 3, length, 4)
        same(ours(y), model(y))


@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.spectral_norm])
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::transfuse.fallback.Warned")
def test_a_normalised_layer_alone(norm):
    """Its hook computes the weight; spectral_norm's changes a buffer with every call."""
    torch.manual_seed(0)
    model = norm(nn.ConvTranspose2d(3, 4, 3))
    plain = norm(nn.ConvTranspose2d(3, 4, 3))
    plain.load_state_dict(model.state_dict())
    ours = optimized(model)
    for mode in (True, True, False):
        x = torch.randn(2, 3, 5, 5)
        same(ours.train(mode)(x), plain.train(mode)(x))
    for (name, a), b in zip(ours.state_dict().items(), plain.state_dict().values()):
        assert torch.allclose(a, b, atol=1e-5), name


def test_hooks_on_all_modules_see_every_one():
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU())
    x = torch.randn(1, 3, 4, 4)
    ours = optimized(model, x)
    ours(x)
    seen = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(type(module).__name__))
    try:
        ours(x)
    finally:
        handle.remove()
    assert seen == ["ConvTranspose2d", "ReLU", "Sequential"]
    ours(x)
    assert len(seen) == 3


def test_parts_of_outputs_stay_views(no_fallback):
    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(3, 4, 3)

        def forward(self, x):
            y = self.up(x).relu()
            return y, y[:, 1], y[..., 2:4], y.flatten(1)

    model = Parts()
    ours, x = optimized(model), torch.randn(2, 3, 4, 4)
    with torch.no_grad():
        results, plain = ours(x), model(x)
        for a, b in zip(results, plain):
            same(a, b)
            assert a.stride() == b.stride()
        results[0].zero_()
        assert not any(part.any() for part in results)


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
    with pytest.warns(fallback.Warned, match=r"test_module.py:\d+: if y.mean\(\) > 0:.*torch.compile"):
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


def test_pruned_weights(no_fallback):
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU())
    prune.l1_unstructured(model[0], "weight", amount=0.4)
    x = torch.randn(2, 3, 5, 5)
    ours = transfuse.optimize(model, x, never_slower=False)
    for _ in range(2):
        same(ours(x), model(x))
        with torch.no_grad():
            model[0].weight_orig.mul_(1.5)


def test_torch_jit_trace_sees_pytorchs_operators(no_fallback):
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU()).eval()
    x = torch.randn(2, 3, 5, 5)
    ours = transfuse.optimize(model, x, never_slower=False)
    ours(x)
    traced = torch.jit.trace(ours, x)
    assert "transfuse" not in str(traced.inlined_graph)
    same(traced(x), model(x))


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


def test_slices_and_parts_of_an_optimised_sequential(no_fallback):
    class Up(nn.Sequential):
        def __init__(self, channels):
            super().__init__(nn.ConvTranspose2d(channels, 4, 2, stride=2), nn.ReLU())

    model = nn.Sequential(Up(3), Up(4), nn.Tanh())
    x = torch.randn(2, 3, 4, 5)
    ours = optimized(model, x)
    same(ours[:2](x), model[:2](x))
    same(ours[0](x), model[0](x))
    part = optimized(model[0], x)
    assert type(type(part)(5)) is Up  # whoever makes another one gets what was written
    model.append(nn.Sigmoid())
    same(ours(x), model(x))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::transfuse.fallback.Warned")
def test_a_scripted_part_runs_as_before():
    model = nn.Sequential(torch.jit.script(nn.ConvTranspose2d(3, 4, 3)), nn.ReLU())
    x = torch.randn(1, 3, 4, 4)
    same(optimized(model)(x), model(x))


def test_a_replaced_submodule_is_seen(pair):
    model, ours, x = pair
    ours.eval()(x)
    ours.act = nn.Tanh()
    ours.up = nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1)
    same(ours(x), copy.deepcopy(model).eval()(x))


def test_outputs_that_are_detached_stay_detached():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(3, 4, 3)

        def forward(self, x):
            y = self.up(x).relu()
            return y, y.detach() * 2

    x = torch.randn(1, 3, 4, 4)
    y, z = optimized(Two(), x)(x)
    assert y.requires_grad and not z.requires_grad


def test_many_threads(no_fallback):
    """New sizes are captured while other threads run the model and its plain twin."""
    model = Decoder().eval()
    ours = optimized(model)
    plain = copy.deepcopy(model)
    failures = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for i in range(6):
            x = torch.randn(1 + (seed + i) % 3, 3, 4 + i, 5, generator=generator)
            try:
                with torch.no_grad():
                    if not torch.allclose(ours(x), plain(x), atol=1e-5):
                        failures.append((seed, i))
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures


def test_threads_that_end_after_capturing():
    """PyTorch's own tracing crashes here on a machine without a GPU, if nothing is done about it; a crash takes the process along."""
    script = """
import threading, torch, transfuse
model = torch.nn.Sequential(torch.nn.ConvTranspose2d(3, 4, 3), torch.nn.ReLU())
def work(size):
    ours, x = transfuse.optimize(model, never_slower=False, dynamic=False), torch.rand(1, 3, size, 4)
    assert torch.allclose(ours(x), model(x), atol=1e-5)
for size in range(3, 7):
    thread = threading.Thread(target=work, args=(size,))
    thread.start(), thread.join()
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_never_slower_measures_and_says_so():
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU())
    x = torch.randn(2, 3, 8, 8)
    ours = transfuse.optimize(model, x)
    with torch.no_grad():
        same(ours(x), model(x))
    assert "is used (ours" in str(transfuse.report(ours))
    region = next(iter(ours.__dict__["_transfuse"].captures.values()))[0].cut.regions[0]
    region.choices.clear()
    region.measure = lambda *_: transfuse.region.Choice(2.0, 1.0)
    with torch.no_grad():
        same(ours(x), model(x))
    assert "PyTorch's is used" in str(transfuse.report(ours))
    region.choices.clear()
    region.measure = lambda *_: transfuse.region.Choice(1.0, 2.0, 3 << 20, 1 << 20)
    with torch.no_grad():
        same(ours(x), model(x))
    assert "PyTorch's is used, which needs less memory" in str(transfuse.report(ours))


def test_a_failing_region_falls_back_with_one_warning(pair, monkeypatch):
    model, ours, x = pair
    entry = next(iter(ours.__dict__["_transfuse"].captures.values()))[0]
    monkeypatch.setattr(
        transfuse.library, "run_detached", lambda *_: (_ for _ in ()).throw(RuntimeError("no kernel for you"))
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


def test_dispatch_needs_no_recapture(pair):
    _, ours, x = pair
    ours.eval()
    state = ours.__dict__["_transfuse"]
    with torch.no_grad():
        ours(x)
        captures = sum(map(len, state.captures.values()))
        for size in range(4, 14):
            ours(torch.randn(2, 3, size, size + 1))
            ours(torch.randn(size, 3, 4, size + 1))
    assert sum(map(len, state.captures.values())) == captures


class Watched(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.alpha, self.factors = 0.5, [1.0, 2.0]
        self._gain, self.options = 1.0, {"shift": 0.0, "unread": {}}
        self.config = types.SimpleNamespace(scale=1.0)
        self._unread = 0

    def forward(self, x):
        y = self.norm(self.up(x)) * self.alpha * self.factors[1]
        return y * self._gain * self.config.scale + self.options["shift"]


CHANGES = {
    "a number": lambda m: setattr(m, "alpha", 0.25),
    "an element of a list": lambda m: m.factors.__setitem__(1, 3.0),
    "a new attribute": lambda m: setattr(m, "beta", 1),
    "a private number that is read": lambda m: setattr(m, "_gain", 2.0),
    "an entry of a dictionary": lambda m: m.options.update(shift=1.0),
    "a field of a configuration": lambda m: setattr(m.config, "scale", 2.0),
    "another configuration": lambda m: setattr(m, "config", types.SimpleNamespace(scale=1.0)),
    "training of a part": lambda m: m.norm.train(),
    "another part": lambda m: setattr(m, "up", nn.ConvTranspose2d(3, 4, 3)),
    "a part more": lambda m: m.norm.add_module("more", nn.ReLU()),
    "a parameter gone": lambda m: setattr(m.up, "bias", None),
    "a buffer gone": lambda m: delattr(m.norm, "running_mean"),
    "a parameter in its place": lambda m: (
        delattr(m.norm, "weight"),
        m.norm.register_parameter("scale", nn.Parameter(torch.ones(4))),
    ),
    "another dtype": lambda m: m.double(),
    "another dtype of one buffer": lambda m: setattr(m.norm, "running_mean", m.norm.running_mean.double()),
    "a hook of a part": lambda m: m.up.register_forward_hook(lambda *_: None),
    "an option of a part": lambda m: setattr(m.up, "stride", (2, 2)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_guard_of_repeated_calls_sees(change):
    ours, x = optimized(Watched().eval()), torch.randn(1, 3, 5, 5)
    ours(x)
    recall = ours.__dict__["_transfuse"].recall
    assert recall.find((x,)) is not None and recall.find((x.double(),)) is None and recall.find((x, x)) is None
    ours.up.weight.data.add_(1)  # other values are the same call
    ours._unread += 1  # and what forward() does not read does not matter
    assert recall.holds()
    CHANGES[change](ours)
    assert not recall.holds()


def test_what_forward_reads_is_honoured(no_fallback):
    """Private numbers, dictionaries, configurations and tensors in lists, changed between calls."""

    class Reading(Watched):
        def __init__(self):
            super().__init__()
            self.offsets = [torch.zeros(4, 1, 1)]

        def forward(self, x):
            return super().forward(x) + self.offsets[0]

    model = Reading().eval()
    ours, x = optimized(model), torch.randn(1, 3, 5, 5)
    for change in (
        lambda m: setattr(m, "_gain", 3.0),
        lambda m: m.options.update(shift=2.0),
        lambda m: setattr(m.config, "scale", 0.5),
        lambda m: m.offsets[0].add_(1),
        lambda m: m.offsets.__setitem__(0, torch.full((4, 1, 1), 5.0)),
    ):
        same(ours(x), model(x))
        change(model)
        ours._gain = model._gain
    same(ours(x), model(x))


def test_loggers_recurrent_layers_and_own_calls(no_fallback):
    """What changes of itself while forward() runs is no change of the model's; what a __call__ adds is added once."""

    class Logging(nn.Module):
        def __init__(self):
            super().__init__()
            self.log, self.steps = logging.getLogger("transfuse.test"), []
            self.gru, self.up = nn.GRU(4, 4, batch_first=True), nn.ConvTranspose1d(4, 2, 4, stride=2)

        def __call__(self, x):
            return super().__call__(x) + 1

        def forward(self, x):
            self.log.debug("%s", x.shape)
            return self.up(self.gru(x)[0].transpose(1, 2))

    model = Logging()
    ours = optimized(model)
    for length in (5, 7, 5):
        x = torch.randn(2, length, 4)
        same(ours(x), model(x))
    assert transfuse.report(ours).taken


@pytest.mark.filterwarnings("ignore::transfuse.fallback.Warned")
def test_what_forward_stores_is_stored():
    class Storing(nn.Module):
        def __init__(self, private):
            super().__init__()
            self.up, self.private = nn.ConvTranspose2d(3, 4, 3), private
            self.seen, self._last = {}, torch.zeros(())

        def forward(self, x):
            y = self.up(x)
            if self.private:
                self._last = y
            else:
                self.seen["y"] = y
            return y.relu()

    for private in (True, False):
        ours = optimized(Storing(private))
        for _ in range(2):
            x = torch.randn(1, 3, 4, 4)
            y = ours(x)
            stored = ours._last if private else ours.seen["y"]
            same(stored, ours.up(x))
            same(y, stored.relu())


def test_the_guard_of_repeated_calls_sees_autocast_and_transforms():
    ours, x = optimized(Watched().eval()), torch.randn(1, 3, 5, 5)
    ours(x)
    recall = ours.__dict__["_transfuse"].recall
    with torch.autocast("cpu", torch.bfloat16):
        assert not recall.holds()
        assert ours(x).dtype == Watched().eval()(x).dtype
        inside = ours.__dict__["_transfuse"].recall
        assert inside is not recall and inside.holds()
    assert recall.holds() and not inside.holds()
    torch.vmap(lambda v: (recall.holds() and pytest.fail("vmap is not seen")) or v)(x)


def test_train_and_eval_take_turns_without_new_guards():
    ours, x = optimized(Watched()), torch.randn(1, 3, 5, 5)
    for training in (True, False, True, False):
        ours.train(training)(x)
    assert len(ours.__dict__["_transfuse"].recalls) == 2
