"""`transfuse bench --models FILE.py`: whole networks, each way to run one alone in a process, and once more in a second process that finds
what the first left on disk.

The file has NETWORKS: names and functions that return a module and its inputs (a tuple, or a dictionary of keyword arguments). What such
a function cannot import is skipped by name.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .network import WAYS
from .record import environment, write

EVEN = 1.03  # of the time of PyTorch's best: more is behind
CACHES = ("TRANSFUSE_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="transfuse bench --models", description="Times networks side by side with PyTorch."
    )
    p.add_argument("--models", type=Path, required=True, metavar="FILE", help="a file with NETWORKS")
    p.add_argument("--only", default="", help="names of networks, comma-separated")
    p.add_argument("--ways", default=",".join(WAYS), help=f"of {', '.join(WAYS)} (default: all)")
    p.add_argument("--device", choices=["cpu", "cuda"], help="default: cuda where there is one")
    p.add_argument("--precision", choices=["tf32", "fp32", "fp16", "bf16"], help="default: tf32 on CUDA, fp32 on CPU")
    p.add_argument("--backward", action="store_true", help="training steps: gradients of all parameters, in train mode")
    p.add_argument("--seconds", type=float, default=1.0, help="to spend on the times of each way")
    p.add_argument(
        "--processor-time", action="store_true", help="on CPUs: what all threads take, on machines that others use, too"
    )
    p.add_argument("--once", action="store_true", help="one process a way: no second one for its first result")
    p.add_argument("--limit", type=float, default=300, help="a process is given up after this many seconds")
    p.add_argument("--parallel", type=int, default=1, help="processes side by side; each is timed alone")
    p.add_argument(
        "--time-limit", type=float, default=math.inf, help="what has not begun after so many seconds is left out"
    )
    p.add_argument("--json", type=Path, help="write everything here")
    p.add_argument("--table", type=Path, help="write the Markdown table here as well")
    return p


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    import torch

    from .network import load

    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("bench: PyTorch finds no CUDA device here")
    options.precision = options.precision or ("tf32" if device == "cuda" else "fp32")
    known, asked = list(load(options.models)), [name for name in options.only.split(",") if name]
    ways = options.ways.split(",")
    for what, wanted, there in (("network", asked, known), ("way", ways, WAYS)):
        if unknown := [name for name in wanted if name not in there]:
            raise SystemExit(f"bench: unknown {what} {unknown[0]!r}; known: {', '.join(there)}")
    report = environment(arguments, device) | {"precision": options.precision, "backward": options.backward}
    report |= {"processor_time": options.processor_time and device == "cpu", "rows": []}
    stop = time.monotonic() + options.time_limit
    with tempfile.TemporaryDirectory(prefix="transfuse-bench-") as folder, ThreadPoolExecutor(options.parallel) as pool:
        # eager first: what cannot be imported or run at all is found out once
        def network(name: str) -> dict:
            result = {"id": name, "ways": {}}
            for way in sorted(ways, key=lambda way: way != "eager"):
                if time.monotonic() > stop:
                    result["ways"][way] = {"failed": "the time limit was reached"}
                    continue
                found = result["ways"][way] = _measured(name, way, device, options, Path(folder))
                if "skipped" in found:
                    return {"id": name, "skipped": found["skipped"]}
            return result

        for result in pool.map(network, asked or known):
            report["rows"].append(result)
            print(_line(result), file=sys.stderr, flush=True)
            if options.json:
                write(options.json, json.dumps(report, indent=1))
    text = markdown(report)
    print(text)
    if options.table:
        write(options.table, text + "\n")
    return 1 if any("failed" in _found(row, way) for row in report["rows"] for way in ways) else 0


def _measured(name: str, way: str, device: str, options, folder: Path) -> dict:
    """A first process with empty caches, and a second one for its first result."""
    here = folder / f"{name}-{way}"
    here.mkdir()
    told = {"file": str(options.models.resolve()), "name": name, "way": way, "device": device, "precision": options.precision,
            "backward": options.backward, "seconds": options.seconds, "processor_time": options.processor_time,
            "lock": str(folder / "lock")}  # fmt: skip
    found = _process(told, here, options.limit)
    if way != "eager" and not options.once and "failed" not in found and "skipped" not in found:
        again = _process(told | {"seconds": 0.0}, here, options.limit)
        found["second_process_s"] = again.get("first_s")
    return found


def _process(told: dict, folder: Path, limit: float) -> dict:
    """What a process wrote before it ended, however it ended."""
    out, log = folder / "result.json", folder / "log"
    out.unlink(missing_ok=True)
    package = str(Path(__file__).resolve().parents[2])
    env = os.environ | {name: str(folder / name.lower()) for name in CACHES}
    env["PYTHONPATH"] = package + (":" + env["PYTHONPATH"] if env.get("PYTHONPATH") else "")
    command = [sys.executable, "-m", "transfuse.bench.network", json.dumps(told | {"out": str(out)})]
    try:
        with open(log, "wb") as said:
            code = subprocess.run(command, env=env, stdout=said, stderr=said, timeout=limit).returncode
    except subprocess.TimeoutExpired:
        code = None
    try:
        found = json.loads(out.read_text())
    except (OSError, ValueError):
        found = {}
    if not found.pop("done", False) and "failed" not in found and "skipped" not in found:
        ended = f"no end after {limit:.0f} s" if code is None else f"the process ended with {code}"
        said = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        found["failed"] = f"{ended}; its last words: {said[-1][:200]}" if said else ended
    return found


def _found(row: dict, way: str) -> dict:
    return row.get("ways", {}).get(way, {})


def _line(row: dict) -> str:
    if "skipped" in row:
        return f"{row['id']}: skipped ({row['skipped']})"
    told = [f"{way} {_milliseconds(found)}" for way, found in row["ways"].items()]
    return f"{row['id']}: " + ", ".join(told)


def _milliseconds(found: dict) -> str:
    return f"{found['device_ms']:.3g} ms" if "device_ms" in found else found.get("failed", "not timed")


def best(row: dict, ours: bool) -> tuple[str, dict] | None:
    """The fastest way, ours or PyTorch's."""
    times = [
        (found["device_ms"], way, found)
        for way, found in row["ways"].items()
        if "device_ms" in found and WAYS[way].ours == ours
    ]
    return min(times)[1:] if times else None


