"""Transfuse: transposed convolutions compiled together with everything around them."""

import sys

from transfuse import backend, nn
from transfuse.native.library import CompileError
from transfuse.optimize import optimize
from transfuse.report import explain, report

__version__ = "0.1.0"
__all__ = ["CompileError", "explain", "nn", "optimize", "report"]


def _register_backend() -> None:
    """torch.compile finds the backend by its entry point; where it has looked already, it is told."""
    registry = sys.modules.get("torch._dynamo.backends.registry")
    if registry is not None:
        registry.register_backend(backend.backend, name="transfuse")


_register_backend()
