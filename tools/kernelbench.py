"""KernelBench's problems in a loop like that of its own harness: a file is written, executed in a process without transfuse,
constructed and called with fresh inputs, with TF32 and in full fp32; then it is timed beside PyTorch and `optimize`.

    python tools/kernelbench.py FOLDER [NAME …] [--parallel 8] [--trials 3] [--out out/kernelbench] [--json FILE]

FOLDER holds problems as files (KernelBench/level1 and level2 of its repository); without names those with transposed
convolutions. Right: with TF32 the rms error against full fp32 is at most 1.2 times PyTorch's; in full fp32 every element is
within the harness's 1e-4. `≤1e-4` says whether the harness takes it with TF32, where it compares two roundings. Times: the
median of cold calls, as the harness takes them, of one process while no other uses the device."""

import argparse
import contextlib
import fcntl
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
ARITHMETICS = {"tf32": True, "strict": False}
FLOOR = 1e-6  # rms error of fp32: where cuDNN does without TF32


def executed(path):
    """As the harness does it: the text is executed, there is no __file__."""
    space = {"__name__": "problem"}
    exec(compile(Path(path).read_text(), str(path), "exec"), space)
    return space


def made(cls, problem):
    torch.manual_seed(42)
    arguments = problem["get_init_inputs"]()
    torch.manual_seed(42)
    return (cls(**arguments) if isinstance(arguments, dict) else cls(*arguments)).to(device="cuda", dtype=torch.float32)


def inputs_of(problem, seed):
    torch.manual_seed(seed)
    with torch.device("cuda"):  # random numbers by the gigabyte
        given = problem["get_inputs"]()
    return [v.cuda() if isinstance(v, torch.Tensor) else v for v in given]


@contextlib.contextmanager
def device(lock, how):
    """Shared by those who compare, alone for one that times."""
    with open(lock, "w") as file:
        fcntl.flock(file, how)
        try:
            yield
        finally:
            torch.cuda.empty_cache()


def rms(value, scale):
    return (value.square().mean().sqrt() / scale).item()


def compared(path, file, tf32, trials):
    """Errors of the file and of PyTorch against full fp32, and whether the harness's tolerance holds."""
    problem = executed(path)
    model, new = made(problem["Model"], problem), made(executed(file)["ModelNew"], problem)
    ours = theirs = 0.0
    within = True
    for trial in range(trials):
        given = inputs_of(problem, 1000 + trial)
        with torch.no_grad():
            torch.backends.cudnn.allow_tf32 = False
            exact = model(*given)
            torch.backends.cudnn.allow_tf32 = tf32
            other, found = model(*given) if tf32 else exact, new(*given)
        assert found.shape == other.shape and found.dtype == other.dtype, f"{found.shape} for {other.shape}"
        scale = exact.square().mean().sqrt().clamp_min(1e-30)
        ours, theirs = max(ours, rms(found - exact, scale)), max(theirs, rms(other - exact, scale))
        within &= torch.allclose(found, other, atol=1e-4, rtol=1e-4)
    return {"ours": ours, "theirs": theirs, "within": within}


def check(path, file, lock, trials):
    sys.modules["transfuse"] = None
    found = {}
    for name, tf32 in ARITHMETICS.items():
        try:
            with device(lock, fcntl.LOCK_SH):
                found[name] = compared(path, file, tf32, trials)
        except torch.OutOfMemoryError:  # others have it
            with device(lock, fcntl.LOCK_EX):
                found[name] = compared(path, file, tf32, trials)
    print(json.dumps(found), flush=True)


def milliseconds(call):
    for _ in range(3):
        call()
    cold, taken = torch.empty(64 << 20, dtype=torch.int32, device="cuda"), []
    for _ in range(10):
        cold.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end))
    return statistics.median(taken)


def timed(path, file):
    import transfuse

    problem = executed(path)
    given = inputs_of(problem, 0)
    found = {}
    for name, tf32 in ARITHMETICS.items():
        torch.backends.cudnn.allow_tf32 = tf32
        model, new = made(problem["Model"], problem), made(executed(file)["ModelNew"], problem)
        optimized = transfuse.optimize(made(problem["Model"], problem), tuple(given), never_slower=False)
        calls = {"eager": model, "file": new, "optimize": optimized}
        found[name] = {who: milliseconds(lambda module=module: module(*given)) for who, module in calls.items()}
    return found


