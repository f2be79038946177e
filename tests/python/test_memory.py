"""Peak memory beside PyTorch's, as PyTorch's own allocator sees it: results, workspaces and scratch of both."""

import copy
import gc

import pytest
import torch
import torch.utils._pytree as pytree
import zoo
from torch.profiler import ProfilerActivity, profile

import transfuse
from transfuse.memory import peak
from transfuse.region import SPARE


def allocated(call) -> int:
    """The most bytes that are allocated at a time during a call."""
    call()  # plans and packs
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        call()
    sizes: list[tuple[int, int]] = []

    def collect(events):
        for event in events:
            if event.tag.name == "Allocation":
                sizes.append((event.start_time_ns, event.extra_fields.alloc_size))
            collect(event.children)

    collect(seen.profiler.kineto_results.experimental_event_tree())
    live = most = 0
    for _, size in sorted(sizes):
        live += size
        most = max(most, live)
    return most


def forward(module, inputs):
    with torch.no_grad():
        return module(*inputs)


def backward(module, inputs):
    inputs = [t.clone().requires_grad_() for t in inputs]
    results = pytree.tree_leaves(module(*inputs))
    return torch.autograd.grad([t.sum() for t in results], [*inputs, *module.parameters()], allow_unused=True)


@pytest.mark.parametrize("step", [forward, backward])
@pytest.mark.parametrize("name", ["A", "C", "D", "d5", "f1", "f3", "f5", "f8", "f10", "f12", "dcgan", "unet", "hifigan", "nnunet"])
def test_never_more_than_pytorch(name, step, no_fallback):
    model, inputs = zoo.model(name)
    ours = transfuse.optimize(copy.deepcopy(model), tuple(inputs), never_slower=False)
    mine, theirs = allocated(lambda: step(ours, inputs)), allocated(lambda: step(model, inputs))
    assert mine > 0 and theirs > 0
    assert mine <= theirs + SPARE // 2, f"{mine} bytes, PyTorch {theirs}"


def test_the_peak_counts_what_lives_together():
    x = torch.rand(1000)

    def call():
        a = x + 1
        b = a * 2
        del a
        return b.view(10, 100) + 1

    assert peak(call) == 8000
    assert peak(lambda: x.view(10, 100)) == 0
