"""The models to measure: files with `Model`, `get_init_inputs()` and `get_inputs()`."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

import torch

SEEDS = ("A", "B", "C", "D")


@dataclass(frozen=True)
class Row:
    id: str
    path: str


def models_folder() -> Path:
    """bench/models of the source tree, beside python/; an installed package needs --models."""
    return Path(__file__).resolve().parents[3] / "bench" / "models"


def _order(name: str):
    """A B C D, d1 … d6, f1 … f12, then whole models by name."""
    if name in SEEDS:
        return (0, name, 0)
    numbered = re.fullmatch(r"([a-z])(\d+)", name)
    return (1, numbered[1], int(numbered[2])) if numbered else (2, name, 0)


def find_rows(wanted: list[str] | None = None, folder: Path | None = None) -> list[Row]:
    """The rows asked for: ids, groups (`seeds`, `d`, `f`, `whole`, `all`) or paths of reference files."""
    folder = folder or models_folder()
    known = sorted((p.stem for p in folder.glob("*.py") if not p.stem.startswith("_")), key=_order)
    groups = {
        "all": known,
        "seeds": [k for k in known if k in SEEDS],
        "d": [k for k in known if re.fullmatch(r"d\d+", k)],
        "f": [k for k in known if re.fullmatch(r"f\d+", k)],
        "rows": [k for k in known if _order(k)[0] < 2],
        "whole": [k for k in known if _order(k)[0] == 2],
    }
    chosen: dict[str, Row] = {}
    for name in wanted or ["all"]:
        if name.endswith(".py"):
            if not Path(name).is_file():
                raise SystemExit(f"bench: there is no model file {name}")
            chosen[Path(name).stem] = Row(Path(name).stem, str(Path(name).resolve()))
            continue
        for id in groups.get(name, [name]):
            if id not in known:
                raise SystemExit(f"bench: unknown row {id!r}; known: {', '.join(known) or f'none in {folder}'}")
            chosen[id] = Row(id, str(folder / f"{id}.py"))
    return list(chosen.values())


def imported(path: str):
    spec = importlib.util.spec_from_file_location(f"transfuse_row_{Path(path).stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load(path: str):
    module = imported(path)
    for name in ("Model", "get_init_inputs", "get_inputs"):
        if not hasattr(module, name):
            raise ValueError(f"{path} has no {name}; a model file defines Model, get_init_inputs() and get_inputs()")
    return module


def constructed(model, init):
    return model(**init) if isinstance(init, dict) else model(*init)


def build(
    path: str,
    device: str,
    seed: int = 0,
    batch_divisor: int = 1,
    batch: int | None = None,
    overrides: dict | None = None,
):
    """Model and inputs on the device. The batch is cut through the file's `batch_size` if it has one, else by slicing; `overrides`
    set other names of the file (`height`, `in_channels`, …) before they are used."""
    module = load(path)
    for name, value in (overrides or {}).items():
        if not hasattr(module, name):
            raise ValueError(f"{path} has no {name} to set")
        setattr(module, name, value)
    size = getattr(module, "batch_size", None)
    if size is not None:
        module.batch_size = batch or max(1, size // batch_divisor)
    with torch.device(device):
        torch.manual_seed(seed)
        init = module.get_init_inputs()
        model = constructed(module.Model, init)
        torch.manual_seed(seed + 1)
        inputs = module.get_inputs()
    if size is None and (batch or batch_divisor > 1):
        inputs = [cut(t, batch, batch_divisor) if isinstance(t, torch.Tensor) else t for t in inputs]
    return model, [t.to(device) if isinstance(t, torch.Tensor) else t for t in inputs]


def cut(tensor: torch.Tensor, batch: int | None, divisor: int) -> torch.Tensor:
    return tensor[: batch or max(1, tensor.shape[0] // divisor)].clone() if tensor.dim() else tensor


def title(path: str) -> str:
    """The first line of the file's docstring: what the row is."""
    first = re.search(r'"""(.*?)(\n|""")', Path(path).read_text(), re.S)
    return first[1].strip() if first else Path(path).stem
