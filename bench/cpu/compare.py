"""PyTorch's CPU times beside those of the CPU engine, row by row, in one run.

    ninja -C build cpu_rows
    python bench/cpu/compare.py build/bin/cpu_rows [--wall] [--threads N] [--compile] [--out FILE] [row ...]

By default both are measured by the processor time of all threads divided by their number: on a machine that others use at
the same time, that is what the clock on the wall would show without them. `--wall` uses the wall clock.
"""
import argparse
import importlib.util
import math
import pathlib
import platform
import subprocess
import sys
import time

import torch

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
ROWS = ["A", "B", "C", "D", "d1", "d2", "d3", "d4", "d5", "d6"] + [f"f{i}" for i in range(1, 13)]


def load(name):
    spec = importlib.util.spec_from_file_location(f"row_{name}", MODELS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def model_and_inputs(name, divisor):
    module = load(name)
    torch.manual_seed(0)
    model = module.Model(*module.get_init_inputs())
    inputs = [x[: max(1, x.shape[0] // divisor)].clone() for x in module.get_inputs()]
    return model, inputs


def milliseconds(call, threads, wall, rounds, patience):
    clock = time.perf_counter if wall else lambda: time.process_time() / threads
    best = math.inf
    with torch.no_grad():
        start = clock()
        call()
        if clock() - start > patience:  # fifty times slower than eager is no contender: one look is enough
            return 1e3 * (clock() - start)
        for _ in range(rounds):
            start = clock()
            call()
            best = min(best, clock() - start)
    return 1e3 * best


def pytorch(name, options):
    model, inputs = model_and_inputs(name, options.batch_divisor)
    times = {"eager": milliseconds(lambda: model(*inputs), options.threads, options.wall, options.rounds, math.inf)}
    rank = inputs[0].dim()
    if rank > 3 and name not in options.skip_channels_last:
        layout = torch.channels_last if rank == 4 else torch.channels_last_3d
        try:
            last, moved = model.to(memory_format=layout), [x.to(memory_format=layout) for x in inputs]
            times["channels_last"] = milliseconds(lambda: last(*moved), options.threads, options.wall, options.rounds, 5)
        except RuntimeError:  # a parameter of another rank has no such layout
            pass
    if options.compile:
        compiled = torch.compile(model_and_inputs(name, options.batch_divisor)[0])
        times["compile"] = milliseconds(lambda: compiled(*inputs), options.threads, options.wall, options.rounds, 60)
    return times


def ours(name, options):
    command = [options.binary, "--threads", str(options.threads), "--batch-divisor", str(options.batch_divisor), name]
    if not options.wall:
        command.insert(1, "--processor-time")
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return lines[0], lines[-1].split()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("rows", nargs="*", default=ROWS)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--batch-divisor", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--wall", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--skip-channels-last", nargs="*", default=["B", "d1", "d2", "f4"], help="rows where it takes minutes")
    parser.add_argument("--out")
    options = parser.parse_intermixed_args()
    options.rows = options.rows or ROWS
    torch.set_num_threads(options.threads)
    columns = ["eager", "channels_last"] + (["compile"] if options.compile else [])
    table, ratios = [], []
    for name in options.rows:
        machine, row = ours(name, options)
        times = pytorch(name, options)
        ratio = min(times.values()) / float(row[1])
        ratios.append(ratio)
        table.append([name] + [f"{times[c]:.1f}" if c in times else "—" for c in columns] + [row[1], row[2], row[3], row[4], f"{ratio:.2f}"])
        print(*table[-1], flush=True)
    head = ["row", *[f"PyTorch {c}, ms" for c in columns], "transfuse, ms", "GFLOP/s as written", "GFLOP/s run", "of product peak", "ratio"]
    lines = [
        f"`python bench/cpu/compare.py {' '.join(sys.argv[1:])}`", "",
        f"{platform.machine()}, PyTorch {torch.__version__}, {options.threads} threads, batch/{options.batch_divisor}, "
        f"{'wall clock' if options.wall else 'processor time / threads'}. {machine}", "",
        "| " + " | ".join(head) + " |", "|" + " --- |" * len(head),
        *["| " + " | ".join(row) + " |" for row in table], "",
        f"Geometric mean of {len(ratios)} ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}", "",
    ]
    if options.out:
        pathlib.Path(options.out).write_text("\n".join(lines))
    print("\n".join(lines[-2:]))


if __name__ == "__main__":
    main()
