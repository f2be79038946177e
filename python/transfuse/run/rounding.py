"""Which of PyTorch's convolutions round their operands to TF32 where they are allowed to: no rule says which.

One run on numbers that TF32 cannot hold tells, and no switch is changed for it: with 1 + 2⁻¹² in the place of 1 a result grows by 2⁻¹²,
or, where operands are rounded, not at all. Signs are random, so that sums stay short of where fp32 would lose the difference. What was
found is kept on disk for the device and the versions: libraries choose by the problem, not by its numbers. (While cuDNN measures its
algorithms, it chooses by the clock: then it is kept for the process alone.)
"""

from __future__ import annotations

import torch

from transfuse.native import on_disk

STEP = 2.0**-12  # half of what TF32's ten bits resolve
SAMPLES = 1 << 16  # numbers looked at of each result
_found: dict[str, list[bool]] = {}


def rounds(operator, arguments: tuple) -> list[bool]:
    """Of aten.convolution whether it rounds, of aten.convolution_backward whether each gradient does that is a product (not that of a
    bias, which is a sum)."""
    problem = _problem(operator, arguments)
    lasts = arguments[0].is_cuda and not torch.backends.cudnn.benchmark
    found = _found.get(problem) or (on_disk.find("tf32", problem) if lasts else None)
    if found is None:
        found = _probed(operator, arguments)
        if lasts:
            on_disk.keep("tf32", problem, found)
    _found[problem] = found
    return found


def forget() -> None:
    """What this process found and read."""
    _found.clear()
    on_disk.forget()


def _probed(operator, arguments: tuple) -> list[bool]:
    given = list(arguments)
    if operator is torch.ops.aten.convolution.default:
        given[:2] = [_signs(tensor, seed) for seed, tensor in enumerate(given[:2])]
        given[2] = None if given[2] is None else torch.zeros_like(given[2])  # added, not multiplied
    else:
        given[:3] = [_signs(tensor, seed) for seed, tensor in enumerate(given[:3])]
    plain = [_sample(result) for result in _products(operator(*given))]
    given[0].mul_(1 + STEP)
    grown = [_sample(result) for result in _products(operator(*given))]
    return [
        ((b - a).square().sum() < (STEP / 2) ** 2 * a.square().sum()).item() for a, b in zip(plain, grown, strict=True)
    ]


def _signs(like: torch.Tensor, seed: int) -> torch.Tensor:
    """PyTorch's own random numbers stay as they are."""
    generator = torch.Generator(like.device).manual_seed(seed)
    return torch.empty_like(like, requires_grad=False).bernoulli_(0.5, generator=generator).mul_(2).sub_(1)


def _products(results) -> list[torch.Tensor]:
    return [results] if isinstance(results, torch.Tensor) else [r for r in results[:2] if r is not None]


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """As it lies, for which none needs a copy; all of it, or so many numbers all over it."""
    numbers = tensor.detach().new_empty(0).set_(tensor.untyped_storage())
    count = numbers.numel()
    places = torch.arange(min(count, SAMPLES), device=tensor.device) * 2654435761 % max(count, 1)
    return numbers[places].double()


def _problem(operator, arguments: tuple) -> str:
    """All that a library may choose by."""
    told = [f"{a.dtype}{list(a.shape)}{list(a.stride())}" if torch.is_tensor(a) else str(a) for a in arguments]
    cudnn = torch.backends.cudnn
    switches = (cudnn.enabled, cudnn.deterministic, cudnn.benchmark, torch.are_deterministic_algorithms_enabled())
    return " ".join([str(operator), *told, on_disk.machine(arguments[0].device), str(switches)])
