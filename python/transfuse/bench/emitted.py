"""A row as its emitted file: ModelNew with the model's parameters."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import torch

from . import rows


@functools.lru_cache(maxsize=4)
def _text(path: str, device: str, dtype: str) -> str:
    """Written once for both layouts of memory."""
    from transfuse.emit import emit

    return emit(path, device, dtype)


def emitted(path: str, model: torch.nn.Module, for_dtype: bool) -> torch.nn.Module:
    """The file as `transfuse emit` writes it; for_dtype: as `--dtype` does for what the model has."""
    like = next(model.parameters())
    text = _text(path, like.device.type, str(like.dtype).removeprefix("torch.") if for_dtype else "float32")
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / f"{Path(path).stem}_new.py"
        written.write_text(text)
        made = rows.imported(str(written))
    new = rows.constructed(made.ModelNew, rows.load(path).get_init_inputs())
    new.load_state_dict(model.state_dict())
    return new.to(like.device, like.dtype).train(model.training)
