"""freeze=True: weights are prepared once, again when they change, and given back with their model."""

import copy
import ctypes
import gc
import operator
from pathlib import Path

import pytest
import torch
from decoder import Decoder, optimized, same
from torch import nn

import transfuse
from transfuse import backend
from transfuse.native import library


def regions(ours):
    return [r for entries in ours.__dict__["_transfuse"].captures.values() for e in entries for r in e.cut.regions]


def large():
    """Six megabytes of weights."""
    return nn.Sequential(nn.ConvTranspose2d(128, 256, 7), nn.ReLU()).eval().requires_grad_(False)


def resident() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_deleted_models_give_their_memory_back():
    def one():
        ours = optimized(large(), freeze=True)
        ours(torch.randn(1, 128, 4, 4))
        return regions(ours)[0].handle

    one(), one()  # what is made once
    before = resident()
    handles = [one() for _ in range(8)]
    gc.collect()
    for handle in handles:
        with pytest.raises(library.CompileError, match="no Transfuse program"):
            library.describe(handle)
    assert resident() - before < 24 << 20  # of 8 times 6 MB of weights, prepared


@pytest.mark.versions
@pytest.mark.parametrize("rest", ["inductor", "eager"])
def test_compiled_models_give_their_memory_back(rest):
    """What was prepared goes with the model, the program with the compiled code, which Dynamo keeps for longer."""
    torch._dynamo.reset(), backend.reset()
    model = large()
    ours = torch.compile(model, backend="transfuse", options={"freeze": True, "never_slower": False, "rest": rest})
    with torch.no_grad():
        ours(torch.randn(1, 128, 4, 4))
    handle = backend.cuts()[-1].regions[0].handle
    assert library.describe(handle)["executables"] != []
    del model, ours
    gc.collect()
    assert library.describe(handle)["executables"] == []
    torch._dynamo.reset()
    gc.collect()
    with pytest.raises(library.CompileError, match="no Transfuse program"):
        library.describe(handle)
    assert transfuse.report(lambda x: x).graphs == []


CHANGES = {
    "load_state_dict": lambda m: m.load_state_dict(Decoder().state_dict()),
    "load_state_dict that assigns": lambda m: m.load_state_dict(Decoder().state_dict(), assign=True),
    "in place": lambda m: m.up.weight.mul_(2),
    "a bias alone": lambda m: m.head.bias.add_(1),
    "statistics": lambda m: m.norm.running_mean.add_(1),
    "other memory": lambda m: setattr(m.up.weight, "data", torch.randn_like(m.up.weight)),
    "another parameter": lambda m: setattr(m.up, "weight", nn.Parameter(torch.randn_like(m.up.weight))),
    "a step of training": lambda m: (m.train()(torch.randn(2, 3, 5, 6)), m.eval()),
    "an optimiser": lambda m: step(m),
}


def step(module):
    with torch.enable_grad():
        optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
        module(torch.randn(2, 3, 5, 6)).square().sum().backward()
        optimiser.step()
        module.zero_grad()


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_weights_are_prepared_anew(change, no_fallback):
    ours = optimized(Decoder().eval(), freeze=True)
    x, other = torch.randn(2, 3, 5, 6), torch.randn(1, 3, 7, 4)
    with torch.no_grad():
        for _ in range(2):
            first = ours(x), ours(other)
        change(ours)
        plain = Decoder().eval()
        plain.load_state_dict(ours.state_dict())
        for _ in range(2):
            same(ours(x), plain(x))
            same(ours(other), plain(other))
        assert not torch.allclose(ours(x), first[0], atol=1e-4)


def test_weights_are_prepared_once_as_long_as_they_stay(monkeypatch):
    ours = optimized(Decoder().eval(), freeze=True)
    x = torch.randn(2, 3, 5, 6)
    forgotten = []
    monkeypatch.setattr(library, "forget_frozen", forgotten.append)
    with torch.no_grad():
        for _ in range(3):
            ours(x)
        hidden = ours.up.weight.data  # has a count of its own, by which nothing shows
        before = ours(x)
        hidden.mul_(3)
        assert torch.equal(ours(x), before), "weights are not prepared at every call"
    assert not forgotten


def test_functional_call_with_other_weights(no_fallback):
    ours, plain = optimized(Decoder().eval(), freeze=True), Decoder().eval()
    donor = dict(Decoder().named_parameters())
    x = torch.randn(2, 3, 5, 6)
    plain.load_state_dict(ours.state_dict())
    with torch.no_grad():
        for weights in ({}, donor, {}, donor):
            same(torch.func.functional_call(ours, weights, x), torch.func.functional_call(plain, weights, x))


def test_what_pytorch_computes_from_weights_is_not_frozen(no_fallback):
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.mask = nn.ConvTranspose2d(3, 4, 3), nn.Parameter(torch.randn(3, 4, 3, 3))

        def forward(self, x):
            return torch.conv_transpose2d(x, self.up.weight.masked_fill(self.mask > 0, 0.0))

    model = Masked().eval()
    ours = optimized(copy.deepcopy(model), freeze=True)
    x = torch.randn(2, 3, 5, 6)
    with torch.no_grad():
        for _ in range(3):
            same(ours(x), model(x))
            for module in (ours, model):
                module.mask.neg_()


def test_weights_that_nobody_counts(no_fallback):
    """A tensor made in inference mode does not tell how often it was written."""
    with torch.inference_mode():
        model = nn.ConvTranspose2d(3, 4, 3).eval().requires_grad_(False)
        plain = copy.deepcopy(model)
        ours = optimized(model, freeze=True)
        x = torch.randn(2, 3, 5, 6)
        for _ in range(3):
            same(ours(x), plain(x))
            for module in (ours, plain):
                module.weight.mul_(2)


def test_a_traced_call_sees_the_weights(no_fallback):
    ours = optimized(Decoder().eval(), freeze=True)
    plain = copy.deepcopy(ours.__dict__["_transfuse"].base())
    x = torch.randn(2, 3, 5, 6)
    compiled = torch.compile(ours, backend="aot_eager")
    with torch.no_grad():
        for _ in range(2):
            compiled(x)
        ours.load_state_dict(Decoder().state_dict())
        plain.load_state_dict(ours.state_dict())
        same(compiled(x), plain.eval()(x))


def test_exported_models_of_equal_text_have_their_own_weights():
    x = torch.randn(2, 3, 5, 6)
    with torch.no_grad():
        models = [optimized(Decoder().eval(), freeze=True) for _ in range(2)]
        exported = [torch.export.export(model, (x,)).module() for model in models]
        results = [module(x) for module in exported]
        for result, model in zip(results, models):
            same(result, model(x))
    assert not operator.eq(*[r.sum().item() for r in results])
    assert transfuse.report(models[0]).taken
