"""What happens when ours cannot run: PyTorch does, and one warning names the cause."""

import warnings


class Warned(UserWarning):
    """Something was left to PyTorch."""


_said: set[str] = set()
_backward: dict[int, str] = {}
strict_handles: set[int] = set()  # require_full_compilation: failing is an error


def warn(message: str) -> None:
    if message not in _said:
        _said.add(message)
        warnings.warn(f"transfuse: {message}; PyTorch runs it instead", Warned, stacklevel=3)


def give_up(reason: str, options) -> None:
    """What is to be PyTorch's from here on."""
    if options.require_full_compilation:
        raise RuntimeError(f"transfuse: {reason}")
    warn(reason)


def refused_backward(handle: int) -> bool:
    return handle in _backward


def backward_failed(handle: int, error: Exception) -> None:
    if handle in strict_handles:
        raise error
    _backward[handle] = str(error)
    warn(f"the gradient of a region could not be compiled ({_first_line(error)})")


def backward_failure(handle: int) -> str | None:
    return _backward.get(handle)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
