"""A table that forgets: what was used last stays."""

from __future__ import annotations

MOST_SIZES = 1024  # of a model, or of a region, of which is known how they are run


class Recent(dict):
    """Of its keys the last `most` / 2 that were set or looked up stay, and never more than `most` are kept. What is found costs
    what a dict's does: keys lie in two generations, and one that is met in the older moves to the younger; when that is full
    it becomes the older, which goes. What is dropped between two looks is only found no more: threads need no lock."""

    __slots__ = ("_half", "_older")

    def __init__(self, most: int):
        super().__init__()
        self._half, self._older = most // 2, {}

    def __missing__(self, key):
        value = self._older[key]
        self[key] = value
        return value

    def __setitem__(self, key, value) -> None:
        if len(self) >= self._half and not dict.__contains__(self, key):
            self._older = dict(self)
            dict.clear(self)
        dict.__setitem__(self, key, value)

    def get(self, key, default=None):
        try:
            return self[key]
        except KeyError:
            return default

    def setdefault(self, key, default=None):
        if key not in self:
            self[key] = default
        return self.get(key, default)

    def __contains__(self, key) -> bool:
        return dict.__contains__(self, key) or key in self._older

    def items(self):
        return {**self._older, **self}.items()

    def clear(self) -> None:
        self._older = {}
        dict.clear(self)
