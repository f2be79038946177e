"""Processes that measure: one row on one of them, and all rows on several."""

from __future__ import annotations

import json
import math
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from .rows import Row, title
from .table import one_line


class Worker:
    """One process that measures. It may die; then the next row gets a new one."""

    def __init__(self, beside: int = 1):
        """`beside`: how many of them share this machine's processors while they compile."""
        read, write = os.pipe()
        env = dict(os.environ)
        if (
            beside > 1
        ):  # a pool of compilers for each would outnumber the processors, and its idle ones disturb the timing
            env.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
        env.setdefault("KINETO_LOG_LEVEL", "5")  # the profiler need not say that there is no GPU
        package = str(Path(__file__).resolve().parents[2])
        env["PYTHONPATH"] = package + (":" + env["PYTHONPATH"] if env.get("PYTHONPATH") else "")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "transfuse.bench.worker", str(write)],
            stdin=subprocess.PIPE, stdout=2, pass_fds=[write], env=env, text=True,
        )  # fmt: skip
        os.close(write)
        self.messages = os.fdopen(read, "rb", buffering=0)
        self.buffer = b""
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.messages, selectors.EVENT_READ)

    def ask(self, job: dict) -> None:
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()

    def next(self, deadline: float) -> dict | None:
        """The next message; None when the process is gone or the deadline has passed."""
        while b"\n" not in self.buffer:
            if not self.selector.select(max(0.0, deadline - time.monotonic())):
                return None
            chunk = self.messages.read(65536)
            if not chunk:
                return None
            self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def alive(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        if self.alive():
            self.process.kill()
        self.process.wait()
        self.messages.close()


class Progress:
    """One line on a terminal, rewritten in place; on anything else one line a row."""

    def __init__(self, total: int):
        self.total, self.live, self.width = total, sys.stderr.isatty(), 0

    def show(self, index: int, id: str, step: str) -> None:
        if self.live:
            bar = "█" * (20 * index // self.total) + "·" * (20 - 20 * index // self.total)
            text = f"[{bar}] {index + 1}/{self.total} {id}: {step}"[:110]
            print("\r" + text.ljust(self.width), end="", file=sys.stderr, flush=True)
            self.width = len(text)

    def line(self, text: str) -> None:
        print(("\r" + " " * self.width + "\r" if self.live else "") + text, file=sys.stderr, flush=True)
        self.width = 0


class Measurement:
    """One row on one worker, in two halves: `prepare` (compiling and checking, which may go on beside other rows) and `finish`
    (timing, which must be alone). The result is what was sent, however it ended."""

    def __init__(
        self,
        row: Row,
        job: dict,
        worker: Worker,
        limit: float,
        progress: Callable[[str], None] = lambda step: None,
        deadline: float = math.inf,
    ):
        self.job, self.worker, self.progress, self.deadline = job, worker, progress, deadline
        self.step, self.ended, self.left = "starting", False, limit
        self.result = {"id": row.id, "title": title(row.path), "peers": {}, "precision": job["precision"],
                       "backward": job["backward"], "streaming": job["streaming"], "status": "ok"}  # fmt: skip

    def prepare(self) -> None:
        self.worker.ask(self.job)
        self._listen("prepared")

    def finish(self) -> dict:
        if not self.ended:
            self.worker.ask({"go": True})
            self._listen("done")
        return self.result

    def _end(self, status: str) -> None:
        self.result["status"], self.ended = status, True

    def _listen(self, until: str) -> None:
        begin = time.monotonic()
        while not self.ended:
            stop = min(begin + self.left, self.deadline)
            message = self.worker.next(stop)
            if message is None:
                late = time.monotonic() >= stop
                self._end(f"stopped while {self.step}: out of time" if late else f"the process died while {self.step}")
                self.worker.stop()
            elif "step" in message:
                self.step = message["step"]
                self.progress(self.step)
            elif "facts" in message:
                self.result |= message["facts"]
            elif "peer" in message:
                self.result["peers"].setdefault(message["peer"], {}).update(message["values"])
            elif "failed" in message:
                self._end(message["failed"])
            elif until in message:
                break
        self.left -= time.monotonic() - begin


def peaks(worker: Worker, device: str, precisions: list[str]) -> dict:
    """What the worker's machine can do: its name, and flop/s and bytes/s for each precision."""
    found: dict = {"peaks": {}}
    for precision in precisions:
        worker.ask({"peaks": True, "device": device, "precision": precision})
        while (message := worker.next(time.monotonic() + 120)) is not None:
            if "peaks" in message:
                found["peaks"][precision], found["device"] = message["peaks"], message["device"]
                break
    return found


def measured(work: list[tuple[Row, dict]], options, report: dict) -> Iterator[dict]:
    """Every row's result, in order. `options.parallel` rows are compiled and checked side by side; they are timed one after
    another. What the machine can do is written into the report first."""
    progress, by = Progress(len(work)), time.monotonic() + options.time_limit
    many = max(1, min(options.parallel, len(work)))
    workers = [Worker(many) for _ in range(many)]
    precisions = list(dict.fromkeys(job["precision"] for _, job in work))
    report.update(peaks(workers[0], report["device_kind"], precisions))
    try:
        for first in range(0, len(work), many):
            if time.monotonic() > by:
                left = len(work) - first
                progress.line(f"the time limit of {options.time_limit:.0f} s is reached; {left} rows are left out")
                break
            workers = [w if w.alive() else Worker(many) for w in workers]
            running = [
                Measurement(row, job, workers[i], options.row_limit, partial(progress.show, first + i, row.id), by)
                for i, (row, job) in enumerate(work[first : first + many])
            ]
            with ThreadPoolExecutor(many) as pool:
                list(pool.map(Measurement.prepare, running))
            for i, measurement in enumerate(running):
                result = measurement.finish()
                progress.line(f"{first + i + 1}/{len(work)} " + one_line(result))
                yield result
    finally:
        for worker in workers:
            worker.stop()
