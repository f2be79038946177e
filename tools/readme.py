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

    return PART.sub(part, text)


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
    newest = ROOT / "bench" / "results" / NEWEST
    if newest.exists() and "--check" not in sys.argv:
        report = json.loads(newest.read_text())
        (ROOT / "docs" / "images").mkdir(parents=True, exist_ok=True)
        (ROOT / "docs" / "images" / "roofline.svg").write_text(figures.roofline(report))
        (ROOT / "docs" / "images" / "bars.svg").write_text(figures.bars(report))
    print("changed: " + (", ".join(changed) or "nothing"))
    return 1 if changed and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
