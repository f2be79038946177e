"""Clocks: medians of interleaved calls, with a cold L2 on CUDA; host time, launches and peak memory of one call."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

Call = Callable[[], object]
# Far above any L2. It is read, not written: a written one would leave the L2 full of lines that the timed call has to write back
# (measured on an H200: 5 µs of A's 30, 2 % of D).
FLUSH_BYTES = 512 << 20
# The device waits before a timed call, so that the kernels of the call are queued when it begins: what the host takes to queue them
# is a figure of its own (`host_microseconds`), and on a busy host it would come and go in this one. At least 1.5 ms, and half as
# long again as the host took before: two hundred launches of a vocoder take it 5 ms.
LEAD, MOST_LEAD, CYCLES = 1.5e-3, 50e-3, 2e9  # seconds; cycles a second


def _sync(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


class Clock:
    """Times single calls: CUDA events around what the device does for the call, with nothing of it in the L2, or perf_counter on
    the CPU; with `processor` what all threads of the process take of it, whoever else is working there."""

    def __init__(self, device: str, flush: bool = True, processor: bool = False):
        self.device, self.host_clock = device, time.process_time if processor else time.perf_counter
        self.scratch = (
            torch.zeros(FLUSH_BYTES // 8, dtype=torch.int64, device="cuda") if device == "cuda" and flush else None
        )
        self.host: dict[Call, float] = {}  # the least that a call kept the host

    def once(self, call: Call) -> float:
        """Seconds of one call."""
        if self.device != "cuda":
            start = self.host_clock()
            call()
            return self.host_clock() - start
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(int(CYCLES * self.lead(call)))
        if self.scratch is not None:
            self.scratch.amax()
        begin.record()
        start = time.perf_counter()
        call()
        self.host[call] = min(self.host.get(call, MOST_LEAD), time.perf_counter() - start)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    def lead(self, call: Call) -> float:
        """Seconds in which the host can queue the call; the least it ever took counts, so a call that waits for the device asks for no more
        and more of them."""
        return min(max(LEAD, 1.5 * self.host.get(call, 0.0)), MOST_LEAD)


def interleaved(calls: dict[str, Call], clock: Clock, rounds: int, seconds: float) -> dict[str, list[float]]:
    """Every call once a round, so that a change of clock speed or a busy neighbour meets all of them alike. A call far slower
    than the fastest is not repeated once it has cost more than its share of the time."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for name, call in calls.items():
        warm = clock.once(call)  # caches, autotuning of libraries, lazy loading
        first = warm if warm > 5 * seconds else clock.once(call)
        if first > seconds:
            samples[name].append(first)
    start = time.perf_counter()
    share = seconds / max(1, len(calls))
    for round_ in range(rounds):
        for name, call in calls.items():
            done = samples[name]
            if sum(done) > share and len(done) >= (1 if done[0] > seconds else 3):
                continue
            done.append(clock.once(call))
        if round_ >= 4 and time.perf_counter() - start > 2 * seconds:
            break
    return samples


def summary(samples: list[float]) -> dict:
    """Median and quartiles in milliseconds."""
    ordered = sorted(samples)
    if len(ordered) < 4:
        low, high = ordered[0], ordered[-1]
    else:
        low, _, high = statistics.quantiles(ordered, n=4)
    return {"ms": statistics.median(ordered) * 1e3, "q1": low * 1e3, "q3": high * 1e3, "samples": len(ordered)}


def host_microseconds(call: Call, device: str, repeats: int = 20) -> float:
    """What a call costs the thread that makes it: on CUDA the time until it returns, the queue being empty."""
    taken = []
    for _ in range(repeats):
        _sync(device)
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    _sync(device)
    return statistics.median(taken) * 1e6


def launches(call: Call) -> int | None:
    """Kernels (and copies, fills) the device ran for one call, counted by the profiler."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    try:
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as trace:
            call()
            torch.cuda.synchronize()
        return sum(1 for e in trace.events() if e.device_type == DeviceType.CUDA)
    except Exception:
        return None


def latency(call: Call, device: str, repeats: int = 100) -> dict:
    """Streaming: one call at a time, host and device together, nothing flushed."""
    for _ in range(5):
        call()
    taken = []
    for _ in range(repeats):
        _sync(device)
        start = time.perf_counter()
        call()
        _sync(device)
        taken.append(time.perf_counter() - start)
    taken.sort()
    return {"ms": statistics.median(taken) * 1e3, "p95": taken[int(0.95 * (len(taken) - 1))] * 1e3}


def peak_bytes(call: Call, device: str) -> int:
    """Memory one call needs beyond what stands before it: the result, intermediates, workspaces."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        kept = call()
        torch.cuda.synchronize()
        del kept
        return torch.cuda.max_memory_allocated() - before
    # What the allocator was asked for: a process's size says little where freed memory is kept for the next call.
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True, acc_events=True) as seen:
        call()
    standing = most = 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            standing += event.nbytes()
            most = max(most, standing)
    return most
