"""README and docs: links lead somewhere, generated tables are those of the kept results; rooms and modules depend in one direction."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_named_source_files_exist(page):
    for path in re.findall(
        r"`((?:src|include|tests|python|bench|tools|examples|docs|cmake)/[\w./-]+\.\w+)`", page.read_text()
    ):
        assert (ROOT / path).exists(), f"{page.name} names {path}"


def test_every_picture_is_shown_somewhere():
    shown = "".join(page.read_text() for page in PAGES)
    assert [p.name for p in (ROOT / "docs" / "images").iterdir() if f"images/{p.name}" not in shown] == []


def test_every_field_of_a_machine_is_explained():
    header, page = ((ROOT / path).read_text() for path in ("include/transfuse/plan.h", "docs/design/plan.md"))
    body = re.search(r"struct Machine \{(.*?)static Machine", header, re.S)[1]
    fields = re.findall(r"^\s*[\w:]+ (\w+)(?: = [^;]+)?;", body, re.M)
    assert "flops" in fields and len(fields) > 10
    assert [f for f in fields if f != "name" and f"`{f}`" not in page] == []


def test_every_room_of_the_cuda_engine_is_explained():
    page = (ROOT / "docs/design/cuda.md").read_text()
    rooms = [folder for folder in (ROOT / "src/cuda").rglob("*") if folder.is_dir() and any(folder.glob("*.*"))]
    assert len(rooms) >= 3
    assert [room.name for room in rooms if f"{room.name}/`" not in page] == []


GENERATED = re.compile(r"<!-- \w+: .*?<!-- end -->", re.S)
CODE = re.compile(r"```.*?```|(?:^ {4}.*\n)+", re.S | re.M)
FIGURE = re.compile(r"(?<![\w.])\d[\d.,]*\s?(?:ms|µs|us|s|GB/s|TB/s|G?T?FLOP/s|MB|KB|MiB|%|×|times)(?![\w/])")
COMMAND = re.compile(
    r"`(?:transfuse|gpu_check|build/|python3? |make |PYTHONPATH|tools/|tests/|sh |ctest|cmake|cuda_\w+_test)[^`]*`"
)


def bare_figures(text):
    """Paragraphs with a measured figure and no command that gives it."""
    for paragraph in re.split(r"\n\s*\n", CODE.sub("", GENERATED.sub("", text))):
        if FIGURE.search(paragraph) and not COMMAND.search(paragraph):
            yield paragraph


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda p: p.name)
def test_every_figure_has_its_command_beside_it(page):
    assert not list(bare_figures(page.read_text()))


def test_a_figure_without_a_command_is_seen():
    assert list(bare_figures("Some text.\n\nRow D takes 1.4 ms on an H200.\n"))
    assert not list(
        bare_figures("Row D takes 1.4 ms (`transfuse bench --rows D`).\n\n    2.0 ms of code\n\nFour words.\n")
    )


@pytest.mark.parametrize("kept", sorted((ROOT / "bench" / "results").glob("*.json")), ids=lambda p: p.name)
def test_kept_results_say_how_they_were_made(kept):
    report = json.loads(kept.read_text())
    assert report["command"] and report["commit"] and report["date"]
    if (page := kept.with_suffix(".md")).exists():
        assert report["command"] in page.read_text(), f"{page.name} does not name its command"


def test_generated_tables_are_up_to_date():
    run = subprocess.run([sys.executable, ROOT / "tools" / "readme.py", "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


# A room may include what stands before it; rooms of one line know nothing of each other.
ROOMS = [{"graph"}, {"algebra"}, {"plan"}, {"reference", "cpu", "cuda"}, {"emit"}, {"program"}, {"cli", "torch"}]


def test_rooms_depend_in_one_direction():
    order = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
    files = [f for f in (ROOT / "src").rglob("*") if f.suffix in (".h", ".cpp")]
    assert len(files) > 200 and {f.relative_to(ROOT / "src").parts[0] for f in files} == set(order)
    for file in files:
        own = file.relative_to(ROOT / "src").parts[0]
        for room in re.findall(r'^#include "(\w+)/', file.read_text(), re.M):
            if room != "transfuse":
                assert room == own or order[room] < order[own], f"{file.relative_to(ROOT)} includes {room}"
