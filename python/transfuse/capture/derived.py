"""Classes that are made of a user's class while a program runs, unseen by what the user does when one is written."""

from __future__ import annotations

from abc import ABCMeta


class _Unannounced:
    """Before the user's class in the order of bases: no registry hears of the new class, and none can refuse it. (It has no slots:
    objects of the new class and of the old must lie alike to be made into one another.)"""

    def __init_subclass__(cls, **_):
        pass


def written(kind: type) -> type:
    """The class as its author wrote it."""
    return getattr(kind, "_transfuse_base", kind)


def derive(base: type, body: dict) -> type:
    """A class like `base`, of its name and its metaclass, with what `body` holds. What the user's metaclass does for a new class is
    not done again: it is inherited."""
    own = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    maker = ABCMeta if issubclass(type(base), ABCMeta) else type
    return maker.__new__(type(base), base.__name__, (_Unannounced, base), {**own, **body})
