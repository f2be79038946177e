"""README and docs: links lead somewhere, generated tables are those of the kept results; the package has one direction of dependency."""

import ast
import graphlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


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


def test_generated_tables_are_up_to_date():
    run = subprocess.run([sys.executable, ROOT / "tools" / "readme.py", "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def imported(file: Path) -> set[str]:
    """The modules of the package that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "transfuse":
            inner = node.module.removeprefix("transfuse").lstrip(".").replace(".", "/")
            found |= {inner} if inner else {alias.name for alias in node.names}
    return found


def test_modules_depend_in_one_direction():
    package = ROOT / "python" / "transfuse"
    files = {file.stem: file for file in package.glob("*.py") if not file.stem.startswith("__")}
    graph = {name: imported(file) & set(files) for name, file in files.items()}
    assert len(graph) > 20 and "regions" in graph["optimize"]
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError with the circle
