"""`transfuse bench --scale`: how time grows with batch, channels, size and the length of the chain."""

from __future__ import annotations

import json
import sys
import time

from .driver import environment, write
from .rows import Row, models_folder
from .processes import Worker, measure, peaks
from .table import ms, number

# What is varied, its name on the plot, and the values on a CPU (short) and a GPU (long).
AXES = {
    "batch_size": ("batch", [1, 2, 4, 8, 16], [1, 4, 16, 64, 256]),
    "channels": ("channels", [8, 16, 32, 64, 128], [16, 32, 64, 128, 256]),
    "size": ("image side", [16, 32, 64, 128], [32, 64, 128, 256, 512]),
    "length": ("steps in the chain", [1, 2, 4, 8], [1, 2, 4, 8, 16]),
}
CHAINS = {"decoder": "upsample, then a pointwise chain", "pooled": "upsample, scale, global mean"}


def main(options, device: str, arguments: list[str]) -> int:
    folder = models_folder().parent / "scaling"
    precision = options.precision or ("tf32" if device == "cuda" else "fp32")
    shared = {
        "device": device, "precision": precision, "backward": options.backward, "eval": False, "batch_divisor": 1, "batch": None,
        "streaming": False, "which": [p for p in options.peers.split(",") if p in ("compile", "autotune")], "seeds": 1,
        "rounds": options.rounds, "seconds": options.seconds or (0.3 if device == "cuda" else 1.0), "details": False,
        "forced": options.forced, "launches": False,
    }  # fmt: skip
    report = environment(arguments) | {
        "device_kind": device,
        "peaks": {},
        "scaling": [],
        "rows": [],
    }
    worker, start, failures = None, time.monotonic(), 0
    for chain, words in CHAINS.items():
        row = Row(chain, str(folder / f"{chain}.py"))
        for variable, (label, small, large) in AXES.items():
            series: dict[str, list[list[float]]] = {}
            for value in large if device == "cuda" else small:
                if time.monotonic() - start > options.time_limit:
                    break
                if worker is None or not worker.alive():
                    worker = Worker()
                    report |= peaks(worker, device, [precision])
                base = {"batch_size": 32, "size": 128} if device == "cuda" else {}
                job = shared | {"path": row.path, "overrides": base | {variable: value}}
                result = measure(row, job, worker, options.row_limit)
                got = {name: ms(result, name) for name in result["peers"] if ms(result, name) is not None}
                failures += "transfuse" not in got
                for name, t in got.items():
                    series.setdefault(name, []).append([value, t])
                print(f"{chain} {label} {value}: " + ", ".join(f"{n} {number(t)} ms" for n, t in got.items())
                      + ("" if result["status"] == "ok" else result["status"]), file=sys.stderr, flush=True)  # fmt: skip
            if series:
                report["scaling"].append(
                    {"name": f"{chain}-{variable}", "title": words, "axis": label, "series": series}
                )
            if options.json:
                write(options.json, json.dumps(report, indent=1))
    if worker is not None:
        worker.stop()
    for plot in report["scaling"]:
        print(f"\n{plot['title']}, milliseconds against {plot['axis']}\n")
        values = [p[0] for p in next(iter(plot["series"].values()))]
        print(f"| {plot['axis']} | " + " | ".join(map(str, values)) + " |\n|" + " --- |" * (len(values) + 1))
        for name, points in plot["series"].items():
            found = dict(map(tuple, points))
            print(f"| {name} | " + " | ".join(number(found.get(v)) for v in values) + " |")
    return 1 if failures else 0
