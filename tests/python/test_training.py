"""Ways in which people train: each ends with the parameters that PyTorch alone ends with, and ours computed them."""

import copy
import os
import socket

import pytest
import torch
import torch.distributed
import torch.multiprocessing
from torch import nn

import transfuse
from transfuse.native import library


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.ConvTranspose2d(3, 8, 4, 2, 1, bias=False),
        nn.BatchNorm2d(8),
        nn.LeakyReLU(0.1),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.ConvTranspose2d(8, 3, 4, 2, 1),
        nn.Tanh(),
    )


def images(seed, count=4):
    return torch.randn(count, 3, 6, 6, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def gradients(monkeypatch):
    """How many of ours were computed."""
    seen, run_backward = [], library.run_backward
    monkeypatch.setattr(library, "run_backward", lambda *a: (seen.append(1), run_backward(*a))[1])
    return seen


def both(train, gradients, tolerance=1e-4):
    plain = network()
    ours = transfuse.optimize(copy.deepcopy(plain), never_slower=False)
    expected, found = train(plain), train(ours)
    assert gradients, "none of the gradients was ours"
    for name, value in plain.state_dict().items():
        assert torch.allclose(ours.state_dict()[name], value, rtol=tolerance, atol=tolerance), name
    if expected is not None:
        assert torch.allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_and_a_scaler(dtype, gradients, no_fallback):
    def train(model):
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
        for step in range(2):
            optimiser.zero_grad()
            with torch.autocast("cpu", dtype=dtype):
                loss = model(images(step)).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimiser)
            scaler.update()

    both(train, gradients, 2e-2)


def test_accumulation(gradients, no_fallback):
    def train(model):
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for step in range(2):
            for part in range(3):
                (model(images(3 * step + part)).square().mean() / 3).backward()
            optimiser.step()
            optimiser.zero_grad()

    both(train, gradients, 1e-3)


def test_two_calls_before_one_backward(gradients, no_fallback):
    """What the first keeps is the first's."""

    def train(model):
        first, second = model(images(0)), model(images(1, 2))
        (first.square().mean() + second.abs().mean()).backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()

    both(train, gradients)


def test_backward_twice(gradients, no_fallback):
    def train(model):
        loss = model(images(0)).square().mean()
        loss.backward(retain_graph=True)
        loss.backward()
        return model[0].weight.grad

    both(train, gradients)


@pytest.mark.parametrize("frozen", [[0, 1], [3, 4], [6]])
def test_frozen_parameters(frozen, gradients, no_fallback):
    """They get no gradient, and nothing is kept that only theirs would need."""

    def train(model):
        for i in frozen:
            model[i].requires_grad_(False)
        optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
        for step in range(2):
            optimiser.zero_grad()
            model(images(step)).square().mean().backward()
            optimiser.step()
        assert all(p.grad is None for i in frozen for p in model[i].parameters())

    both(train, gradients)


def test_gradient_penalty(gradients, no_fallback):
    """A gradient that is differentiated again goes through PyTorch's operators, beside one that is ours."""

    def train(model):
        model.eval()
        x = images(0).requires_grad_()
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        (slope.square().sum((1, 2, 3)).sqrt() - 1).square().mean().backward()
        model(images(1)).square().mean().backward()
        torch.optim.SGD(model.parameters(), lr=0.01).step()

    both(train, gradients, 1e-3)


@pytest.mark.parametrize("how", ["foreach", "fused"])
@pytest.mark.parametrize("optimiser", [torch.optim.SGD, torch.optim.Adam])
def test_optimisers_of_many_tensors(optimiser, how, gradients, no_fallback):
    def train(model):
        step = optimiser(model.parameters(), lr=1e-2, **{how: True})
        for seed in range(2):
            step.zero_grad()
            model(images(seed)).square().mean().backward()
            step.step()

    both(train, gradients, 1e-3)


