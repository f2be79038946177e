"""`transfuse bench --scale`: how time grows with batch, channels, size and the length of the chain."""

from __future__ import annotations

import json
from collections.abc import Iterator

from .peers import MODES, asked_peers
from .processes import measured
from .record import environment, write
from .rows import Row, models_folder
from .table import ms, number

# What is varied, its name on the plot, and the values on a CPU (short) and a GPU (long).
AXES = {
    "batch_size": ("batch", [1, 2, 4, 8, 16], [1, 4, 16, 64]),
    "channels": ("channels", [8, 16, 32, 64, 128], [16, 32, 64, 128]),
    "size": ("image side", [16, 32, 64, 128], [32, 64, 128, 256]),
    "length": ("steps in the chain", [1, 2, 4, 8], [1, 2, 4, 8]),
}
CHAINS = {"decoder": "upsample, then a pointwise chain", "pooled": "upsample, scale, global mean"}


def jobs(options, device: str) -> Iterator[tuple[str, str, int, Row, dict]]:
    """Chain, what is varied, its value, and the row to measure there."""
    folder = models_folder().parent / "scaling"
    shared = {
        "device": device, "precision": options.precision or ("tf32" if device == "cuda" else "fp32"), "backward": options.backward,
        "eval": False, "batch_divisor": 1, "batch": None, "streaming": False, "seeds": 1, "rounds": options.rounds,
        "which": [p for p in asked_peers(options.peers) if p in MODES], "details": False, "launches": False,
        "seconds": options.seconds or (0.3 if device == "cuda" else 1.0), "forced": options.forced, "peer_limit": options.peer_limit,
    }  # fmt: skip
    base = {"batch_size": 32, "size": 128} if device == "cuda" else {}
    for chain in CHAINS:
        for variable, (label, small, large) in AXES.items():
            for value in large if device == "cuda" else small:
                row = Row(f"{chain}, {label} {value}", str(folder / f"{chain}.py"))
                yield chain, variable, value, row, shared | {"path": row.path, "overrides": base | {variable: value}}


def main(options, device: str, arguments: list[str]) -> int:
    work = list(jobs(options, device))
    report = environment(arguments, device) | {"peaks": {}, "scaling": [], "rows": []}
    plots: dict[tuple[str, str], dict] = {}
    right = 0
    results = measured([(row, job) for *_, row, job in work], options, report)
    for (chain, variable, value, *_), result in zip(work, results):
        if (chain, variable) not in plots:
            plots[chain, variable] = {
                "name": f"{chain}-{variable}", "title": CHAINS[chain], "axis": AXES[variable][0], "series": {}
            }  # fmt: skip
            report["scaling"].append(plots[chain, variable])
        for name in result["peers"]:
            if (t := ms(result, name)) is not None:
                plots[chain, variable]["series"].setdefault(name, []).append([value, t])
        right += ms(result, "transfuse") is not None
        if options.json:
            write(options.json, json.dumps(report, indent=1))
    print("\n\n".join(as_table(plot) for plot in report["scaling"]))
    return 0 if right == len(work) else 1


def as_table(plot: dict) -> str:
    values = sorted({point[0] for points in plot["series"].values() for point in points})
    lines = [f"{plot['title']}, milliseconds against {plot['axis']}", ""]
    lines += [f"| {plot['axis']} | " + " | ".join(map(str, values)) + " |", "|" + " --- |" * (len(values) + 1)]
    for name, points in plot["series"].items():
        found = {value: t for value, t in points}
        lines.append(f"| {name} | " + " | ".join(number(found.get(v)) for v in values) + " |")
    return "\n".join(lines)