def times(lock):
    """Of every problem that is named on a line."""
    for line in sys.stdin:
        path, file = json.loads(line)
        try:
            with device(lock, fcntl.LOCK_EX):
                found = timed(path, file)
        except Exception as error:
            found = {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(found), flush=True)


def said(command, limit, **more):
    """What a process prints as JSON on its last line, or why it does not."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, **more)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done in {limit:.0f} s"}
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        return {"failed": lines[-1] if lines else f"exit status {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1]) if "check" in command else {}


def right(name, found):
    if name == "strict":
        return found["within"]
    return found["ours"] <= 1.2 * max(found["theirs"], FLOOR)


def cells(name, result):
    check_, time_ = result["check"].get(name), result.get("times", {}).get(name)
    row = ["right" if right(name, check_) else "WRONG", f"{check_['ours']:.1e}"]
    row += [f"{check_['theirs']:.1e}", "yes" if check_["within"] else "no"] if name == "tf32" else []
    if time_:
        row += [f"{time_['eager']:.3f}", f"{time_['file']:.3f}", f"{time_['file'] / time_['optimize']:.2f}"]
    return row + [""] * ((7 if name == "tf32" else 5) - len(row))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--parallel", type=int, default=8)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--limit", type=float, default=600, help="seconds a problem's process may take")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "kernelbench")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    known = {path.stem: path.resolve() for path in sorted(options.folder.glob("*.py"))}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"{options.folder} has no {unknown[0]}.py")
    chosen = options.names or [name for name, path in known.items() if "ConvTranspose" in path.read_text()]
    options.out.mkdir(parents=True, exist_ok=True)
    lock = str(options.out / "device.lock")
    own = {"PYTHONPATH": str(ROOT / "python"), "TORCH_EXTENSIONS_DIR": str(options.out.resolve() / "extensions")}
    told = {"env": os.environ | own}
    timer = subprocess.Popen(
        [sys.executable, __file__, "times", lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **told
    )
    one = threading.Lock()

    def measured(name):
        file, began = str(options.out / f"{name}.py"), time.monotonic()
        emit = [sys.executable, "-m", "transfuse", "emit", str(known[name]), "-o", file]
        if failed := said(emit, options.limit, **told).get("failed"):
            return {"failed": failed}
        seconds = time.monotonic() - began
        checking = [sys.executable, __file__, "check", str(known[name]), file, lock, str(options.trials)]
        result = said(checking, options.limit, **told)
        if "failed" in result:
            return result
        with one:
            timer.stdin.write(json.dumps([str(known[name]), file]) + "\n")
            timer.stdin.flush()
            taken = json.loads(timer.stdout.readline() or '{"failed": "the process that times has ended"}')
        return {"check": result, "times": taken, "seconds": seconds}

    timed_columns = "eager ms | file ms | file/optimize"
    print(f"| id | TF32 | rms | PyTorch's | ≤1e-4 | {timed_columns} | strict | rms to PyTorch | {timed_columns} |")
    print("|" + " --- |" * 13, flush=True)
    results, wrong = {}, []
    with ThreadPoolExecutor(options.parallel) as pool:
        running = {pool.submit(measured, name): name for name in chosen}
        for done in as_completed(running):
            name, result = running[done], done.result()
            results[name] = result
            if "failed" in result:
                row = [f"failed: {result['failed'][:150]}"]
            else:
                row = [cell for arithmetic in ARITHMETICS for cell in cells(arithmetic, result)]
            wrong += [name] * ("failed" in result or not all(right(n, result["check"][n]) for n in ARITHMETICS))
            if "failed" in result.get("times", {}):
                wrong.append(name)
                row.append(result["times"]["failed"][:150])
            print(f"| {name} | {' | '.join(row)} |", flush=True)
    timer.stdin.close()
    timer.wait()
    slow = [
        f"{name} ({arithmetic}: file {t['file']:.3f}, optimize {t['optimize']:.3f}, eager {t['eager']:.3f} ms)"
        for name, result in results.items()
        for arithmetic, t in result.get("times", {}).items()
        if isinstance(t, dict) and t["file"] > 1.1 * t["optimize"] + 0.01
    ]
    print(f"{len(chosen) - len(set(wrong))} of {len(chosen)} right" + (f"; not {', '.join(wrong)}" if wrong else ""))
    print("more than 10 % slower than optimize: " + (", ".join(slow) or "none"))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["check"]:
        check(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
    elif sys.argv[1:2] == ["times"]:
        times(sys.argv[2])
    else:
        sys.exit(main())
