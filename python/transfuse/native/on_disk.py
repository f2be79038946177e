"""What was found out once and holds for other processes: files of JSON lines beside the kernels (src/cuda/runtime/cache.cpp)."""

from __future__ import annotations

import functools
import json
import os
import threading
from pathlib import Path

import torch

_lock = threading.Lock()


def find(name: str, question: str):
    """What was kept under a question, or None."""
    return _kept(_file(name)).get(question)


def keep(name: str, question: str, found) -> None:
    """For later processes: this one remembers by itself."""
    file = _file(name)
    if file is None:
        return
    try:
        with _lock:
            file.parent.mkdir(parents=True, exist_ok=True)
            # One write of one line: other processes append as well.
            with open(file, "ab", buffering=0) as out:
                out.write((json.dumps([question, found]) + "\n").encode())
    except OSError:
        return


def forget() -> None:
    """What this process has read."""
    _kept.cache_clear()


def machine(device: torch.device) -> str:
    """What a time or a choice of a library holds for: the device and the versions."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{device.type} {torch.get_num_threads()}"
    return f"{name} {torch.__version__} {torch.backends.cudnn.version()}"


def _file(name: str) -> Path | None:
    """None where the folder is named empty."""
    folder = os.environ.get("TRANSFUSE_CACHE_DIR")
    if folder is None:
        above = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(above, "transfuse")
    return Path(folder) / f"{name}.jsonl" if folder else None


@functools.cache
def _kept(file: Path | None) -> dict:
    """A line for each question. What cannot be read was not kept."""
    found = {}
    try:
        lines = file.read_text().splitlines() if file else []
    except (OSError, UnicodeDecodeError):
        return {}
    for line in lines:
        try:
            question, answer = json.loads(line)
            found[question] = answer
        except (ValueError, TypeError):
            continue
    return found
