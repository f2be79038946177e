"""Where there is no memory for a call it is run with less, or by PyTorch; the next call is ours again."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from decoder import optimized, same
from torch import nn

from transfuse import fallback
from transfuse.native import library

ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("out of memory: PyTorch has none for 7 bytes of scratch"),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:121] data. DefaultCPUAllocator: can't allocate memory: you tried to allocate 8"
    ),
]


def pair():
    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU())
    ours = optimized(model, torch.randn(2, 3, 5, 6))
    ((entry,),) = ours.__dict__["_transfuse"].captures.values()
    (region,) = entry.cut.regions
    return model, ours, region


@pytest.fixture
def failing(monkeypatch):
    """The operators, which fail with an error as long as there is one."""
    now = {"error": None, "modes": []}

    def wrapped(name, place):
        real = getattr(library, name)

        def run(*arguments):
            now["modes"].append(arguments[place])
            if now["error"] is not None and not (now.get("lean") and arguments[place] & library.LEAN):
                raise now["error"]
            return real(*arguments)

        monkeypatch.setattr(library, name, run)

    wrapped("run_detached", 3), wrapped("run_keeping", 3), wrapped("run_one", 2), wrapped("run_backward", 4)
    fallback._said.clear()
    return now


@pytest.mark.parametrize("error", ERRORS, ids=["cuda", "ours", "cpu"])
def test_one_call_without_memory(error, failing):
    model, ours, region = pair()
    x = torch.randn(2, 3, 5, 6)
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            same(ours(x), model(x))
            failing["error"] = error
            fallback._said.clear()
            with pytest.warns(fallback.Warned, match="found no memory"):
                same(ours(x), model(x))
            failing["error"] = None
            failing["modes"].clear()
            same(ours(x), model(x))
            assert failing["modes"] and region.failure is None


def test_any_other_error_is_for_good(failing):
    model, ours, region = pair()
    x = torch.randn(2, 3, 5, 6)
    failing["error"] = RuntimeError("no kernel for you")
    with torch.no_grad(), pytest.warns(fallback.Warned, match="no kernel"):
        ours(x)
    failing["error"] = None
    failing["modes"].clear()
    with torch.no_grad():
        same(ours(x), model(x))
    assert region.failure and not failing["modes"]


def test_the_plan_that_needs_least_is_tried_first(failing):
    model, ours, region = pair()
    x = torch.randn(2, 3, 5, 6)

    class OnCuda(torch.Tensor):
        is_cuda = True

    failing.update(error=ERRORS[0], lean=True)
    like = x.as_subclass(OnCuda)
    with torch.no_grad():
        same(region.with_less_memory(ERRORS[0], (like, *ours.parameters()))[0], model(x))
    assert failing["modes"][-1] & library.LEAN and not fallback._said


def test_a_backward_without_memory(failing):
    model, ours, region = pair()
    x = torch.randn(2, 3, 5, 6)

    def gradients(module):
        return torch.autograd.grad(module(x).square().sum(), list(module.parameters()))

    for error in (None, ERRORS[0], None):
        y = ours(x)
        failing["error"] = error
        found = torch.autograd.grad(y.square().sum(), list(ours.parameters()))
        failing["error"] = None
        for a, b in zip(found, gradients(model)):
            same(a, b, 1e-4)
        assert region.gradient.failure is None
    failing["modes"].clear()
    gradients(ours)
    assert len(failing["modes"]) == 2  # forward and backward


def test_a_measurement_without_memory_is_made_at_the_next_call(failing):
    import transfuse

    model = nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.ReLU())
    ours = transfuse.optimize(model, torch.randn(2, 3, 5, 6))
    ((entry,),) = ours.__dict__["_transfuse"].captures.values()
    (region,) = entry.cut.regions
    x = torch.randn(2, 3, 5, 6)
    failing["error"] = ERRORS[0]
    with torch.no_grad(), pytest.warns(fallback.Warned, match="found no memory"):
        same(ours(x), model(x))
    assert not region.choices
    failing["error"] = None
    with torch.no_grad():
        same(ours(x), model(x))
    assert region.failure is None and len(region.choices) == 1


def limited() -> None:
    """In a process of its own: a call for which the system has no memory, then another one."""
    torch.set_num_threads(1)
    model = nn.Sequential(nn.ConvTranspose2d(4, 64, 2, 2), nn.ReLU()).eval().requires_grad_(False)
    ours = optimized(model)
    small, large = torch.randn(1, 4, 8, 8), torch.randn(1, 4, 1024, 1024)
    ours(small), model(small)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + (256 << 20), before[1]))  # the result takes a gigabyte
    with pytest.raises(RuntimeError, match="allocate"):  # PyTorch has none for it either: its error is the one to see
        ours(large)
    same(ours(small), model(small))
    resource.setrlimit(resource.RLIMIT_AS, before)
    with torch.no_grad():
        same(ours(large[:, :, :300]), model(large[:, :, :300]))
    entries = [entry for found in ours.__dict__["_transfuse"].captures.values() for entry in found]
    assert entries and all(region.failure is None for entry in entries for region in entry.cut.regions)


def test_the_systems_memory():
    here = Path(__file__).parent
    code = f"import sys; sys.path.insert(0, {str(here)!r}); import test_want_of_memory; test_want_of_memory.limited()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