def test_a_result_changed_in_place(gradients, no_fallback):
    """Where PyTorch lets it be changed, and raises where it does not: that of a tanh is read again."""

    def train(model):
        head = model[:7] if model is plain else ours
        y = head(images(0))
        y.mul_(2)
        y.square().mean().backward()
        return head[0].weight.grad

    plain = network()
    ours = transfuse.optimize(copy.deepcopy(plain[:7]), never_slower=False)
    assert torch.allclose(train(plain), train(ours), rtol=1e-4, atol=1e-5) and gradients
    for model in (plain, transfuse.optimize(copy.deepcopy(plain), never_slower=False)):
        y = model(images(0))
        y.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.square().mean().backward()


def test_what_is_kept_goes_with_the_result(no_fallback):
    """Saved-tensor hooks see it, as activation offloading and checkpoints do."""
    ours = transfuse.optimize(network(), images(0), never_slower=False)
    packed, unpacked = [], []

    def pack(tensor):
        packed.append(tensor.numel())
        return tensor.clone()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: (unpacked.append(1), tensor)[1]):
        loss = ours(images(0)).square().mean()
    assert 4 * 8 * 12 * 12 in packed  # of a convolution's result
    loss.backward()
    assert len(unpacked) == len(packed)


def test_the_report_tells_what_is_kept(no_fallback):
    ours = transfuse.optimize(network(), images(0))
    ours(images(0)).sum().backward()
    (line,) = [line for line in str(transfuse.report(ours)).splitlines() if "kept for backward" in line]
    assert "f32[4,8,12,12] 18.4 KB" in line


@pytest.mark.parametrize("backend", ["transfuse", "inductor"])
def test_the_whole_step_compiled(backend, no_fallback):
    """torch.compile around forward, loss and gradients."""
    found = []
    for compiled in (False, True):
        model = network()
        if compiled and backend == "inductor":
            model = transfuse.optimize(model, never_slower=False)

        def step(x, model=model):
            loss = model(x).square().mean()
            loss.backward()
            return loss

        run = torch.compile(step, backend="transfuse" if backend == "transfuse" else "eager") if compiled else step
        losses = [run(images(seed)).item() for seed in range(2)]
        found.append([torch.tensor(losses), *[p.grad for p in model.parameters()]])
    for expected, got in zip(*found, strict=True):
        assert torch.allclose(got, expected, rtol=1e-3, atol=1e-4)


def joined(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)


def spawn(work, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(work, (port, str(tmp_path)), nprocs=2)


def layers():
    """Without statistics over a batch, of which every rank has a part."""
    return nn.Sequential(*[layer for layer in network() if not isinstance(layer, nn.BatchNorm2d)])


def accumulating(rank, port, folder):
    joined(rank, port)
    ours = transfuse.optimize(layers(), never_slower=False)
    parallel = nn.parallel.DistributedDataParallel(ours)
    optimiser = torch.optim.SGD(ours.parameters(), lr=0.1)
    with parallel.no_sync():
        parallel(images(0)[2 * rank : 2 * rank + 2]).square().mean().backward()
    parallel(images(1)[2 * rank : 2 * rank + 2]).square().mean().backward()
    optimiser.step()
    torch.save(ours.state_dict(), f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def sharded(rank, port, folder):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    joined(rank, port)
    ours = transfuse.optimize(layers(), never_slower=False)
    fully_shard(ours, mesh=init_device_mesh("cpu", (2,)))
    optimiser = torch.optim.SGD(ours.parameters(), lr=0.1)
    for step in range(2):
        optimiser.zero_grad()
        ours(images(step)[2 * rank : 2 * rank + 2]).square().mean().backward()
        optimiser.step()
    whole = {name: p.full_tensor() for name, p in ours.state_dict().items()}
    torch.save(whole, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("work", [accumulating, sharded])
def test_two_ranks(work, tmp_path):
    """Accumulation without meeting (no_sync), and parameters that are sharded after they were optimised."""
    spawn(work, tmp_path)
    alone = layers()
    optimiser = torch.optim.SGD(alone.parameters(), lr=0.1)
    for step in range(2):
        if work is sharded:
            optimiser.zero_grad()
        alone(images(step)).square().mean().backward()
        if work is sharded or step == 1:
            optimiser.step()
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    for name, value in alone.state_dict().items():
        assert torch.equal(first[name], second[name]), name
        assert torch.allclose(first[name], value, rtol=1e-4, atol=1e-5), name
