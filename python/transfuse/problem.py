"""Reference files: `Model`, `get_init_inputs()` (constructor arguments) and `get_inputs()`."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import torch


class ProblemError(Exception):
    """What is wrong with a reference file, in a sentence."""


def said(error: BaseException) -> str:
    """An error in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@dataclass
class Problem:
    path: Path
    module: object

    def model(self, seed: int = 0, device: str = "cpu") -> torch.nn.Module:
        torch.manual_seed(seed)
        init = self.made("get_init_inputs")
        try:
            made = self.module.Model(**init) if isinstance(init, dict) else self.module.Model(*init)
        except Exception as error:
            raise ProblemError(f"{self.path}: Model(*get_init_inputs()) fails: {said(error)}") from error
        if not isinstance(made, torch.nn.Module):
            raise ProblemError(f"{self.path}: Model is no torch.nn.Module")
        return made.to(device)

    def inputs(self, seed: int = 0, device: str = "cpu") -> list:
        torch.manual_seed(seed)
        return [t.to(device) if isinstance(t, torch.Tensor) else t for t in self.made("get_inputs")]

    def made(self, function: str):
        """What a function of the file returns: a list, a tuple or a dictionary."""
        try:
            found = getattr(self.module, function)()
        except Exception as error:
            raise ProblemError(f"{self.path}: {function}() fails: {said(error)}") from error
        if not isinstance(found, (list, tuple, dict)):
            raise ProblemError(f"{self.path}: {function}() must return a list, got {type(found).__name__}")
        return found


def load(path: str | Path) -> Problem:
    path = Path(path)
    if not path.is_file():
        raise ProblemError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(f"transfuse_problem_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ProblemError(f"{path} cannot be loaded: {said(error)}") from error
    for name in ("Model", "get_init_inputs", "get_inputs"):
        if not hasattr(module, name):
            raise ProblemError(
                f"{path} has no {name}; a reference file defines Model, get_init_inputs() and get_inputs()"
            )
    return Problem(path, module)
