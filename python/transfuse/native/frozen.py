"""Parameters of which something was prepared once: as long as they are the same ones, it holds, and it goes with them."""

from __future__ import annotations

import sys
import threading
import weakref

from transfuse.native import library


class Frozen:
    """What is looked at before a call: where parameters lie, and how often they were written. Who holds a compiled graph may do so for
    longer than the model lives, so what was prepared goes as soon as one of the parameters does."""

    def __init__(self, handle: int, parameters: set[int]):
        """`parameters`: their positions among a call's leaves."""
        self.handle, self.positions = handle, sorted(parameters)
        self.lock = threading.RLock()  # parameters may end while it is held, in the same thread
        self.seen: list | None = None
        self.held: list[weakref.ref] = []  # to the parameters' memory: where it has gone, others may lie now

    def mode(self, mode: int, leaves: tuple) -> int:
        """The mode of a call on these. What was prepared of others is forgotten, and where nobody counts how often a tensor is
        written (in inference mode) nothing of it is kept."""
        parameters = [leaves[i] for i in self.positions]
        try:
            seen = [(p.data_ptr(), p._version) for p in parameters]
            if seen != self.seen:
                self._hold(parameters, seen)
        except RuntimeError:
            return mode & ~library.FREEZE
        return mode

    def _hold(self, parameters: list, seen: list) -> None:
        own = weakref.ref(self)

        def gone(_) -> None:
            if (frozen := own()) is not None and not sys.is_finalizing():
                frozen.forget()

        with self.lock:
            self.forget()
            self.held, self.seen = [weakref.ref(p.untyped_storage(), gone) for p in parameters], seen

    def forget(self) -> None:
        with self.lock:
            if self.seen is not None:
                self.seen = None
                library.forget_frozen(self.handle)
