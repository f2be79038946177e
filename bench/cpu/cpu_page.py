"""A run of compare.py as a page, from its JSON alone."""

import math

PLAIN = {"D", "d1", "d2", "d3", "d4", "d5", "d6"}
PEERS = ["eager", "channels_last", "compile", "openvino"]


def geomean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def fastest(row):
    """How many times faster than the fastest of the others."""
    return min(row["pytorch_ms"].values()) / row["transfuse"]["milliseconds"]


def of_eager(row):
    return row["pytorch_ms"].get("eager", math.nan) / row["transfuse"]["milliseconds"]


def markdown(head, body):
    return ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *("| " + " | ".join(c) + " |" for c in body)]


def own_cells(own, peak):
    """What our side of a row did: time, flops, bytes."""
    executed = own["gflops_executed"]
    return [f"{own['milliseconds']:.3f}", f"{own['gflops_written']:.0f}", f"{own['gflops_run']:.0f}", f"{executed:.0f}",
            f"{100 * executed / peak['multiply_add_gflops']:.0f} %", f"{own['gbytes_run']:.0f}"]  # fmt: skip


OWN = ["transfuse, ms", "GFLOP/s as written", "as rewritten", "executed", "of peak", "GB/s"]


def beside_pytorch(run):
    columns = [c for c in PEERS if any(c in row["pytorch_ms"] for row in run["rows"].values())]
    body = []
    for name, row in run["rows"].items():
        times = row["pytorch_ms"]
        body.append([name, *[f"{times[c]:.1f}" if c in times else "—" for c in columns], *own_cells(row["transfuse"], run["peak"]),
                     f"{fastest(row):.2f}", f"{of_eager(row):.2f}"])  # fmt: skip
    return markdown(["row", *[f"{c}, ms" for c in columns], *OWN, "× the fastest", "× eager"], body)


def means(rows):
    plain = [row for name, row in rows.items() if name in PLAIN]
    least = min(rows, key=lambda name: fastest(rows[name]))
    text = f"Geometric means: {len(rows)} rows {geomean([fastest(r) for r in rows.values()]):.2f} to the fastest"
    if plain:
        text += f"; plain convolutions {geomean([fastest(r) for r in plain]):.2f}, to eager {geomean([of_eager(r) for r in plain]):.2f}"
    return text + f". The least of all: {least}, {fastest(rows[least]):.2f}."


def peak_words(peak):
    return (
        f"{peak['multiply_add_gflops']:.0f} GFLOP/s of multiply-adds in registers, {peak['product_gflops']:.0f} by the product kernel "
        f"from the first-level cache, {peak['read_gbytes']:.0f} GB/s read from memory"
    )


CLOCKS = {
    "wall": "the clock on the wall",
    "processor time / threads": "processor time of all threads divided by their number, since others used the machine",
}


def page(run):
    words = (
        f"Milliseconds, forward, fp32, batch {run['batch']}, {run['threads']} threads, by {CLOCKS[run['clock']]}; "
        f"the best of several calls. {run['machine']}, load {run['load']:.0f}, level {run['peak']['level']}, "
        f"PyTorch {run['pytorch']}, commit {run['commit']}, {run['date']}.\n`{run['command']}`"
    )
    meaning = (
        f"The machine's peak in the same run: {peak_words(run['peak'])}. *executed*: multiply-adds that are carried out, of "
        "which pairs of rows and planes need fewer than the direct sum; *of peak*: of the multiply-adds in registers. "
        "—: not measured, as it takes minutes."
    )
    lines = [words, "", *beside_pytorch(run), "", meaning + " " + means(run["rows"])]
    if missing := [name for name in run.get("asked", []) if name not in run["rows"]]:
        lines += ["", "Rows that were asked for and did not get done: " + ", ".join(missing) + "."]
    if alone := run.get("one_thread"):
        lines += ["", f"## One thread\n\n{peak_words(alone['peak'])}.\n`{alone['command']}`", ""]
        lines += markdown(["row", *OWN], [[n, *own_cells(o, alone["peak"])] for n, o in alone["rows"].items()])
    lines += [line for note in run.get("notes", []) for line in ("", note)]
    return "\n".join(lines) + "\n"
