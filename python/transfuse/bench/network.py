"""One network, run in one way, in a process of its own: what it is told comes as JSON, what it finds goes to a file, step by step."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from . import accuracy, timing

DTYPES = {"tf32": torch.float32, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}
DROPOUTS = nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout
FEWEST = 5  # timed calls


@dataclass(frozen=True)
class Way:
    backend: str | None = None  # of torch.compile; None: not compiled
    mode: str | None = None
    channels_last: bool = False
    optimized: bool = False

    @property
    def ours(self) -> bool:
        return self.optimized or self.backend == "transfuse"

    @property
    def graphs(self) -> bool:
        return self.mode == "reduce-overhead"


WAYS = {
    "eager": Way(),
    "compile": Way("inductor"),
    "compile_channels_last": Way("inductor", channels_last=True),
    "compile_graphs": Way("inductor", "reduce-overhead"),
    "optimize": Way(optimized=True),
    "transfuse": Way("transfuse"),
    "transfuse_graphs": Way("transfuse", "reduce-overhead"),
}


def load(path: str | Path, device: str = "cpu") -> dict[str, Callable]:
    """A file's networks. Its DEVICE says where they will run: sizes may depend on it."""
    if not Path(path).is_file():
        raise SystemExit(f"bench: there is no file {path}")
    spec = importlib.util.spec_from_file_location("transfuse_networks", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # Dynamo looks classes up where they say they are from
    spec.loader.exec_module(module)
    module.DEVICE = device
    if not isinstance(getattr(module, "NETWORKS", None), dict):
        raise SystemExit(f"bench: {path} has no NETWORKS: names and functions that return a module and its inputs")
    return module.NETWORKS


def mapped(value, function):
    """Of tensors in lists, tuples and dictionaries."""
    if isinstance(value, dict):
        return {key: mapped(each, function) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([mapped(each, function) for each in value])
    return function(value) if isinstance(value, torch.Tensor) else value


def built(
    make: Callable, device: str, dtype: torch.dtype, channels_last: bool = False
) -> tuple[nn.Module, tuple | dict]:
    """The same numbers in every process."""
    torch.manual_seed(0)
    model, inputs = make()
    ranks = {p.dim() for p in model.parameters()} & set(LAYOUTS)
    last = LAYOUTS[min(ranks)] if channels_last and len(ranks) == 1 else None

    def moved(given: torch.Tensor) -> torch.Tensor:
        t = given.detach().to(device, dtype if given.is_floating_point() else None)
        t = t.contiguous(memory_format=last) if last and LAYOUTS.get(t.dim()) is last else t
        return t.requires_grad_(given.requires_grad)

    for part in model.modules():
        if isinstance(part, DROPOUTS):
            part.p = 0.0  # each way to run a network would draw others
    model = model.to(device=device, dtype=dtype)
    return model.to(memory_format=last) if last else model, mapped(inputs, moved)


def prepared(model: nn.Module, way: Way, inputs) -> nn.Module:
    if way.optimized:
        import transfuse

        return transfuse.optimize(model, inputs)
    if way.backend == "transfuse":
        import transfuse
    return torch.compile(model, backend=way.backend, mode=way.mode) if way.backend else model


def call_of(module: nn.Module, inputs, backward: bool, graphs: bool = False) -> Callable[[], list[torch.Tensor]]:
    """A forward, or a training step; its results and the gradients, those of inputs that ask for one as well. Random numbers are the
    same ones at every call."""
    leaves = [t for t in (*module.parameters(), *accuracy.tensors(inputs)) if t.requires_grad]

    def call():
        torch.manual_seed(1)
        if graphs:
            torch.compiler.cudagraph_mark_step_begin()
        with torch.set_grad_enabled(backward):
            results = accuracy.tensors(module(**inputs) if isinstance(inputs, dict) else module(*inputs))
            reached = [r for r in results if r.requires_grad]
            if not reached:
                return results
            found = torch.autograd.grad(reached, leaves, [torch.ones_like(r) for r in reached], allow_unused=True)
        return [r.detach() for r in results] + [g for g in found if g is not None]

    return call


@contextlib.contextmanager
def alone(lock: str):
    """Of several processes one is timed at a time."""
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def times(call: Callable, device: str, seconds: float, processor: bool = False) -> dict:
    """Of single calls on the device, and of calls that follow each other on the clock on the wall."""
    clock, taken, begin = timing.Clock(device, processor=processor), [], time.monotonic()
    for _ in range(3):
        clock.once(call)
    while len(taken) < FEWEST or time.monotonic() - begin < seconds:
        taken.append(clock.once(call))
    often = max(3, min(50, int(seconds / 3 / max(min(taken), 1e-4))))
    begin = time.perf_counter()
    for _ in range(often):
        call()
    if device == "cuda":
        torch.cuda.synchronize()
    wall = 1e3 * (time.perf_counter() - begin) / often
    return {"device_ms": timing.summary(taken)["ms"], "wall_ms": wall}


def measure(told: dict, say: Callable) -> None:
    way, device, backward = WAYS[told["way"]], told["device"], told["backward"]
    torch.backends.cudnn.allow_tf32 = told["precision"] == "tf32"
    make, dtype = load(told["file"], device)[told["name"]], DTYPES[told["precision"]]
    try:
        model, inputs = built(make, device, dtype, way.channels_last)
    except ImportError as error:
        say(skipped=f"{error.name or error} is not installed")
        return
    model.train(backward)
    begin = time.perf_counter()
    with torch.set_grad_enabled(backward):
        module = prepared(model, way, inputs)
    call = call_of(module, inputs, backward, way.graphs)
    results = [r.double() for r in call()]  # to be read, a result is waited for
    if device == "cuda":
        torch.cuda.synchronize()
    say(first_s=time.perf_counter() - begin)
    if way.ours:
        import transfuse

        report = transfuse.report(module)
        say(taken=report.taken, left=report.left, report=str(report))
    if not told["seconds"]:
        return
    with alone(told["lock"]):
        say(**times(call, device, told["seconds"], told["processor_time"]), peak_bytes=timing.peak_bytes(call, device))
    gc.collect()
    wide, wide_inputs = built(make, device, torch.float64)
    expected = call_of(wide.train(backward), wide_inputs, backward)()
    say(error=max([error.rms for error in accuracy.errors(results, expected)], default=0.0))


def main() -> None:
    told, found = json.loads(sys.argv[1]), {}

    def say(**more) -> None:
        found.update(more)
        Path(told["out"]).write_text(json.dumps(found))

    try:
        measure(told, say)
        say(done=True)
    except Exception as error:
        lines = str(error).strip().splitlines()
        say(failed=f"{type(error).__name__}: {lines[0] if lines else ''}"[:300])
        raise


if __name__ == "__main__":
    main()