def verdict(row: dict, found: dict) -> str:
    """Errors (root of the mean square, relative, the largest over the results) of a way and of eager PyTorch."""
    theirs = _found(row, "eager").get("error")
    if "error" not in found or theirs is None:
        return ""
    wrong = found["error"] > 1.2 * theirs + 1e-6
    return f"{found['error']:.1e} ({theirs:.1e})" + (" **wrong**" if wrong else "")


def markdown(report: dict) -> str:
    rows = [row for row in report["rows"] if "skipped" not in row]
    ways = list(dict.fromkeys(way for row in rows for way in row["ways"]))
    unit = "training step" if report["backward"] else "forward"
    what = "the processor, all threads" if report.get("processor_time") else "the device"
    where = (
        f"{report['device_kind']}, PyTorch {report['versions']['torch']}, commit {report['commit']}, {report['date']}"
    )
    lines = [f"Milliseconds of {what}, {unit}, {report['precision']}. {where}.", f"`{report['command']}`", ""]
    lines.append(
        "| network | "
        + " | ".join(ways)
        + " | × best PyTorch | error (eager's) | memory, MB (best's) | wall, ms (best's) | first s, second process (best's) | taken, left |"
    )
    lines.append("| --- |" + " --- |" * (len(ways) + 6))
    ratios, behind = [], []
    for row in rows:
        cells = [_milliseconds(_found(row, way)) if _found(row, way) else "" for way in ways]
        mine, theirs = best(row, True), best(row, False)
        more = [""] * 6
        if mine and theirs:
            (_, own), (_, other) = mine, theirs
            ratio = other["device_ms"] / own["device_ms"]
            ratios.append(ratio)
            behind += [row["id"]] if ratio * EVEN < 1 else []
            more = [
                f"**{ratio:.2f}×**", verdict(row, own), f"{own['peak_bytes'] / 1e6:.0f} ({other['peak_bytes'] / 1e6:.0f})",
                f"{own['wall_ms']:.3g} ({other['wall_ms']:.3g})",
                f"{_seconds(own)} ({_seconds(other)})", f"{own.get('taken', '')}, {own.get('left', '')}",
            ]  # fmt: skip
        lines.append(f"| {row['id']} | " + " | ".join(cells + more) + " |")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        lines += ["", f"Geometric mean over PyTorch's best way: **{mean:.2f}×** of {len(ratios)} networks."]
        lines.append(f"Behind by more than 3 %: {', '.join(behind) or 'none'}.")
    skipped = [f"{row['id']} ({row['skipped']})" for row in report["rows"] if "skipped" in row]
    lines += ["", "Skipped: " + ", ".join(skipped)] if skipped else []
    return "\n".join(lines)


def _seconds(found: dict) -> str:
    again = found.get("second_process_s")
    return f"{found['first_s']:.1f}" + (f", {again:.1f}" if again is not None else "")
