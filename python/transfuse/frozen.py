"""Parameters of which something was prepared once: as long as they are the same ones, it holds."""

from __future__ import annotations

import threading

import torch

from transfuse import library


class Frozen:
    """What is looked at before a call: where parameters lie, and how often they were written."""

    def __init__(self, handle: int, parameters: set[int]):
        """`parameters`: their positions among a call's leaves."""
        self.handle, self.positions = handle, sorted(parameters)
        self.lock = threading.Lock()
        self.seen: list | None = None
        self.held: list[torch.Tensor] = []  # so that no others come to lie where these lay

    def mode(self, mode: int, leaves: tuple) -> int:
        """The mode of a call on these. What was prepared of others is forgotten, and where nobody counts how often a tensor is
        written (in inference mode) nothing of it is kept."""
        parameters = [leaves[i] for i in self.positions]
        try:
            seen = [(p.data_ptr(), p._version) for p in parameters]
        except RuntimeError:
            return mode & ~library.FREEZE
        if seen != self.seen:
            with self.lock:
                if self.seen is not None:
                    library.forget_frozen(self.handle)
                self.held, self.seen = [p.detach() for p in parameters], seen
        return mode
