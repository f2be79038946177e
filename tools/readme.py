"""Fills the generated parts of README.md from the JSON of benchmark runs kept in bench/results.

    python tools/readme.py [--check]

A part begins with `<!-- results: FILE.json [FILE.json …] -->` and ends with `<!-- end -->`; what stands between is replaced by the
tables of those files that exist. With --check nothing is written and a difference is an error. The files come from

    transfuse bench --rows rows --json bench/results/h200-tf32.json
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python" / "transfuse"))

from bench import figures, table  # noqa: E402  (the package itself would load the native library)

NEWEST = "h200-tf32.json"  # the run that is drawn
PART = re.compile(r"(<!-- results: ([^>]*?) -->\n).*?(<!-- end -->)", re.S)
SCALING = re.compile(r"(<!-- scaling: ([^>]*?) -->\n).*?(<!-- end -->)", re.S)


def filled(text: str) -> str:
    def part(match: re.Match) -> str:
        paths = [ROOT / "bench" / "results" / name for name in match[2].split()]
        reports = [json.loads(path.read_text()) for path in paths if path.exists()]
        if not reports:
            return match[0]
        picture = (
            "![Roofline: every model as written and as rewritten](docs/images/roofline.svg)\n\n"
            if paths[0].name == NEWEST
            else ""
        )
        return match[1] + "\n" + "\n\n".join(short(r) for r in reports) + "\n\n" + picture + match[3]

    def plots(match: re.Match) -> str:
        path = ROOT / "bench" / "results" / match[2]
        if not path.exists():
            return match[0]
        report = json.loads(path.read_text())
        where = (
            f"{report['device']}, PyTorch {report['versions']['torch']}, commit {report['commit']}, {report['date']}."
        )
        images = "\n".join(
            f"![{p['title']}, ms against {p['axis']}](images/{path.stem}-{p['name']}.svg)" for p in report["scaling"]
        )
        return f"{match[1]}\n{where}\n`{report['command']}`\n\n{images}\n\n{match[3]}"

    return SCALING.sub(plots, PART.sub(part, text))


def draw() -> None:
    """The pictures that README and docs show."""
    images = ROOT / "docs" / "images"
    drawn = {}
    for path in sorted((ROOT / "bench" / "results").glob("*.json")):
        report = json.loads(path.read_text())
        for plot in report.get("scaling", []):
            series = {name: [tuple(p) for p in points] for name, points in plot["series"].items()}
            drawn[f"{path.stem}-{plot['name']}.svg"] = figures.lines(plot["title"], plot["axis"], series)
        if path.name == NEWEST:
            drawn |= {"roofline.svg": figures.roofline(report), "bars.svg": figures.bars(report)}
    for name, svg in drawn.items():
        images.mkdir(parents=True, exist_ok=True)
        (images / name).write_text(svg)


def short(report: dict) -> str:
    """The table without the columns that only the page needs."""
    lines = table.markdown(report).splitlines()
    drop: set[int] = set()
    out = []
    for line in lines:
        if line.startswith("|"):
            cells = line.strip().strip("|").split("|")
            names = [c.strip() for c in cells]
            if "id" in names:
                drop = {
                    i for i, name in enumerate(names) if name in ("input", "host µs", "launches", "error", "peak MiB")
                }
            line = "|" + "|".join(c for i, c in enumerate(cells) if i not in drop) + "|"
        out.append(re.sub(r" \*error\*: [^.]*\.", "", line))  # its column is not shown
    return "\n".join(out)


def main() -> int:
    changed = []
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        before = path.read_text()
        after = filled(before)
        if after != before:
            changed.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(after)
    if "--check" not in sys.argv:
        draw()
    print("changed: " + (", ".join(changed) or "nothing"))
    return 1 if changed and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
