"""What ours will launch is compiled before it is asked for: several regions at a time, while PyTorch is compiled beside them."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor, wait

from transfuse.choose.candidates import Call
from transfuse.native import library
from transfuse.run.clock import step

MOST_THREADS = 8  # each compiles several kernels at a time itself


class Ahead:
    """On CPUs there is nothing to compile."""

    def __init__(self):
        self.pool = ThreadPoolExecutor(max(1, min(MOST_THREADS, len(os.sched_getaffinity(0)) // 2)))
        self.begun: list[Future] = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pool.shutdown(cancel_futures=True)

    def begin(self, call: Call) -> None:
        if call.device.type == "cuda":
            self.begun.append(self.pool.submit(_compile, call))

    def wait(self) -> None:
        """For all that was begun. (What failed fails again where it is asked for.)"""
        wait(self.begun)
        self.begun.clear()


def _compile(call: Call) -> None:
    leaves, sizes = call.arguments()
    mode = call.region.settled_mode(leaves, sizes, call.grad)
    own, ours = call.region.timed(leaves, sizes, mode, call.grad)
    if call.grad:
        step(ours, own)  # tensors like those that backward is given come out of a call
    else:
        library.scratch(own, call.region.handle, sizes, mode, ())
