"""An optimised module is the module: the same objects, the same names, the same behaviour."""

import copy
import io
import pickle
import subprocess
import sys
import threading

import pytest
import torch
import torch.nn.functional as F
from decoder import Decoder, optimized, same
from torch import nn

import transfuse

pytestmark = pytest.mark.versions


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


@pytest.mark.parametrize(
    "cut", [lambda y: y.chunk(2, 1), lambda y: y.split([1, 3], 1), lambda y: torch.split(y, 3, -1)]
)
def test_all_parts_of_a_result_are_views_of_it(cut, no_fallback):
    """mean, log_variance = encoder(x).chunk(2, 1)"""

    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(3, 4, 3)

        def forward(self, x):
            return cut(self.up(x).relu())

    model = Split()
    ours, x = optimized(model), torch.randn(2, 3, 4, 4)
    for a, b in zip(ours(x), model(x), strict=True):
        same(a, b)
        assert a.stride() == b.stride()


def test_torch_jit_trace_sees_pytorchs_operators(no_fallback):
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU()).eval()
    x = torch.randn(2, 3, 5, 5)
    ours = transfuse.optimize(model, x, never_slower=False)
    ours(x)
    traced = torch.jit.trace(ours, x)
    assert "transfuse" not in str(traced.inlined_graph)
    same(traced(x), model(x))


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 3)

    def forward(self, x):
        return F.relu(self.up(x))


def test_torch_jit_script_compiles_what_was_written(no_fallback):
    model, x = Scripted(), torch.randn(2, 3, 5, 5)
    ours = optimized(model, x)
    scripted = torch.jit.script(ours)
    with torch.no_grad():
        ours.up.weight.mul_(2)  # one parameter for both
    same(scripted(x), model(x))
    same(ours(x), model(x))


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
