"""`make demo`: the four seed models: derivation, equality, speed on this machine, in about a minute."""

from __future__ import annotations

import sys

from . import table
from .driver import jobs, parser
from .session import Progress, Worker, measure


def sentence_of(result: dict) -> str:
    mine, eager, ratio = table.ours(result), table.ms(result, "eager"), table.error_ratio(result)
    if mine is None:
        return table.wrong(result) or result["status"]
    same = f"error against float64 {ratio[0]:.2f} times PyTorch's own (rms)" if ratio else "not checked"
    speed = (
        f"eager PyTorch {table.number(eager)} ms, transfuse {table.number(mine[1])} ms: {table.times(eager / mine[1])}"
    )
    return f"equal: {same}\nspeed: {speed}"


def saved(result: dict) -> str:
    lines = []
    for what in ("flops", "bytes"):
        before, after = result.get(f"{what}_before"), result.get(f"{what}_after")
        if before and after:
            lines.append(f"{what}: {before:.3g} as written, {after:.3g} as rewritten: {before / after:.4g}× fewer")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    small = [] if device == "cuda" else ["--batch-divisor", "8", "--seconds", "4"]
    options = parser().parse_args(["--rows", "seeds", "--peers", "none", "--rounds", "9", *small, *arguments])
    work = jobs(options, device)
    report = {"peaks": {}, "rows": []}
    progress, worker = Progress(len(work)), None
    for index, (row, job) in enumerate(work):
        if worker is None or not worker.alive():
            worker = Worker()
        result = measure(
            row, job, worker, report, lambda step, i=index, r=row: progress.show(i, r.id, step), options.row_limit
        )
        report["rows"].append(result)
        progress.line("")
        shape = "×".join(map(str, result.get("inputs", [[]])[0]))
        print(f"━━ {row.id}: {result['title']}, input {shape}")
        for text in (
            result.get("derivation") or result.get("derivation_error", ""),
            saved(result),
            sentence_of(result),
        ):
            if text:
                print(text.rstrip())
        print(flush=True)
    if worker is not None:
        worker.stop()
    where = "this GPU" if device == "cuda" else f"this CPU ({torch.get_num_threads()} threads), batch cut to 1/8"
    print(f"Forward, {table.PRECISION[work[0][1]['precision']]}, {where}:")
    for result in report["rows"]:
        print("  " + table.one_line(result))
    return 0 if all(table.ours(r) for r in report["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
