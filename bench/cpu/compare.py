"""PyTorch's CPU times beside those of the CPU engine, row by row, in one run.

    ninja -C build cpu_rows
    python bench/cpu/compare.py build/bin/cpu_rows [--wall] [--threads N] [--peers eager,channels_last,compile] [--ahead 16]
                                [--one-thread ROW …] [--json FILE] [row …]

By default both are measured by the processor time of all threads divided by their number: on a machine that others use at
the same time, that is what the clock on the wall would show without them. `--wall` uses the wall clock. Either way the best
of several runs counts, and the engine runs before and after PyTorch, so that a busy moment does not decide a ratio.
"""

import argparse
import contextlib
import copy
import datetime
import importlib.util
import json
import math
import os
import pathlib
import platform
import re
import select
import signal
import socket
import subprocess
import sys
import time

import torch

from cpu_page import PEERS, page

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
ROWS = ["A", "B", "C", "D", "d1", "d2", "d3", "d4", "d5", "d6"] + [f"f{i}" for i in range(1, 13)]


def model_and_inputs(name, divisor):
    spec = importlib.util.spec_from_file_location(f"row_{name}", MODELS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.batch_size = max(1, module.batch_size // divisor)
    torch.manual_seed(0)
    return module.Model(*module.get_init_inputs()), module.get_inputs()


def clock(options):
    return time.perf_counter() if options.wall else time.process_time() / options.threads


def milliseconds(call, options, patience=math.inf):
    """The best of several calls after a first; one that takes longer than `patience` seconds is no contender and stands as it is."""
    with torch.no_grad():
        start = clock(options)
        call()
        if (first := clock(options) - start) > patience:
            return 1e3 * first
        best = math.inf
        for _ in range(options.rounds):
            start = clock(options)
            call()
            best = min(best, clock(options) - start)
    return 1e3 * best


def peers(name, options):
    """What others have for this row: calls, and the patience with each. (OpenVINO holds the weights as constants.)"""
    model, inputs = model_and_inputs(name, options.batch_divisor)
    calls = {}
    if "eager" in options.peers:
        calls["eager"] = lambda: model(*inputs), math.inf
    if "compile" in options.peers and name not in options.skip_compile:
        compiled = torch.compile(model)
        calls["compile"] = lambda: compiled(*inputs), 60
    rank = inputs[0].dim()
    if "channels_last" in options.peers and rank > 3 and name not in options.skip_channels_last:
        layout = torch.channels_last if rank == 4 else torch.channels_last_3d
        last, moved = copy.deepcopy(model), [x.to(memory_format=layout) for x in inputs]
        for parameter in last.parameters():
            if parameter.dim() == rank:  # those of another rank have no such layout
                parameter.data = parameter.data.to(memory_format=layout)
        calls["channels_last"] = lambda: last(*moved), 5
    norms = any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in model.modules())
    if "openvino" in options.peers and not norms:  # it has none in training
        import openvino

        hints = {"INFERENCE_NUM_THREADS": options.threads, "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
        traced = openvino.convert_model(model, example_input=tuple(inputs))
        request = openvino.Core().compile_model(traced, "CPU", hints).create_infer_request()
        given = [openvino.Tensor(x.numpy(), shared_memory=True) for x in inputs]
        calls["openvino"] = lambda: request.infer(given), math.inf
    return calls


def import_compiler():
    """What every forked process would have to find out for itself: torch.compile's modules, what vectors the processor has."""
    importlib.import_module("torch._inductor.compile_fx")
    from torch._inductor import cpu_vec_isa

    cpu_vec_isa.valid_vec_isa_list()


class Prepared:
    """PyTorch's side of a row in a process of its own: compiled beside others, measured alone when it is asked to."""

    def __init__(self, name, options):
        self.name, self.options = name, options
        self.ours, theirs = socket.socketpair()
        self.child = os.fork()
        if self.child == 0:
            try:
                self.ours.close()
                torch.set_num_threads(options.threads)  # compiled code depends on it
                calls = peers(name, options)
                if "compile" in calls:
                    with torch.no_grad():
                        calls["compile"][0]()
                theirs.sendall(b"r")
                if theirs.recv(1):
                    times = {peer: milliseconds(call, options, patience) for peer, (call, patience) in calls.items()}
                    theirs.sendall(json.dumps(times).encode())
            except Exception as problem:
                print(f"{name}: {problem}", file=sys.stderr, flush=True)
            finally:
                os._exit(0)
        theirs.close()

    def ready(self, seconds):
        """Itself when all is compiled; if that takes longer, the row without torch.compile."""
        if select.select([self.ours], [], [], max(0, seconds))[0]:
            self.ours.recv(1)
            return self
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)
        print(f"{self.name}: torch.compile was given up", flush=True)
        others = argparse.Namespace(
            **{**vars(self.options), "peers": [p for p in self.options.peers if p != "compile"]}
        )
        return Prepared(self.name, others).ready(60)

    def measure(self):
        with contextlib.suppress(BrokenPipeError):
            self.ours.sendall(b"g")
        text = b"".join(iter(lambda: self.ours.recv(65536), b""))
        os.waitpid(self.child, 0)
        return json.loads(text or b"{}")


def ours(rows, options):
    command = [options.binary, "--threads", str(options.threads), "--batch-divisor", str(options.batch_divisor), "--no-peak",
               "--seconds", str(options.seconds), *rows]  # fmt: skip
    if not options.wall:
        command.insert(1, "--processor-time")
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[1:]
    keys = ["milliseconds", "gflops_written", "gflops_run", "gflops_executed", "gbytes_run"]
    return {r[0]: dict(zip(keys, map(float, [*r[1:5], r[6]]), strict=True)) for r in map(str.split, lines)}


def peak(options):
    command = [options.binary, "--threads", str(options.threads), "--json-peak"] + (
        [] if options.wall else ["--processor-time"]
    )
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def processor():
    for line in subprocess.run(["lscpu"], capture_output=True, text=True).stdout.splitlines():
        if line.startswith("Model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def origin(script):
    """What a run writes down of itself."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {
        "command": re.sub(r" --json \S+", "", " ".join(["python", script, *sys.argv[1:]])),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": os.environ.get("TRANSFUSE_COMMIT") or head,
    }


def prepared(options):
    for first in range(0, len(options.rows), options.ahead):
        together = [Prepared(name, options) for name in options.rows[first : first + options.ahead]]
        deadline = time.monotonic() + options.patience
        yield from [row.ready(deadline - time.monotonic()) for row in together]


def save(run, options):
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(run, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("rows", nargs="*", default=ROWS)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--batch-divisor", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.5, help="how long the engine runs each row, twice")
    parser.add_argument("--wall", action="store_true")
    parser.add_argument("--peers", default="eager,channels_last", help=f"of {','.join(PEERS)}")
    parser.add_argument("--ahead", type=int, default=1, help="rows that PyTorch prepares (compiles) side by side")
    parser.add_argument(
        "--patience", type=float, default=600, help="seconds for compiling the rows that are side by side"
    )
    parser.add_argument("--once", action="store_true", help="the engine runs before PyTorch only")
    parser.add_argument(
        "--skip-channels-last", nargs="*", default=["B", "d1", "d2", "f4"], help="rows where it takes minutes"
    )
    parser.add_argument("--skip-compile", nargs="*", default=[], help="rows where torch.compile takes minutes")
    parser.add_argument("--one-thread", nargs="*", default=[], help="rows the engine runs on one thread as well")
    parser.add_argument("--json", help="where the figures go; tools/readme.py makes a page of them")
    options = parser.parse_intermixed_args()
    options.rows = options.rows or ROWS
    options.peers = options.peers.split(",")
    if options.ahead > 1:  # a pool of compilers for each row would outnumber the processors
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    if "compile" in options.peers:
        import_compiler()
    run = {
        **origin("bench/cpu/compare.py"),
        "machine": f"{processor()}, {platform.machine()}",
        "load": os.getloadavg()[0],
        "pytorch": torch.__version__,
        "threads": options.threads,
        "clock": "wall" if options.wall else "processor time / threads",
        "batch": f"1/{options.batch_divisor}",
        "peak": peak(options),
        "asked": options.rows,
        "rows": {},
    }
    own = ours(options.rows, options)
    for theirs in prepared(options):
        name, times = theirs.name, theirs.measure()
        if not times:
            print(f"{name}: PyTorch's process ended without a result", flush=True)
            continue
        if not options.once:
            own[name] = min(own[name], ours([name], options)[name], key=lambda r: r["milliseconds"])
        run["rows"][name] = {"transfuse": own[name], "pytorch_ms": times}
        print(name, f"{own[name]['milliseconds']:.3f}", {k: round(v, 1) for k, v in times.items()},
              f"{min(times.values()) / own[name]['milliseconds']:.2f}", flush=True)  # fmt: skip
        save(run, options)
    if options.one_thread:
        alone = argparse.Namespace(**{**vars(options), "threads": 1})
        flag = "" if options.wall else " --processor-time"
        run["one_thread"] = {
            "command": f"{options.binary} --threads 1 --batch-divisor {options.batch_divisor}{flag} {' '.join(options.one_thread)}",
            "peak": peak(alone),
            "rows": ours(options.one_thread, alone),
        }
        save(run, options)
    print("\n" + page(run))


if __name__ == "__main__":
    main()
