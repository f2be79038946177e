"""The results as Markdown, generated from the JSON alone."""

from __future__ import annotations

import statistics

from .floors import floor_ms


def ms(result: dict, peer: str) -> float | None:
    return result["peers"].get(peer, {}).get("ms")


def pytorch_peers(result: dict) -> list[str]:
    return [name for name in result["peers"] if not name.startswith("transfuse") and ms(result, name) is not None]


def best_pytorch(result: dict) -> tuple[str, float] | None:
    """The fastest PyTorch, whatever the layout and the compiler."""
    times = [(ms(result, name), name) for name in pytorch_peers(result)]
    return (min(times)[1], min(times)[0]) if times else None


def ours(result: dict) -> tuple[str, float] | None:
    times = [(t, name) for name in ("transfuse", "transfuse_channels_last") if (t := ms(result, name)) is not None]
    return (min(times)[1], min(times)[0]) if times else None


def wrong(result: dict) -> str | None:
    """Why there is no time of ours: the first failure or the verdict."""
    for name in ("transfuse", "transfuse_channels_last"):
        values = result["peers"].get(name, {})
        if values.get("verdict", "right") != "right":
            return f"wrong: {values['verdict']}"
        if "failed" in values:
            return f"failed: {values['failed']}"
    return None


def lost(result: dict) -> list[str]:
    """The ways to run PyTorch that failed here, and how; none of ours."""
    peers = result["peers"].items()
    return [f"{NAMES.get(name, name)} ({values['failed']})" for name, values in peers
            if "failed" in values and not name.startswith("transfuse")]  # fmt: skip


def error_ratio(result: dict) -> tuple[float, float] | None:
    """Our error over PyTorch's own: rms and worst element, largest over the results."""
    mine, theirs = (result["peers"].get(name, {}).get("error") for name in ("transfuse", "eager"))
    if not mine or not theirs:
        return None
    ratios = [
        [(a[k] / b[k]) if b[k] else (0.0 if a[k] == 0 else float("inf")) for k in ("rms", "worst")]
        for a, b in zip(mine, theirs)
    ]
    return max(r[0] for r in ratios), max(r[1] for r in ratios)


def left(result: dict) -> str:
    """A mark for our time where a region was left to PyTorch because it is faster there, and what ours alone takes."""
    mine = ours(result)
    if not mine or not result["peers"][mine[0]].get("regions_left_to_pytorch"):
        return ""
    alone = ms(result, mine[0] + "_forced")
    return "†" + (f" ({number(alone)})" if alone else "")


def number(value: float | None) -> str:
    if value is None:
        return "—"
    return (
        f"{value:.0f}"
        if value >= 100
        else f"{value:.1f}"
        if value >= 10
        else f"{value:.2f}"
        if value >= 0.1
        else f"{value:.3f}"
    )


def times(value: float | None) -> str:
    return (
        "—" if value is None else f"{value:.0f}×" if value >= 20 else f"{value:.1f}×" if value >= 2 else f"{value:.2f}×"
    )


def one_line(result: dict) -> str:
    head = f"{result['id']} {result['precision']}{' fwd+bwd' if result['backward'] else ''}: "
    if result["status"] != "ok":
        return head + result["status"]
    mine, best, eager = ours(result), best_pytorch(result), ms(result, "eager")
    parts = [f"eager {number(eager)} ms"]
    if best and best[0] != "eager":
        parts.append(f"best PyTorch {number(best[1])} ms ({best[0]})")
    if mine:
        parts.append(f"transfuse {number(mine[1])} ms" + left(result))
        if best:
            parts.append(f"{times(best[1] / mine[1])} the best")
    if problem := wrong(result):
        parts.append(problem)
    if without := lost(result):
        parts.append("without " + ", ".join(without))
    return head + ", ".join(parts)


def file_cell(result: dict, name: str) -> str:
    """An emitted file's time, and what it is of the module's in the same layout."""
    values = result["peers"].get(name, {})
    if "failed" in values:  # a compiler's words may be long, and name places of one machine
        return f"failed: {values['failed'].split(':')[0]}"
    if values.get("verdict", "right") != "right":
        return f"wrong: {values['verdict']}"
    module = ms(result, "transfuse_channels_last" if name.endswith("channels_last") else "transfuse")
    mine = values.get("ms")
    return number(mine) + (f" ({mine / module:.2f})" if mine and module else "")


