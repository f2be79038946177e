"""A row as its emitted file: ModelNew with the model's parameters."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import torch

from . import rows


@functools.lru_cache(maxsize=4)
def _text(path: str, device: str, dtype: str, sizes: str) -> str:
    from transfuse.emit import Request, emit

    return emit(path, Request(device=device, dtypes=(dtype,), sizes=(sizes,))).text


def emitted(path: str, model: torch.nn.Module, inputs: list) -> torch.nn.Module:
    """The file as `transfuse emit` writes it for what the model and its inputs have."""
    like = next(model.parameters())
    sizes = ",".join("x".join(map(str, t.shape)) for t in inputs if isinstance(t, torch.Tensor))
    text = _text(path, like.device.type, str(like.dtype).removeprefix("torch."), sizes)
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / f"{Path(path).stem}_new.py"
        written.write_text(text)
        made = rows.imported(str(written))
    new = rows.constructed(made.ModelNew, rows.load(path).get_init_inputs())
    new.load_state_dict(model.state_dict())
    return new.to(like.device, like.dtype).train(model.training)
