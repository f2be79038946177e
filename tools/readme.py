"""Fills the generated parts of README.md and docs from the JSON of benchmark runs kept in bench/results, and writes their tables.

    python tools/readme.py [--check]

A part begins with `<!-- results: FILE.json -->`, `<!-- summaries: FILE.json … -->` or `<!-- scaling: FILE.json -->` and ends with
`<!-- end -->`; what stands between is replaced by a table, a line for each run, or the plots of those files that exist. The whole
tables are bench/results/FILE.md. With --check nothing is written and a difference is an error. The files come from

    transfuse bench --rows rows --json bench/results/h200-tf32.json
"""

import json
import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python" / "transfuse"), str(ROOT / "bench" / "cpu")]

import cpu_page  # noqa: E402
from bench import figures, table  # noqa: E402  (the package itself would load the native library)

NEWEST = "h200-tf32.json"  # the run that is drawn
RESULTS = ROOT / "bench" / "results"
PART = re.compile(r"(<!-- (results|summaries|scaling): ([^>]*?) -->\n).*?(<!-- end -->)", re.S)


def filled(text: str) -> str:
    def part(match: re.Match) -> str:
        paths = [RESULTS / name for name in match[3].split() if (RESULTS / name).exists()]
        if not paths:
            return match[0]
        return f"{match[1]}\n{SORTS[match[2]](paths)}\n\n{match[4]}"

    return PART.sub(part, text)


def load(path: Path) -> dict:
    return json.loads(path.read_text())


def results(paths: list[Path]) -> str:
    picture = "![Roofline: every model as written and as rewritten](docs/images/roofline.svg)"
    return "\n\n".join([table.brief(load(paths[0])), *([picture] if paths[0].name == NEWEST else [])])


RUNS = {
    "fp16": "fp16",
    "bf16": "bf16",
    "fp32": "strict fp32",
    "backward": "forward and backward, TF32",
    "whole": "whole models",
    "streaming": "batch 1, one call at a time",
    "kernelbench": "KernelBench, every transposed convolution",
    "unseen": "other models than the rows",
}


def processors(report: dict, architecture: str) -> list[str]:
    """The same of a run of bench/cpu/compare.py."""
    ratios = sorted((cpu_page.fastest(row), id) for id, row in report["rows"].items())
    peers = dict.fromkeys(peer for r in report["rows"].values() for peer in r["pytorch_ms"])
    mean = statistics.geometric_mean(ratio for ratio, _ in ratios)
    return [f"{report['threads']} {architecture} cores, fp32, batch/8", str(len(ratios)), "the best of " + ", ".join(peers),
            f"**{mean:.2f}×**", f"{ratios[0][1]} {table.times(ratios[0][0])}", report["commit"]]  # fmt: skip


def summaries(paths: list[Path]) -> str:
    lines = ["| run | rows | against | times faster, geometric mean | least | commit | |", "|" + " --- |" * 7]
    for path in paths:
        kind, report = path.stem.split("-", 1)[1], load(path)
        cells = processors(report, kind) if path.stem.startswith("cpu-") else [RUNS[kind], *table.summary(report)]
        lines.append("| " + " | ".join(cells) + f" | [table and command](bench/results/{path.stem}.md) |")
    return "\n".join(lines)


def scaling(paths: list[Path]) -> str:
    report = load(paths[0])
    where = f"{report['device']}, PyTorch {report['versions']['torch']}, commit {report['commit']}, {report['date']}."
    images = "\n".join(
        f"![{p['title']}, ms against {p['axis']}](images/{paths[0].stem}-{p['name']}.svg)"
        for p in report["scaling"]
        if p["series"]
    )
    return f"{where}\n`{report['command']}`\n\n{images}"


SORTS = {"results": results, "summaries": summaries, "scaling": scaling}


def pages() -> dict[Path, str]:
    """Every generated page and what should stand in it."""
    texts = {path: filled(path.read_text()) for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
    for path in sorted(RESULTS.glob("*.json")):
        if (report := load(path)).get("rows") and "peaks" in report:  # a run of `transfuse bench`
            texts[path.with_suffix(".md")] = table.markdown(report) + "\n"
        elif "pytorch" in report:  # of bench/cpu/compare.py
            texts[path.with_suffix(".md")] = cpu_page.page(report)
    return texts


def draw() -> None:
    """The pictures that README and docs show."""
    images = ROOT / "docs" / "images"
    drawn = {}
    for path in sorted(RESULTS.glob("*.json")):
        report = load(path)
        for plot in report.get("scaling", []):
            if not plot["series"]:  # the run was cut before it
                continue
            series = {name: [tuple(p) for p in points] for name, points in plot["series"].items()}
            drawn[f"{path.stem}-{plot['name']}.svg"] = figures.lines(plot["title"], plot["axis"], series)
        if path.name == NEWEST:
            drawn["roofline.svg"] = figures.roofline(report)
    for name, svg in drawn.items():
        images.mkdir(parents=True, exist_ok=True)
        (images / name).write_text(svg)


def main() -> int:
    changed = []
    for path, text in pages().items():
        if not path.exists() or path.read_text() != text:
            changed.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(text)
    if "--check" not in sys.argv:
        draw()
    print("changed: " + (", ".join(changed) or "nothing"))
    return 1 if changed and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