def cells(result: dict, report: dict, columns: list[str], files: list[str]) -> list[str]:
    mine, best, eager = ours(result), best_pytorch(result), ms(result, "eager")
    line = [f"**{result['id']}**", "×".join(map(str, result.get("inputs", [[]])[0])), result["title"]]
    if result["status"] != "ok" and not result["peers"]:
        return line + [result["status"]] + [""] * (len(columns) + len(files) + 10)
    line += [number(ms(result, name)) for name in columns]
    if mine is None:
        return line + [wrong(result) or result["status"]] + [""] * (len(files) + 10)
    floor, written = floor_ms(result, report), result.get("written", {})
    line.append(f"**{number(mine[1])}**" + left(result) + (" (cl)" if mine[0].endswith("channels_last") else ""))
    line += [file_cell(result, name) for name in files]
    line.append(times(eager / mine[1]) if eager else "—")
    line.append("**" + times(best[1] / mine[1]) + "**" if best else "—")
    line += [number(floor), times(mine[1] / floor) if floor else "—"]
    for key in ("flops", "bytes"):
        line.append(number(written[key] / mine[1] / 1e9) if key in written else "—")
    ratio = error_ratio(result)
    line.append(f"{ratio[0]:.2f}/{ratio[1]:.2f}" if ratio else "—")
    memory = [result["peers"].get(name, {}).get("peak_bytes") for name in ("eager", mine[0])]
    line.append(" → ".join(f"{m / 2**20:.0f}" if m is not None else "—" for m in memory))
    count = [result["peers"].get(name, {}).get("launches") for name in ("eager", mine[0])]
    line.append(" → ".join(str(c) if c is not None else "—" for c in count))
    host = [result["peers"].get(name, {}).get("host_us") for name in ("eager", mine[0])]
    line.append(" → ".join(f"{h:.0f}" if h is not None else "—" for h in host))
    return line


NAMES = {
    "eager": "eager",
    "compile": "compile",
    "eager_benchmark": "cudnn.benchmark",
    "autotune": "max-autotune",
    "graphs": "max-autotune, CUDA graphs",
    "eager_channels_last": "channels_last",
    "compile_channels_last": "compile, channels_last",
    "eager_benchmark_channels_last": "cudnn.benchmark, channels_last",
    "autotune_channels_last": "max-autotune, channels_last",
    "graphs_channels_last": "max-autotune, CUDA graphs, channels_last",
}
FILES = {
    "transfuse_emitted": "file",
    "transfuse_emitted_dtype": "file for its dtype",
    "transfuse_emitted_channels_last": "file, channels_last",
    "transfuse_emitted_dtype_channels_last": "file for its dtype, channels_last",
}
PRECISION = {
    "tf32": "fp32 tensors, both sides allowed TF32 products (PyTorch's default in cuDNN)",
    "fp32": "fp32 tensors, both sides in strict fp32",
    "fp16": "fp16 tensors, both sides accumulate in fp32",
    "bf16": "bf16 tensors, both sides accumulate in fp32",
}


def markdown(report: dict) -> str:
    """One table for each precision, with what was run on what above it."""
    lines = []
    precisions = list(dict.fromkeys(r["precision"] for r in report["rows"]))
    for precision in precisions:
        results = [r for r in report["rows"] if r["precision"] == precision]
        columns = [name for name in NAMES if any(ms(r, name) is not None for r in results)]
        files = [name for name in FILES if any(name in r["peers"] for r in results)]
        peak = report["peaks"].get(precision)
        lines += [heading(report, precision, results), ""]
        head = ["id", "input", "model", *(NAMES[c] for c in columns), "transfuse", *(FILES[f] for f in files), "× eager", "× best PyTorch",
                "floor", "time/floor", "TFLOP/s", "TB/s", "error", "peak MiB", "launches", "host µs"]  # fmt: skip
        body = [cells(r, report, columns, files) for r in results]
        alone = all(pytorch_peers(r) in ([], ["eager"]) for r in results)  # then the best of one is no news
        keep = [
            i
            for i in range(len(head))
            if any(set(row[i]) - set("— →") for row in body) and not (alone and head[i] == "× best PyTorch")
        ]
        lines.append("| " + " | ".join(head[i] for i in keep) + " |")
        lines.append("|" + " --- |" * len(keep))
        lines += ["| " + " | ".join(row[i] for i in keep) + " |" for row in body]
        lines += ["", notes(report, peak, results), ""]
    return "\n".join(lines).rstrip()


def kind(result: dict) -> str:
    what = "forward and backward" if result["backward"] else "forward"
    return what + (", batch 1, one call at a time, host and device together" if result.get("streaming") else "")


def heading(report: dict, precision: str, results: list[dict]) -> str:
    what = kind(results[0])
    versions = report["versions"]
    cuda = f", CUDA {versions['cuda']}, cuDNN {versions['cudnn']}" if report["device_kind"] == "cuda" else ""
    return (
        f"Milliseconds, {what}, {PRECISION[precision]}. {report.get('device', report['device_kind'])}, PyTorch {versions['torch']}{cuda}, "
        f"commit {report['commit']}{' with changes' if report['dirty'] else ''}, {report['date']}.\n`{report['command']}`"
    )


def first_results(results: list[dict]) -> str:
    """What it takes to get ready: from a model to its first result, tracing, compiling and tuning included."""
    medians = {}
    for name, words in {"transfuse": "transfuse", **NAMES}.items():
        seconds = [s for r in results if (s := r["peers"].get(name, {}).get("first_s")) is not None]
        if seconds and not name.startswith("eager"):
            medians[words] = statistics.median(seconds)
    if not medians:
        return ""
    return " From a model to its first result, median: " + ", ".join(f"{w} {s:.1f} s" for w, s in medians.items()) + "."


