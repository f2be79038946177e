"""`make demo`: the four seed models: derivation, equality, speed on this machine, in about a minute."""

from __future__ import annotations

import sys

from . import table
from .driver import jobs, parser
from .processes import measured


def sentence_of(result: dict) -> str:
    mine, eager = table.ours(result), table.ms(result, "eager")
    if mine is None or eager is None:
        return table.wrong(result) or result["status"]
    rms = [max(e["rms"] for e in result["peers"][name]["error"]) for name in (mine[0], "eager")]
    speed = (
        f"eager PyTorch {table.number(eager)} ms, transfuse {table.number(mine[1])} ms: {table.times(eager / mine[1])}"
    )
    return f"equal: rms error against float64 {rms[0]:.1e}, PyTorch's own {rms[1]:.1e}\nspeed: {speed}"


def short(text: str) -> str:
    """The graph as written, the steps, and one line a pass; the graph at the end is left to `transfuse explain`."""
    head, _, rest = text.partition("\nRewritten:")
    return (
        head.rstrip() + "\n\n" + "\n".join(line for line in rest.splitlines() if line.startswith(("plan ", "pass ")))
    ).strip()


def saved(result: dict) -> str:
    lines = []
    for what in ("flops", "bytes"):
        before, after = result.get(f"{what}_before"), result.get(f"{what}_after")
        if before and after and before > 1.01 * after:
            lines.append(f"{what}: {before:.3g} as written, {after:.3g} as rewritten: {before / after:.4g}× fewer")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    small = [] if device == "cuda" else ["--seconds", "4"]
    options = parser().parse_args(["--rows", "seeds", "--peers", "none", "--rounds", "9", *small, *arguments])
    work = jobs(options, device)
    results = []
    for (row, _), result in zip(work, measured(work, options, {"device_kind": device})):
        results.append(result)
        shape = "×".join(map(str, result.get("inputs", [[]])[0]))
        print(f"━━ {row.id}: {result['title']}, input {shape}")
        for text in (
            short(result.get("derivation", "")) or result.get("derivation_error", ""),
            saved(result),
            sentence_of(result),
        ):
            if text:
                print(text.rstrip())
        print(flush=True)
    where = "this GPU" if device == "cuda" else f"this CPU ({torch.get_num_threads()} threads), batch cut as shown"
    print(f"Forward, {table.PRECISION[work[0][1]['precision']]}, {where}:")
    for result in results:
        print("  " + table.one_line(result))
    print(
        "`transfuse explain bench/models/A.py` shows the graphs and plans in full, `make bench` every model beside torch.compile."
    )
    return 0 if all(table.ours(r) for r in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
