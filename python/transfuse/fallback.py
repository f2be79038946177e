"""What happens when ours cannot run: PyTorch does, and one warning names the cause."""

import warnings

import torch


class Warned(UserWarning):
    """Something was left to PyTorch, or is not done."""


_said: set[str] = set()


def warn(message: str, said: set[str] | None = None) -> None:
    """What PyTorch runs. Once for each model: `said` is what one was told of. Without, once for all."""
    say(f"{message}; PyTorch runs it instead", said)


def say(message: str, said: set[str] | None = None) -> None:
    said = _said if said is None else said
    if message not in said:
        said.add(message)
        warnings.warn(f"transfuse: {message}", Warned, stacklevel=4)


def give_up(reason: str, options, said: set[str] | None = None) -> None:
    """What is to be PyTorch's from here on."""
    if options.require_full_compilation:
        raise RuntimeError(f"transfuse: {reason}")
    warn(reason, said)


class Gradient:
    """Whether ours can be used of one region, whoever else has a program of the same text."""

    def __init__(self, strict: bool = False):
        self.strict = strict  # require_full_compilation: failing is an error
        self.failure: str | None = None

    def failed(self, error: Exception) -> None:
        """Unless there was no memory for this one call."""
        if self.strict:
            raise error
        if ran_out_of_memory(error):
            return
        self.failure = str(error)
        warn(f"the gradient of a region could not be compiled ({first_line(error)})", set())


def ran_out_of_memory(error: Exception) -> bool:
    """Which says nothing of the next call. (Of what crossed from C++ only the words are left.)"""
    said = str(error)
    in_words = said.startswith("out of memory: ") or "DefaultCPUAllocator" in said
    return in_words or isinstance(error, torch.OutOfMemoryError)


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
