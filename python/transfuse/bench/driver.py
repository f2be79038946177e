"""`transfuse bench`: hands rows to a worker process, shows progress, collects the results and writes JSON and a table."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from . import compare, table
from .peers import asked_peers
from .rows import Row, find_rows
from .processes import measured
from .record import environment, read, write


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="transfuse bench",
        description="Times models side by side with PyTorch. (Whole networks of a file: transfuse bench --models FILE.py --help)",
        allow_abbrev=False,
    )
    p.add_argument("models", nargs="*", help="model files, or row ids as in --rows")
    p.add_argument(
        "--rows", default="", help="ids or groups, comma-separated: A,B,f1 | seeds | d | f | rows | whole | all"
    )
    p.add_argument("--models-folder", type=Path, help="where the row files are (default: bench/models)")
    p.add_argument("--device", choices=["cpu", "cuda"], help="default: cuda where there is one")
    p.add_argument(
        "--precision",
        default="",
        help="comma-separated: tf32, fp32 (strict), fp16, bf16; default tf32 on CUDA, fp32 on CPU",
    )
    p.add_argument("--backward", action="store_true", help="forward and backward instead of forward")
    p.add_argument("--eval", action="store_true", help="modules in eval mode (default: as constructed, training)")
    p.add_argument("--batch-divisor", type=int, help="cut the batch (default 8 for rows on a CPU, else 1)")
    p.add_argument("--set", default="", help="other sizes for names of the model file: height=64,width=64")
    p.add_argument("--batch", type=int, help="this batch instead of the model's own")
    p.add_argument(
        "--streaming", action="store_true", help="latency of single calls at batch 1, host and device together"
    )
    p.add_argument(
        "--peers",
        default="compile,channels_last",
        help="compile, channels_last, benchmark (cuDNN's), autotune, graphs (max-autotune, without and with CUDA graphs); "
        "emitted (the model's file as `transfuse emit` writes it for the run's dtype and sizes); "
        "'none': eager and ours alone",
    )
    p.add_argument(
        "--peer-limit",
        type=float,
        default=float("inf"),
        help="a compiled peer not ready after this many seconds is left out",
    )
    p.add_argument("--seeds", type=int, default=1, help="how many seeds the check uses")
    p.add_argument("--rounds", type=int, default=30, help="most timed calls of each")
    p.add_argument("--seconds", type=float, help="time to spend timing a row (default 1 on CUDA, 6 on CPU)")
    p.add_argument("--row-limit", type=float, default=300, help="a row is given up after this many seconds")
    p.add_argument(
        "--time-limit", type=float, default=float("inf"), help="rows not done after this many seconds are left out"
    )
    p.add_argument(
        "--parallel",
        type=int,
        default=1,
        help="rows compiled and checked side by side; timing is always alone, but cuDNN may choose other algorithms while memory is "
        "short, and max-autotune measures its candidates side by side",
    )
    p.add_argument("--forced", action="store_true", help="ours everywhere, also where PyTorch's own op is faster")
    p.add_argument(
        "--autotune", action="store_true", help="dense CUDA kernels: measure configurations, remember the fastest"
    )
    p.add_argument(
        "--no-launches", action="store_true", help="do not count kernels (the profiler takes seconds to start)"
    )
    p.add_argument("--no-details", action="store_true", help="leave derivation and plan out of the JSON")
    p.add_argument("--json", type=Path, help="write everything here")
    p.add_argument("--table", type=Path, help="write the Markdown table here as well")
    p.add_argument(
        "--compare", type=Path, nargs=2, metavar=("OLD", "NEW"), help="compare two JSON files and measure nothing"
    )
    p.add_argument(
        "--scale", action="store_true", help="time against batch, channels, size and chain length instead of rows"
    )
    return p


def overrides(text: str) -> dict:
    pairs = [part.partition("=") for part in text.split(",") if part]
    try:
        return {name: int(value) for name, _, value in pairs}
    except ValueError:
        raise SystemExit(f"bench: --set takes name=integer pairs, got {text!r}") from None


def jobs(options, device: str) -> list[tuple[Row, dict]]:
    wanted = [w for w in options.rows.split(",") if w] + options.models
    chosen = find_rows(wanted, options.models_folder)
    default = "tf32" if device == "cuda" else "fp32"
    peers = asked_peers(options.peers)
    precisions = (options.precision or default).split(",")
    if unknown := [p for p in precisions if p not in table.PRECISION]:
        raise SystemExit(f"bench: unknown precision {unknown[0]!r}; known: {', '.join(table.PRECISION)}")
    if options.rounds < 1:
        raise SystemExit(f"bench: --rounds takes a number from 1 on, got {options.rounds}")
    shared = {
        "device": device, "backward": options.backward, "eval": options.eval,
        "batch": 1 if options.streaming else options.batch, "streaming": options.streaming, "which": peers,
        "seeds": options.seeds, "rounds": options.rounds, "seconds": options.seconds or (1.0 if device == "cuda" else 6.0),
        "details": not options.no_details, "overrides": overrides(options.set), "forced": options.forced,
        "launches": not options.no_launches, "peer_limit": options.peer_limit,
    }  # fmt: skip
    files = {Path(model).resolve() for model in wanted}

    def divisor(row: Row) -> int:
        """A file that is named is timed as it is."""
        return options.batch_divisor or (1 if device == "cuda" or Path(row.path).resolve() in files else 8)

    return [(row, {"path": row.path, "precision": precision, "batch_divisor": divisor(row), **shared})
            for precision in precisions for row in chosen]  # fmt: skip


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    if options.compare:
        text, worse = compare.compare(*(read(path, "bench") for path in options.compare))
        print(text)
        return 1 if worse else 0
    if options.autotune:  # for the processes that run the rows
        os.environ["TRANSFUSE_AUTOTUNE"] = "1"
    import torch

    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("bench: PyTorch finds no CUDA device here")
    if options.scale:
        from . import scaling

        return scaling.main(options, device, arguments)
    work = jobs(options, device)
    asked = list(dict.fromkeys(row.id for row, _ in work))
    report = environment(arguments, device) | {"peaks": {}, "asked": asked, "rows": []}
    for result in measured(work, options, report):
        report["rows"].append(result)
        if options.json:  # after every row: nothing is lost if we are stopped
            write(options.json, json.dumps(report, indent=1))
    text = table.markdown(report)
    print(text)
    if options.table:
        write(options.table, text + "\n")
    return 0 if all(r["status"] == "ok" and not table.wrong(r) for r in report["rows"]) else 1