def notes(report: dict, peak: dict | None, results: list[dict], error: bool = True) -> str:
    text = "*floor*: the larger of flops / peak and compulsory bytes / bandwidth of the chain as written"
    if peak:
        text += f" ({peak['flops'] / 1e12:.3g} TFLOP/s, {peak['bandwidth'] / 1e12:.3g} TB/s; {peak['source']})"
    text += "; algebra can go below it."
    if error:
        text += " *TFLOP/s, TB/s*: those flops and bytes over our time."
    if report.get("queue_filled_ahead") and not results[0].get("streaming"):
        text += " Times are the device's, its queue filled ahead; what a call costs the host is counted apart."
    if error:
        text += " *error*: against float64, ours over eager PyTorch's, rms/worst element."
    if error and any(mine and mine[0].endswith("channels_last") for mine in map(ours, results)):
        text += " *(cl)*: channels_last was the faster of our two."
    if any(map(left, results)):
        text += " *†*: PyTorch's own op was faster in some region and was taken; in brackets ours alone."
    if error and any(name in r["peers"] for r in results for name in FILES):
        text += " *file*: as `transfuse emit` writes it; in brackets its time over transfuse's in the same layout."
    text += first_results(results)
    if gains(results):
        text += " Geometric mean over " + standing(results) + "."
    if without := [f"{r['id']} {', '.join(lost(r))}" for r in results if lost(r)]:
        text += " PyTorch without a time: " + "; ".join(without) + "."
    if missing := left_out(report, results):
        text += " Asked for, and left out by the time limit: " + ", ".join(missing) + "."
    return text


def left_out(report: dict, results: list[dict]) -> list[str]:
    """Rows that were asked for and have no line."""
    done = {r["id"] for r in results}
    return [id for id in report.get("asked", []) if id not in done]


def gains(results: list[dict]) -> list[tuple[float, str]]:
    """How many times faster than the best PyTorch each row is, the least first."""
    return sorted((best_pytorch(r)[1] / ours(r)[1], r["id"]) for r in results if ours(r) and best_pytorch(r))


def against(results: list[dict]) -> str:
    """What was measured beside ours; only with torch.compile among it is it PyTorch's best."""
    tried = {name for r in results for name in pytorch_peers(r)}
    if tried <= {"eager"}:
        return "eager PyTorch"
    compiled = any(name.startswith(("compile", "autotune", "graphs")) for name in tried)
    return "the best PyTorch" if compiled else "PyTorch, the better of eager and channels_last"


def standing(results: list[dict]) -> str:
    found = [gain for gain, _ in gains(results)]
    text = f"{against(results)}: **{statistics.geometric_mean(found):.2f}×** "
    text += f"({len(found)} rows, {sum(g >= 1 for g in found)} not slower"
    missing = len(results) - len(found)
    return text + (f"; {missing} without a right result are not in it)" if missing else ")")


SHORT = {
    name: words.replace("channels_last", "cl").replace("cudnn.benchmark", "benchmark") for name, words in NAMES.items()
}


def brief(report: dict) -> str:
    """The table a first page shows: ours beside eager and the best PyTorch, of the first precision."""
    precision = report["rows"][0]["precision"]
    results = [r for r in report["rows"] if r["precision"] == precision]
    lines = [heading(report, precision, results), ""]
    lines += ["| id | model | eager | best PyTorch | transfuse | × eager | × best | floor |", "|" + " --- |" * 8]
    for result in results:
        mine, best, eager = ours(result), best_pytorch(result), ms(result, "eager")
        line = [f"**{result['id']}**", result["title"].split(" (KernelBench")[0], number(eager)]
        line.append(f"{number(best[1])} {SHORT[best[0]]}" if best else "—")
        if mine:
            line.append(f"**{number(mine[1])}**" + left(result))
            line += [times(eager / mine[1]) if eager else "—", "**" + times(best[1] / mine[1]) + "**" if best else "—"]
        else:
            line += [wrong(result) or result["status"], "", ""]
        lines.append("| " + " | ".join([*line, number(floor_ms(result, report))]) + " |")
    meaning = "*best PyTorch*: with torch.compile, cuDNN's benchmark mode and channels_last (cl) tried. "
    return "\n".join([*lines, "", meaning + notes(report, report["peaks"].get(precision), results, error=False)])


def summary(report: dict) -> list[str]:
    """A run in five cells: rows, PyTorch's best or eager, the geometric mean over it, the least of the rows, commit."""
    results = report["rows"]
    found = gains(results)
    if not found:
        return [str(len(results)), "—", "—", "—", report["commit"]]
    missing = f" of {len(results) + len(late)}" if (late := left_out(report, results)) else ""
    missing += f" ({len(results) - len(found)} without a right result)" if len(found) < len(results) else ""
    mean = statistics.geometric_mean(gain for gain, _ in found)
    least = f"{found[0][1]} {times(found[0][0])}"
    return [f"{len(results)}{missing}", against(results), f"**{mean:.2f}×**", least, report["commit"]]
