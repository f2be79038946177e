"""The comparison of errors where a few elements hold most of them.

Of squares of squares the largest elements are far larger than all others, and so are their errors: the RMS over all is
that of three or four elements, and whose is larger is a matter of luck however many are drawn (one sum of twelve
products in two orders, squared twice: factors up to six at 48 draws, three at 192). Element by element the sizes drop
out: of errors a and b of one element, a larger k times, a²/(a² + b²) is k/(1 + k) in the mean, which gives k to a few
hundredths from a thousand elements."""

import torch

from transfuse.bench import accuracy

LEAST = 200  # elements, below which nothing is said by them
FEW = 40  # elements: the RMS of so many errors is known to a tenth
GROSS = 4.0  # how many times larger the RMS and the worst error may be, luck allowed for


def held_by(error: torch.Tensor) -> float:
    """How many elements hold the squared error: all of them where it is the same everywhere, a third of normal errors."""
    squares = error.square()
    return (squares.sum().square() / squares.square().sum()).item()


def has_long_tail(error: torch.Tensor) -> bool:
    return error.numel() >= LEAST and held_by(error / error.abs().max()) < FEW


def ratio_by_elements(mine: torch.Tensor, theirs: torch.Tensor) -> float:
    a, b = mine.square(), theirs.square()
    share = torch.where(a + b > 0, a / (a + b), 0.5).mean().item()
    return share / (1 - share) if share < 1 else float("inf")


def verdict(mine: list, theirs: list, truth: list) -> str:
    """As accuracy.verdict's; of results with long tails errors are compared element by element, unless they are gross."""
    for i, (a, b, true) in enumerate(zip(mine, theirs, truth)):
        ours, pytorch = accuracy.error(a, true), accuracy.error(b, true)
        plain = accuracy.verdict([ours], [pytorch], [b.dtype])
        if plain == "right":
            continue
        gross = not (ours.rms <= GROSS * pytorch.rms and ours.worst <= GROSS * pytorch.worst)
        if gross or not has_long_tail(b.double() - true):
            return plain.replace("result 0", f"result {i}")
        if (k := ratio_by_elements(a.double() - true, b.double() - true)) > accuracy.RMS_FACTOR:
            return f"result {i}: errors {k:.2f} times PyTorch's, element by element"
    return "right"
