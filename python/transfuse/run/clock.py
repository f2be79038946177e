"""Clocks and scales for trials of a few calls."""

from __future__ import annotations

import time

import torch

from transfuse.pytorch.torch_private import cuda_sleep

ROUNDS, ROUND_SECONDS = 4, 3e-3
MORE_ROUNDS = 12
MOST_SECONDS = 0.6
# Times that lie so far apart after one round, and after two, are not measured further. Others are, however long calls take: one that
# was disturbed decides nothing.
CLEAR = (2.0, 1.3)
CYCLES, MOST_AHEAD = 2e9, 50e-3  # of a GPU in a second; seconds


def step(call, leaves) -> list[torch.Tensor]:
    """A call and, where its leaves want gradients, their computation."""
    wanted = [a for a in leaves if isinstance(a, torch.Tensor) and a.requires_grad]
    with torch.set_grad_enabled(bool(wanted)):
        results = [r for r in call(*leaves) if isinstance(r, torch.Tensor)]
        reached = [r for r in results if r.requires_grad]
        if reached:
            torch.autograd.grad(reached, wanted, [torch.ones_like(r) for r in reached], allow_unused=True)
    return results


def fastest(calls, like: torch.Tensor) -> list[float]:
    """Seconds a call of each, the best of a few rounds in which they take turns: a GPU's clock rises while it works. In a round calls
    follow each other as they do in use, so that a GPU is waited for only at its end."""
    counts = []
    for call in calls:
        call()  # plans, compiles, loads
        count = min(20, int(ROUND_SECONDS / max(seconds(call, 1, like), 1e-9))) if like.is_cuda else 1
        counts.append(max(1, count))

    def took(i: int) -> float:
        return seconds(calls[i], counts[i], like) / counts[i]

    return _in_turns(took, counts)


def fastest_on_device(calls, like: torch.Tensor, rounds: int = MORE_ROUNDS, most: float = MOST_SECONDS) -> list[float]:
    """The least of a call's times on the device alone, as in a graph where calls do not wait for the host; in more rounds, for what is
    chosen once for all processes."""
    for call in calls:
        call()
    leads = [seconds(call, 1, like) for call in calls]

    def took(i: int) -> float:
        if not like.is_cuda:
            return seconds(calls[i], 1, like)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        fill_queue(leads[i])
        begin.record()
        calls[i]()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    return _in_turns(took, [1] * len(calls), rounds, (), most)


def _in_turns(
    took, counts: list[int], rounds: int = ROUNDS, clear: tuple = CLEAR, most: float = MOST_SECONDS
) -> list[float]:
    best, spent = [float("inf")] * len(counts), 0.0
    for number in range(rounds):
        for i, count in enumerate(counts):
            best[i] = min(best[i], one := took(i))
            spent += one * count
        far = CLEAR if spent > most else clear
        if max(best) > far[number] * min(best) if number < len(far) else spent > most:
            break
    return best


def seconds(call, count: int, like: torch.Tensor) -> float:
    """Of so many calls, the device waited for."""
    wait(like)
    start = time.perf_counter()
    for _ in range(count):
        call()
    wait(like)
    return time.perf_counter() - start


def fill_queue(took: float) -> None:
    """A GPU waits until the host has queued a call that took so long."""
    cuda_sleep(int(CYCLES * min(1.5 * took, MOST_AHEAD)))


def allocated(call, like: torch.Tensor) -> int:
    """Bytes of a call at its peak, as PyTorch's allocator of CUDA memory counts them."""
    wait(like)
    before = torch.cuda.memory_allocated(like.device)
    torch.cuda.reset_peak_memory_stats(like.device)
    call()
    return torch.cuda.max_memory_allocated(like.device) - before


def wait(like: torch.Tensor) -> None:
    if like.is_cuda:
        torch.cuda.synchronize(like.device)
