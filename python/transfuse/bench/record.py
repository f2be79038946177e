"""What a run writes down of itself: the command, the commit, the versions; and how its JSON is written."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from pathlib import Path


def command(arguments: list[str]) -> str:
    """What to type to measure the same again: everything but where the results went."""
    words, skip = ["transfuse", "bench"], False
    for word in arguments:
        if not skip and not word.startswith(("--json=", "--table=")) and word not in ("--json", "--table"):
            words.append(word)
        skip = word in ("--json", "--table")
    return " ".join(words)


def environment(arguments: list[str], device: str) -> dict:
    import torch

    def git(*words: str) -> str:
        try:
            here = Path(__file__).resolve().parent
            return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, timeout=10).stdout.strip()
        except OSError:
            return ""

    told = os.environ.get("TRANSFUSE_COMMIT", "")
    return {
        # a copy of the tree on another machine is told which commit it is
        "commit": told or git("rev-parse", "--short=12", "HEAD"),
        "dirty": not told and bool(git("status", "--porcelain", "--untracked-files=no")),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "command": command(arguments),
        "device_kind": device,
        "queue_filled_ahead": device == "cuda",  # runs of old were not timed so
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None,
        },
    }


def write(path: Path, text: str, who: str = "bench") -> None:
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text)
        partial.replace(path)
    except OSError as problem:
        raise SystemExit(f"{who}: {path} cannot be written: {problem.strerror}") from None


def read(path: Path, who: str) -> dict:
    """The result of a run."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise SystemExit(f"{who}: {path} is not a result of transfuse bench --json: {problem}") from None
    if not isinstance(found, dict) or not isinstance(found.get("rows", found.get("scaling")), list):
        raise SystemExit(f"{who}: {path} is not a result of transfuse bench --json: it has no list of rows")
    return found
