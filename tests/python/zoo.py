"""The models of bench/models at sizes a test can afford, and the comparison with float64."""

import copy
from pathlib import Path

import long_tails
import torch

from transfuse import problem
from transfuse.bench import accuracy

FOLDER = Path(__file__).resolve().parents[2] / "bench" / "models"
ROWS = [
    "A", "B", "C", "D", "d1", "d2", "d3", "d4", "d5", "d6",
    "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12",
]  # fmt: skip
WHOLE = {
    "dcgan": {"batch_size": 3, "noise": 12, "width": 4},
    "unet": {"batch_size": 2, "width": 4, "size": 3},
    "hifigan": {"batch_size": 2, "mels": 5, "width": 32, "frames": 5},
    "nnunet": {"batch_size": 2, "features": (8, 6, 4), "size": 3},
}
SMALL = {"batch_size": 2, "height": 6, "width": 7, "depth": 5, "length": 33}


def load(name: str) -> problem.Problem:
    reference = problem.load(FOLDER / f"{name}.py")
    for key, value in WHOLE.get(name, SMALL).items():
        if hasattr(reference.module, key):
            setattr(reference.module, key, value)
    return reference


def model(name: str, seed: int = 0):
    reference = load(name)
    return reference.model(seed), reference.inputs(seed + 1)


def outputs_and_gradients(module, inputs):
    """All outputs, then the gradients of inputs and parameters under a fixed cotangent."""
    from transfuse.bench.peers import ramp

    inputs = [
        t.detach().requires_grad_() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in inputs
    ]
    results = accuracy.tensors(module(*inputs))
    leaves = [t for t in inputs if isinstance(t, torch.Tensor)] + list(module.parameters())
    reached = [t for t in results if t.requires_grad]
    found = torch.autograd.grad(reached, leaves, [ramp(t) for t in reached], allow_unused=True)
    return [t.detach() for t in results] + [torch.zeros(()) if g is None else g for g in found]


def outputs(module, inputs):
    with torch.no_grad():
        return accuracy.tensors(module(*inputs))


def uniform(t, generator):
    return torch.rand(t.shape, generator=generator, dtype=t.dtype)


def shuffled(t, generator):
    """The same numbers in other places: mean, spread, device and layout stay."""
    order = torch.randperm(t.numel(), generator=generator).to(t.device)
    return torch.empty_like(t).copy_(t.flatten()[order].view(t.shape))


def verdict_of_draws(ours, module, inputs, run=outputs, draws=(3, 12, 48), fresh=uniform):
    """`ours` and a copy of `module` on the same inputs, a few draws of them: our error against float64, over the draws
    together, is like PyTorch's own (RMS at most 1.2 times, the worst element at most twice, a few units in the last place allowed).
    The ratio of two errors of a few numbers is a matter of luck: where the first draws say no, more of them decide, and
    where few elements hold most of the error, all of them one by one. Gives the verdict, and the copy."""
    plain, wide = copy.deepcopy(module), copy.deepcopy(module).double()
    found = []  # of each draw: our results, PyTorch's, the true ones

    def draw(number):
        generator = torch.Generator().manual_seed(number)
        drawn = [fresh(t, generator) if number and t.is_floating_point() else t for t in inputs]
        mine, theirs, truth = run(ours, drawn), run(plain, drawn), run(wide, [t.double() for t in drawn])
        assert [(t.shape, t.dtype) for t in mine] == [(t.shape, t.dtype) for t in theirs]
        found.append((mine, theirs, truth))

    def together(which):
        return [torch.cat([t.flatten() for t in several]) for several in zip(*(results[which] for results in found))]

    for count in draws:
        while len(found) < count:
            draw(len(found))
        mine, theirs, truth = map(together, range(3))
        dtypes = [t.dtype for t in theirs]
        verdict = accuracy.verdict(accuracy.errors(mine, truth), accuracy.errors(theirs, truth), dtypes)
        if verdict == "right":
            return verdict, plain
    if any(long_tails.has_long_tail(a.double() - b) for a, b in zip(theirs, truth)):
        while len(found) < 4 * draws[-1]:
            draw(len(found))
        mine, theirs, truth = map(together, range(3))
    return long_tails.verdict(mine, theirs, truth), plain


def assert_as_good_as_pytorch(ours, module, inputs, run=outputs, draws=(3, 12, 48)):
    verdict, plain = verdict_of_draws(ours, module, inputs, run, draws)
    assert verdict == "right", verdict
    for (name, buffer), other in zip(ours.named_buffers(), plain.buffers()):
        assert torch.allclose(buffer.double(), other.double(), rtol=1e-5, atol=1e-6), name
