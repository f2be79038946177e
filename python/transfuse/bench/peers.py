"""The ways to run a model that are timed side by side: PyTorch as it comes, compiled, tuned, channels_last, and Transfuse, as a
module and as emitted files."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch

from .accuracy import tensors
from .emitted import emitted


# The modes of torch.compile. CUDA graphs save the host's time, which is counted apart, and copy inputs on the device.
MODES = {"compile": "default", "autotune": "max-autotune-no-cudagraphs", "graphs": "max-autotune"}
EMITTED = "emitted"
KINDS = (*MODES, "channels_last", "benchmark", EMITTED)  # what may be asked for


@dataclass(frozen=True)
class Peer:
    name: str
    how: str  # eager | transfuse | EMITTED | one of MODES
    channels_last: bool = False
    cudnn_benchmark: bool = False

    @property
    def ours(self) -> bool:
        return self.how in ("transfuse", EMITTED)

    @property
    def chooses(self) -> bool:
        """Between its own kernels and PyTorch's."""
        return self.how == "transfuse"

    @property
    def compiled(self) -> bool:
        """By PyTorch's compiler."""
        return self.how in MODES


EAGER, OURS = Peer("eager", "eager"), Peer("transfuse", "transfuse")


def peers(device: str, rank: int, which: set[str]) -> list[Peer]:
    """`which`: any of KINDS beside the two that are always there."""
    layouts = [False] + ([True] if "channels_last" in which and rank in (4, 5) else [])
    chosen = []
    for last in layouts:
        suffix = "_channels_last" if last else ""
        chosen += [Peer("transfuse" + suffix, "transfuse", last), Peer("eager" + suffix, "eager", last)]
        if EMITTED in which and not last:  # files have kernels for contiguous tensors
            chosen.append(Peer(f"transfuse_{EMITTED}", EMITTED))
        if "compile" in which:
            chosen.append(Peer("compile" + suffix, "compile", last))
        if device == "cuda":
            # cuDNN remembers what its benchmark chose, so these come after all others.
            if "benchmark" in which:
                chosen.append(Peer("eager_benchmark" + suffix, "eager", last, True))
            chosen += [Peer(how + suffix, how, last, True) for how in ("autotune", "graphs") if how in which]
    return sorted(chosen, key=lambda peer: peer.cudnn_benchmark)


def asked_peers(text: str) -> list[str]:
    asked = [] if text == "none" else text.split(",")
    if unknown := [word for word in asked if word not in KINDS]:
        raise SystemExit(f"bench: unknown peer {unknown[0]!r}; known: {', '.join(KINDS)}; none for none")
    return asked


def memory_format(rank: int) -> torch.memory_format:
    return {4: torch.channels_last, 5: torch.channels_last_3d}[rank]


def laid_out(value, channels_last: bool):
    if channels_last and isinstance(value, torch.Tensor) and value.dim() in (4, 5):
        return value.contiguous(memory_format=memory_format(value.dim()))
    return value


def module_for(
    peer: Peer, model: torch.nn.Module, inputs: list, forced: bool = True, path: str = ""
) -> torch.nn.Module:
    """A copy of the model made ready as this peer would have it. Transfuse is shown inputs with other values: what it learns
    from them must be shapes alone. Forced, it may not take PyTorch's own op where that is faster. path: of the model's file."""
    module = emitted(path, model, inputs) if peer.how == EMITTED else copy.deepcopy(model)
    if (
        peer.channels_last
    ):  # weights of the convolutions alone: Module.to refuses where other parameters have another rank
        rank = max(t.dim() for t in inputs if isinstance(t, torch.Tensor))
        for parameter in module.parameters():
            if parameter.dim() == rank:
                parameter.data = parameter.data.contiguous(memory_format=memory_format(rank))
    if peer.compiled:
        return torch.compile(module, mode=MODES[peer.how])
    if peer.chooses:
        import transfuse

        examples = [torch.rand_like(t) if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in inputs]
        return transfuse.optimize(
            module, tuple(laid_out(t, peer.channels_last) for t in examples), never_slower=not forced
        )
    return module


@contextlib.contextmanager
def settings(peer: Peer):
    before = torch.backends.cudnn.benchmark
    if before == peer.cudnn_benchmark:
        yield
        return
    torch.backends.cudnn.benchmark = peer.cudnn_benchmark
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def call_for(peer: Peer, module: torch.nn.Module, inputs: list, backward: bool) -> Callable[[], list[torch.Tensor]]:
    """One forward (no_grad), or one forward and backward with a fixed gradient; returns every result to be checked."""
    inputs = [laid_out(t, peer.channels_last) for t in inputs]

    def forward():
        with settings(peer), torch.no_grad():
            return tensors(module(*inputs))

    if not backward:
        return forward

    wanted = [
        t.detach().requires_grad_() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in inputs
    ]
    parameters = [p for p in module.parameters() if p.requires_grad]
    leaves = [t for t in wanted if isinstance(t, torch.Tensor) and t.requires_grad] + parameters
    cotangents: list[torch.Tensor] = []

    def forward_backward():
        with settings(peer):
            outputs = [t for t in tensors(module(*wanted)) if t.requires_grad]
            if not cotangents:
                cotangents.extend(ramp(t) for t in outputs)
            gradients = torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True)
            return [t.detach() for t in outputs] + [g for g in gradients if g is not None]

    return forward_backward


def ramp(t: torch.Tensor) -> torch.Tensor:
    """A fixed gradient, not constant, the same for every peer and precision: multiples of 1/64 in (0, 1], exact in 16 bits."""
    flat = torch.arange(t.numel(), device=t.device, dtype=torch.int32).remainder_(61).add_(3)
    return torch.empty_like(t).copy_(flat.reshape(t.shape)).div_(64)
