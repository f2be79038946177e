"""README and docs: links lead somewhere, generated tables are those of the kept results."""

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
