"""`transfuse report`: one self-contained HTML page from the JSON of a run. It loads nothing, works offline and on a phone."""

from __future__ import annotations

import argparse
from html import escape
from pathlib import Path

from . import figures, table
from .floors import floor_ms
from .record import read, write

STYLE = """
:root { --ink: #1f2933; --faint: #616e7c; --paper: #ffffff; --card: #f5f7fa; --line: #d9dee4; --ours: #c53030; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --faint: #9aa5b1; --paper: #14181d; --card: #1f252c; --line: #323b45; --ours: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1100px; padding: 16px; color: var(--ink); background: var(--paper);
       font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
h1 { font-size: 1.5rem; margin: 0.4em 0 0.1em; } h2 { font-size: 1.15rem; margin: 1.8em 0 0.5em; }
p, .meta { color: var(--faint); margin: 0.3em 0; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, monospace; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; font-size: 0.85rem; white-space: nowrap; width: 100%; }
th, td { padding: 5px 9px; text-align: right; border-bottom: 1px solid var(--line); }
th { color: var(--faint); font-weight: 600; }
td:first-child, th:first-child { text-align: left; position: sticky; left: 0; background: var(--paper); }
td.left, th.left { text-align: left; } td.ours { color: var(--ours); font-weight: 600; }
td.note { text-align: left; color: var(--ours); white-space: normal; min-width: 16em; }
figure { margin: 12px 0; } svg { width: 100%; height: auto; display: block; border-radius: 6px; }
.pair > :only-child { max-width: 560px; }
.pair { display: grid; align-items: start; gap: 12px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 340px), 1fr)); }
details { border: 1px solid var(--line); border-radius: 6px; margin: 8px 0; background: var(--card); }
summary { cursor: pointer; padding: 8px 12px; } summary b { margin-right: 0.5em; } summary span { color: var(--faint); }
details > div { padding: 0 12px 10px; }
pre { overflow-x: auto; font-size: 0.75rem; line-height: 1.45; background: var(--paper); padding: 10px; border-radius: 6px; }
"""


def cell(words, kind="") -> str:
    return f"<td{f' class={kind!r}' if kind else ''}>{escape(str(words))}</td>".replace("'", '"')


def results_table(report: dict, precision: str) -> str:
    results = [r for r in report["rows"] if r["precision"] == precision]
    columns = [name for name in table.NAMES if any(table.ms(r, name) is not None for r in results)]
    # Ours first: on a phone the first columns are what one sees.
    launches = any(p.get("launches") is not None for r in results for p in r["peers"].values())
    head = ["id", "transfuse", "× eager", "× best", *(table.NAMES[c] for c in columns), "floor", "error", "peak MiB"]
    head += ["launches", "host µs", "model"] if launches else ["model"]
    rows = []
    for r in results:
        mine, best, eager = table.ours(r), table.best_pytorch(r), table.ms(r, "eager")
        peers = [cell(table.number(table.ms(r, c))) for c in columns]
        title = r["title"]
        if mine:
            ratio, side = table.error_ratio(r), [r["peers"].get(n, {}) for n in ("eager", mine[0])]
            line = [
                cell(table.number(mine[1]) + table.left(r), "ours"),
                cell(table.times(eager / mine[1] if eager else None)),
                cell(table.times(best[1] / mine[1] if best else None), "ours"),
                *peers,
                cell(table.number(floor_ms(r, report))),
                cell(f"{ratio[0]:.2f}/{ratio[1]:.2f}" if ratio else "—"),
                cell(
                    " → ".join("—" if s.get("peak_bytes") is None else f"{s['peak_bytes'] / 2**20:.0f}" for s in side)
                ),
            ]
            if launches:
                line += [
                    cell(" → ".join("—" if s.get(key) is None else f"{s[key]:.0f}" for s in side))
                    for key in ("launches", "host_us")
                ]
        else:
            problem = table.wrong(r) or (r["status"] if r["status"] != "ok" else "not measured")
            short, _, why = problem.partition(": ")
            title += f" ({why})" if why else ""
            line = [f'<td class="note" colspan="3">{escape(short)}</td>', *peers, *[cell("")] * (5 if launches else 3)]
        rows.append("<tr>" + "".join([cell(r["id"]), *line]) + cell(title, "left") + "</tr>")
    header = "".join(f"<th{' class=left' if h == 'model' else ''}>{escape(h)}</th>" for h in head)
    return f'<div class="scroll"><table><thead><tr>{header}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def saved(result: dict, what: str) -> str | None:
    before, after = result.get(f"{what}_before"), result.get(f"{what}_after")
    if not before or not after:
        return None
    return (
        f"{what} {figures.unit(before, '').strip()} → {figures.unit(after, '').strip()} ({before / after:.3g}× fewer)"
    )


