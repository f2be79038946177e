"""Measures rows in a process of its own: jobs come in as JSON lines on stdin, messages go out as JSON lines on a given
descriptor. Whatever happens to one row, the driver keeps what was sent before and goes on with the next."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import replace
from pathlib import Path

import torch

from . import accuracy, machine, rows, timing
from .peers import EAGER, Peer, call_for, module_for, peers

# Nothing is compiled in eager mode, so a first call says what the others will: one that takes this many seconds (channels_last on
# some CPUs, fifty times slower than contiguous) is not called again.
SLOW = 20.0
DTYPES = {"tf32": torch.float32, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class OutOfTime(BaseException):
    """Not an Exception: compilers catch those, and go on."""


@contextlib.contextmanager
def within(seconds: float):
    """Raises OutOfTime in the middle of what takes longer; again every second, should somebody catch it."""
    if seconds == float("inf"):
        yield
        return

    def ring(*_):
        raise OutOfTime(f"not ready after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Job:
    def __init__(self, spec: dict, send):
        self.spec, self.send = spec, send
        self.device, self.precision, self.backward = spec["device"], spec["precision"], spec["backward"]
        # PyTorch's defaults, said aloud: TF32 in cuDNN is allowed in mode tf32, matrix products stay fp32.
        torch.backends.cudnn.allow_tf32 = self.precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = False
        self.model, self.inputs = self.build(0)

    def build(self, seed: int):
        spec = self.spec
        model, inputs = rows.build(
            spec["path"], self.device, seed, spec["batch_divisor"], spec["batch"], spec["overrides"]
        )
        dtype = DTYPES[self.precision]
        model = model.to(dtype).train(not spec["eval"])
        return model, [t.to(dtype) if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in inputs]

    def run(self) -> None:
        self.describe()
        chosen = peers(
            self.device, max((t.dim() for t in accuracy.tensors(self.inputs)), default=0), set(self.spec["which"])
        )
        late = [p for p in chosen if p.cudnn_benchmark and not p.compiled]  # cuDNN measures at their first call: alone
        calls = self.prepare([p for p in chosen if p not in late])
        self.wait()
        calls |= self.prepare(late)
        self.settle(calls)
        if not self.spec["forced"]:
            self.choose(calls)
        if self.spec["streaming"]:
            self.stream(calls)
            return
        clock = timing.Clock(self.device)
        for benchmark in (False, True):
            group = {p.name: c for p, c in calls.items() if p.cudnn_benchmark == benchmark}
            if group:
                self.send(step="timing " + ", ".join(group))
                for name, samples in timing.interleaved(
                    group, clock, self.spec["rounds"], self.spec["seconds"]
                ).items():
                    self.send(peer=name, values=timing.summary(samples))
        for peer, call in calls.items():
            if (peer.how == "eager" and not peer.cudnn_benchmark) or peer.ours:
                self.resources(peer, call)

    def describe(self) -> None:
        self.send(step="model")
        shapes = [list(t.shape) for t in accuracy.tensors(self.inputs)]
        amount = machine.work(self.model, self.inputs, self.backward)
        parameters = sum(p.numel() for p in self.model.parameters())
        self.send(
            facts={"inputs": shapes, "parameters": parameters, "written": amount, "training": self.model.training}
        )
        if self.spec["details"]:
            self.send(step="derivation")
            try:
                self.send(facts=derivation(self.model, self.inputs))
            except Exception as problem:  # the page goes without it
                self.send(facts={"derivation_error": sentence(problem)})

    def prepare(self, chosen: list[Peer]) -> dict:
        """Modules made ready, the right ones kept. A peer that fails is named with its reason and left out."""
        modules, calls = {}, {}
        for peer in chosen:
            self.send(step=f"preparing {peer.name}")
            start = time.monotonic()
            try:
                with within(self.spec["peer_limit"] if peer.compiled else float("inf")):
                    modules[peer] = module_for(peer, self.model, self.inputs, path=self.spec["path"])
                    calls[peer] = call_for(peer, modules[peer], self.inputs, self.backward)
                    # What is compiled may be called beside other rows, so cuDNN measures nothing yet.
                    plain = replace(peer, cudnn_benchmark=peer.cudnn_benchmark and not peer.compiled)
                    call_for(plain, modules[peer], self.inputs, self.backward)()
                first = time.monotonic() - start
                self.send(peer=peer.name, values={"first_s": first})
                if peer.how == "eager" and peer != EAGER and first > SLOW:
                    self.send(peer=peer.name, values=timing.summary([first]))
                    del calls[peer]
                if peer.chooses:
                    self.send(peer=peer.name, values=taken(modules[peer]))
            except (Exception, OutOfTime) as problem:
                self.lose(peer, calls, problem)
            if self.device == "cuda":
                torch.cuda.empty_cache()  # other rows are being prepared on the same GPU
        with alone(self.device):
            for seed in range(self.spec["seeds"]):
                self.check(calls, modules, seed)
        return calls

    def wait(self) -> None:
        """Everything slow is ready; the driver says when nobody else is using the machine."""
        gc.collect()
        if self.device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        self.send(prepared=True)
        if not sys.stdin.readline():
            raise SystemExit

    def settle(self, calls: dict) -> None:
        """What was compiled beside other rows, and has cuDNN measure, is called once more: alone, before anything is timed."""
        for peer in [p for p in calls if p.compiled and p.cudnn_benchmark]:
            try:
                calls[peer]()
            except Exception as problem:
                self.lose(peer, calls, problem)

    def choose(self, calls: dict) -> None:
        """As users have it: where PyTorch's own op is faster, it is taken. What was checked is ours alone; where a region went
        to PyTorch, both are timed."""
        for peer in [p for p in calls if p.chooses]:
            self.send(step=f"choosing {peer.name}")
            module = module_for(peer, self.model, self.inputs, forced=False)
            call = call_for(peer, module, self.inputs, self.backward)
            call()
            report = taken(module)
            lost = report.get("report", "").count("PyTorch's is used")
            self.send(peer=peer.name, values=report | {"regions_left_to_pytorch": lost})
            if lost:
                calls[Peer(peer.name + "_forced", peer.how, peer.channels_last)] = calls[peer]
            calls[peer] = call

    def lose(self, peer: Peer, calls: dict, problem: BaseException) -> None:
        calls.pop(peer, None)
        self.send(peer=peer.name, values={"failed": sentence(problem)})
        if os.environ.get("TRANSFUSE_BENCH_TRACEBACK"):
            traceback.print_exc()
        if self.device == "cuda":
            torch.cuda.synchronize()  # a broken context says so here, and the driver starts another process

    def check(self, calls: dict, modules: dict, seed: int) -> None:
        """Transfuse against float64, set against eager PyTorch in the same precision and layout; a wrong one gets no time."""
        mine = [p for p in calls if p.ours]
        if not mine or EAGER not in calls:
            return
        self.send(step="checking" + (f" seed {seed}" if seed else ""))
        inputs = self.inputs if seed == 0 else self.build(seed)[1]
        wide = accuracy.clone64(self.model, inputs)
        reference = [t.double() for t in call_for(EAGER, *wide, self.backward)()]
        del wide
        call = lambda peer: call_for(peer, modules[peer], inputs, self.backward)()  # noqa: E731
        results = call(EAGER)
        dtypes, theirs = [t.dtype for t in results], {False: accuracy.errors(results, reference)}
        self.send(peer="eager", values={"error": [e.as_dict() for e in theirs[False]]})
        poison = [torch.full_like(t, float("nan")) for t in results]  # what a kernel forgets to write shows
        del results, poison
        for peer in [p for p in calls if p.how == "eager" and p.channels_last]:  # cuDNN may round in one layout alone
            try:
                theirs[True] = accuracy.errors(call(peer), reference)
                self.send(peer=peer.name, values={"error": [e.as_dict() for e in theirs[True]]})
            except Exception as problem:
                self.lose(peer, calls, problem)
        for peer in mine:
            try:
                errors = accuracy.errors(call(peer), reference)
            except Exception as problem:
                self.lose(peer, calls, problem)
                continue
            word = accuracy.verdict(errors, theirs.get(peer.channels_last, theirs[False]), dtypes)
            self.send(peer=peer.name, values={"error": [e.as_dict() for e in errors], "verdict": word})
            if word != "right":
                calls.pop(peer)
        gc.collect()

    def resources(self, peer: Peer, call) -> None:
        self.send(step=f"memory and launches of {peer.name}")
        values = {"peak_bytes": timing.peak_bytes(call, self.device)}
        if self.device == "cuda":
            values["host_us"] = timing.host_microseconds(call, self.device)
            if self.spec["launches"]:
                values["launches"] = timing.launches(call)
        self.send(peer=peer.name, values=values)

    def stream(self, calls: dict) -> None:
        for peer, call in calls.items():
            self.send(step=f"streaming {peer.name}")
            values = timing.latency(call, self.device)
            values["host_us"] = timing.host_microseconds(call, self.device)
            if self.device == "cuda" and self.spec["launches"]:
                values["launches"] = timing.launches(call)
            self.send(peer=peer.name, values=values)


@contextlib.contextmanager
def alone(device: str):
    """float64 references are large: of several workers on one GPU only one at a time makes them."""
    if device != "cuda":
        yield
        return
    with open(Path(tempfile.gettempdir()) / f"transfuse-bench-{os.getppid()}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            torch.cuda.empty_cache()


def derivation(model, inputs) -> dict:
    """The derivation and plan as text, flops and bytes before and after, as `transfuse.explain` gives them."""
    import transfuse

    told = transfuse.explain(model, tuple(inputs))
    facts = {"derivation": str(told)}
    for name in ("plan", "flops_before", "flops_after", "bytes_before", "bytes_after"):
        if hasattr(told, name):
            value = getattr(told, name)
            facts[name] = value if isinstance(value, (int, float)) else str(value)
    if hasattr(told, "parts"):  # what the passes read and write, not what the rewritten ops would if each ran alone
        passes = [p for _, summary, _ in told.parts for p in summary["plan"]["passes"]]
        facts["bytes_after"] = sum(p["cost"]["bytes"] for p in passes) or facts.get("bytes_after")
        facts["passes"] = [p["kind"] for p in passes]
    return facts


def taken(module) -> dict:
    """What of the model is ours, in the words of transfuse.report."""
    import transfuse

    return {"report": str(transfuse.report(module))} if hasattr(transfuse, "report") else {}


def sentence(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {str(problem).strip().splitlines()[0] if str(problem).strip() else ''}"[:300]


def main() -> None:
    out = os.fdopen(int(sys.argv[1]), "w", buffering=1)
    warnings.filterwarnings("ignore", category=UserWarning)

    def send(**message):
        out.write(json.dumps(message) + "\n")
        out.flush()

    send(ready=True)
    while line := sys.stdin.readline():
        spec = json.loads(line)
        if spec.get("peaks"):
            send(peaks=machine.peaks(spec["device"], spec["precision"]), device=machine.device_name(spec["device"]))
            continue
        try:
            torch._dynamo.reset()
            Job(spec, send).run()
            send(done=True)
        except Exception as problem:
            if os.environ.get("TRANSFUSE_BENCH_TRACEBACK"):
                traceback.print_exc()
            send(failed=sentence(problem))
            if spec["device"] == "cuda":
                try:
                    torch.cuda.synchronize()
                except Exception:
                    os._exit(3)  # the context is gone; only a new process helps
        gc.collect()
        if spec["device"] == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
