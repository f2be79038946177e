"""DistributedDataParallel over two processes trains an optimised model to the parameters that one process finds."""

import copy
import os
import socket
import threading
from pathlib import Path

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn

import transfuse
from transfuse.capture.views import obstacle


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.ConvTranspose2d(3, 4, 3, stride=2), nn.GroupNorm(2, 4), nn.ReLU(), nn.Conv2d(4, 2, 3))


def batch():
    generator = torch.Generator().manual_seed(5)
    return torch.randn(4, 3, 5, 5, generator=generator), torch.randn(4, 2, 9, 9, generator=generator)


def train(module, x, target, steps=3):
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.mse_loss(module(x), target).backward()
        optimiser.step()


def worker(rank: int, port: int, folder: str):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    x, target = (t[2 * rank : 2 * rank + 2] for t in batch())
    ours = transfuse.optimize(model(), (x,), never_slower=False)
    parallel = nn.parallel.DistributedDataParallel(ours)
    train(parallel, x, target)
    torch.save(ours.state_dict(), f"{folder}/{rank}.pt")
    Path(f"{folder}/{rank}.txt").write_text(synchronised(x))
    torch.distributed.destroy_process_group()


def synchronised(x) -> str:
    """Statistics over all processes are PyTorch's, which has them on GPUs alone: the same error, and the report names the layer."""
    plain = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.BatchNorm2d(4)))
    ours = transfuse.optimize(copy.deepcopy(plain), never_slower=False)
    errors = []
    for module in (plain, ours):
        try:
            module(x)
        except ValueError as error:
            errors.append(str(error))
    assert len(errors) in (0, 2) and len(set(errors)) <= 1, errors
    return str(obstacle(ours))


def spawn(work, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(work, (port, str(tmp_path)), nprocs=2)


def choosing(rank: int, port: int, folder: str):
    """Each process measures as it would on a machine where the other side is faster than on the other rank's; and the second meets
    another size first."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    transfuse.run.region.fastest = lambda calls, like: [1.0, 2.0] if rank == 0 else [2.0, 1.0]
    ours = transfuse.optimize(model(), autotune=True)
    x, target = batch()
    parallel = nn.parallel.DistributedDataParallel(ours)
    if rank == 1:
        with torch.no_grad():
            ours(x[:3])
    # The same numbers on both: their gradients are the same to the bit, if their kernels are.
    train(parallel, x, target)
    gradients = [p.grad.clone() for p in ours.parameters()]
    with torch.no_grad():
        ours(x[:3])
    ((entry,),) = ours.__dict__["_transfuse"].captures.values()
    chosen = {key[1:]: choice.takes_ours for key, choice in entry.cut.regions[0].choices.items()}
    tuned = any(key[0] & transfuse.native.library.AUTOTUNE for key, _ in entry.cut.regions[0].choices.items())
    torch.save((gradients, chosen, tuned, str(transfuse.report(ours))), f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_ranks_choose_alike(tmp_path):
    spawn(choosing, tmp_path)
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in range(2))
    assert first[1] == second[1] and len(first[1]) == 2
    assert not first[2] and not second[2]
    assert "nothing was timed" in first[3]
    for a, b in zip(first[0], second[0]):
        assert torch.equal(a, b)


def test_distributed_data_parallel(tmp_path):
    spawn(worker, tmp_path)
    alone = model()
    train(alone, *batch())
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    for name, value in alone.state_dict().items():
        assert torch.equal(first[name], second[name]), name
        assert torch.allclose(first[name], value, rtol=1e-4, atol=1e-5), name
    assert all("SyncBatchNorm" in (tmp_path / f"{rank}.txt").read_text() for rank in range(2))


def test_sync_batch_norm_is_honoured_in_one_process():
    plain = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.BatchNorm2d(4)))
    x = torch.randn(2, 3, 4, 4)
    ours = transfuse.optimize(copy.deepcopy(plain).eval(), x, never_slower=False)
    assert torch.allclose(ours(x), plain.eval()(x), atol=1e-5)


def test_forked_workers():
    """A data loader's workers fork a process that has already used the engine."""
    ours = transfuse.optimize(model(), (batch()[0],), never_slower=False)
    x = batch()[0]
    with torch.no_grad():
        expected = ours(x)
    context = torch.multiprocessing.get_context("fork")
    queue = context.Queue()

    def child():
        torch.set_num_threads(1)
        with torch.no_grad():
            queue.put(ours(x).sum().item())

    process = context.Process(target=child)
    process.start()
    got = queue.get(timeout=60)
    process.join(60)
    assert abs(got - expected.sum().item()) < 1e-3


def ticks():
    """Processor time of every thread of this process, in the kernel's ticks."""
    used = {}
    for task in Path("/proc/self/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        used[int(task.name)] = int(fields[11]) + int(fields[12])
    return used


def test_pytorchs_thread_count_is_ours_too():
    x = torch.randn(4, 16, 24, 24)
    ours = transfuse.optimize(nn.ConvTranspose2d(16, 16, 3, 2, 1).eval(), (x,), never_slower=False)
    allowed, me = torch.get_num_threads(), threading.get_native_id()
    with torch.no_grad():
        ours(x)
        try:
            torch.set_num_threads(1)
            before = ticks()
            while (after := ticks())[me] < before[me] + 10:
                ours(x)
        finally:
            torch.set_num_threads(allowed)
    others = sum(used - before.get(task, 0) for task, used in after.items() if task != me)
    assert others <= 2, f"{others} ticks on other threads beside {after[me] - before[me]} on the caller's"