def model_section(result: dict) -> str:
    """A model's derivation step by step and its plan, folded until asked for."""
    mine, best = table.ours(result), table.best_pytorch(result)
    gain = (
        f"{table.times(best[1] / mine[1])} the best PyTorch"
        if mine and best
        else (table.wrong(result) or result["status"])
    )
    body = [f"<p>{escape(', '.join(filter(None, (saved(result, 'flops'), saved(result, 'bytes')))))}</p>"]
    if report := result["peers"].get("transfuse", {}).get("report"):
        body.append(f"<p>What was taken</p><pre>{escape(report)}</pre>")
    if text := result.get("derivation"):
        body.append(f"<p>Derivation</p><pre>{escape(text)}</pre>")
    elif problem := result.get("derivation_error"):
        body.append(f"<p>No derivation: {escape(problem)}</p>")
    if text := result.get("plan"):
        body.append(f"<p>Plan</p><pre>{escape(text)}</pre>")
    inside = "".join(body)
    return (
        f'<details id="model-{escape(result["id"])}"><summary><b>{escape(result["id"])}</b>{escape(result["title"])} '
        f"<span>{escape(gain)}</span></summary><div>{inside}</div></details>"
    )


def page(reports: list[dict]) -> str:
    """The whole page; the newest run first, further runs (other precisions, backward, scaling) after it."""
    sections = []
    for report in reports:
        if "scaling" in report:
            plots = "".join(f"<figure>{svg}</figure>" for svg in scaling_figures(report))
            sections.append(f'<h2>How time grows</h2>{meta(report)}<div class="pair">{plots}</div>')
            continue
        for precision in dict.fromkeys(r["precision"] for r in report["rows"]):
            rows = [r for r in report["rows"] if r["precision"] == precision]
            what = table.kind(rows[0])
            sections.append(
                f"<h2>{escape(what[0].upper() + what[1:])}, {escape(table.PRECISION[precision])}</h2>{meta(report)}"
            )
            sections.append(results_table(report, precision))
            sections.append(
                f"<p>{escape(table.notes(report, report['peaks'].get(precision), rows).replace('*', ''))}</p>"
            )
            if precision in report["peaks"]:
                drawn = [figures.bars(report, precision)]
                if any(map(figures.points, rows)):
                    drawn.append(figures.roofline(report, precision))
                sections.append('<div class="pair">' + "".join(f"<figure>{svg}</figure>" for svg in drawn) + "</div>")
    shown: dict[str, dict] = {}
    for report in reports:
        for result in report.get("rows", []):
            shown.setdefault(result["id"], result)
    models = "".join(model_section(r) for r in shown.values())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Transfuse: side by side</title><style>{STYLE}</style></head><body><h1>Transfuse, side by side with PyTorch</h1>"
        + "".join(sections)
        + (f"<h2>Model by model</h2>{models}" if models else "")
        + "</body></html>"
    )


def meta(report: dict) -> str:
    versions = report["versions"]
    cuda = f", CUDA {versions['cuda']}, cuDNN {versions['cudnn']}" if report.get("device_kind") == "cuda" else ""
    changes = " with changes" if report.get("dirty") else ""
    return (
        f'<p class="meta">{escape(report.get("device", ""))}, PyTorch {escape(versions["torch"])}{cuda}, '
        f"commit {escape(report['commit'])}{changes}, {escape(report['date'])}<br><code>{escape(report['command'])}</code></p>"
    )


def scaling_figures(report: dict) -> list[str]:
    return [
        figures.lines(plot["title"], plot["axis"], {k: [tuple(p) for p in v] for k, v in plot["series"].items()})
        for plot in report["scaling"]
        if plot["series"]  # else the run was cut before it
    ]


def main(arguments: list[str]) -> int:
    p = argparse.ArgumentParser(
        prog="transfuse report", description="One HTML page from the JSON of `transfuse bench --json`."
    )
    p.add_argument("json", nargs="+", type=Path, help="results, the most important first")
    p.add_argument("-o", "--output", type=Path, default=Path("out/report.html"))
    p.add_argument(
        "--figures",
        type=Path,
        help="also write roofline.svg, bars.svg and scaling-*.svg of the first file into this folder",
    )
    options = p.parse_args(arguments)
    reports = [read(path, "report") for path in options.json]
    write(options.output, page(reports), "report")
    print(f"wrote {options.output}")
    if options.figures:
        options.figures.mkdir(parents=True, exist_ok=True)
        for report in reports:
            if "scaling" in report:
                drawn = {
                    f"scaling-{plot['name']}.svg": svg for plot, svg in zip(report["scaling"], scaling_figures(report))
                }
            elif report is next(r for r in reports if "scaling" not in r):
                drawn = {"roofline.svg": figures.roofline(report), "bars.svg": figures.bars(report)}
            else:
                continue
            for name, svg in drawn.items():
                (options.figures / name).write_text(svg)
                print(f"wrote {options.figures / name}")
    return 0
