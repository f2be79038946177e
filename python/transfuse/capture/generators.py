"""Random numbers that are not PyTorch's: a graph would hold them as they were drawn when it was captured."""

from __future__ import annotations

import contextlib
import pickle
import random
import sys


def state_of(value):
    """Of a generator of Python's or numpy's what it will draw, hashable; None of anything else."""
    if isinstance(value, random.Random):
        return value.getstate()
    if type(value).__module__.startswith("numpy.random"):
        if hasattr(value, "bit_generator"):
            return pickle.dumps(value.bit_generator.state)
        if hasattr(value, "get_state"):
            return pickle.dumps(value.get_state(legacy=False))
    return None


@contextlib.contextmanager
def put_back(drawn):
    """Whatever is drawn from the generators behind `random` and `numpy.random` meanwhile was not: drawn() tells that it was."""
    python = random.getstate()
    of_numpy = getattr(sys.modules.get("numpy"), "random", None)
    numpy = of_numpy.get_state(legacy=False) if of_numpy else None
    try:
        yield
    finally:
        if random.getstate() != python:
            random.setstate(python)
            drawn()
        if of_numpy and pickle.dumps(of_numpy.get_state(legacy=False)) != pickle.dumps(numpy):
            of_numpy.set_state(numpy)
            drawn()
