"""Transfuse: transposed convolutions compiled together with everything around them."""

from transfuse.library import CompileError
from transfuse.optimize import optimize

__version__ = "0.1.0"
__all__ = ["CompileError", "optimize"]
