"""What a user may ask of optimize() and of the torch.compile backend beside the model."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from transfuse.pytorch.torch_private import OpOverload, OpOverloadPacket


@dataclass
class Options:
    freeze: bool = False
    require_full_compilation: bool = False
    torch_executed_ops: tuple = ()
    min_block_size: int = 1
    never_slower: bool = True
    autotune: bool = False
    precision: str = "pytorch"  # TF32 where PyTorch's convolutions use it; "switches": wherever its switches allow it
    memory: float = 1.5  # how many times PyTorch's peak a region of ours may take where it is faster
    rest: str = "eager"  # who runs what is not ours: "inductor" or "eager"
    mode: str | None = None  # of torch.compile, for Inductor
    graphs: bool = False  # calls are CUDA graphs
    engine: str = "auto"  # "reference": the slow interpreter instead of the CPU engine, for tests

    def __post_init__(self):
        if isinstance(self.torch_executed_ops, str):
            raise TypeError(f"transfuse: torch_executed_ops takes a list of operators, got {self.torch_executed_ops!r}")
        self.torch_executed_ops = tuple(self.torch_executed_ops or ())
        for op in self.torch_executed_ops:
            if not _exists(op):
                raise ValueError(
                    f"transfuse: torch_executed_ops: there is no operator {op!r}; one is named as 'aten.relu'"
                )
        if not isinstance(self.min_block_size, int):
            raise TypeError(f"transfuse: min_block_size takes a number of operators, got {self.min_block_size!r}")
        if self.precision not in ("pytorch", "switches"):
            raise ValueError(f"transfuse: unknown precision {self.precision!r}; known: pytorch, switches")
        if not isinstance(self.memory, (int, float)) or not self.memory > 0:
            raise ValueError(f"transfuse: memory takes how many times PyTorch's peak is allowed, got {self.memory!r}")
        if self.rest not in ("inductor", "eager"):
            raise ValueError(f"transfuse: unknown rest {self.rest!r}; known: inductor, eager")
        if self.graphs:
            self.rest, self.mode = "inductor", self.mode or "reduce-overhead"
        if self.mode is not None:
            from torch._inductor import list_mode_options

            if self.mode not in list_mode_options():
                known = ", ".join(list_mode_options())
                raise ValueError(f"transfuse: unknown mode {self.mode!r}; known: {known}")
            self.autotune = self.autotune or self.mode.startswith("max-autotune")
        if self.engine not in ("auto", "reference"):
            raise ValueError(f"transfuse: unknown engine {self.engine!r}; known: auto, reference")


def _exists(op) -> bool:
    """Whether it is an operator of torch.ops, or the name of one: aten.relu.default, aten.relu, relu."""
    if not isinstance(op, str):
        return isinstance(op, (OpOverload, OpOverloadPacket))
    found = torch.ops
    path = op.removeprefix("torch.ops.").split(".")
    for name in path if len(path) > 1 else ["aten", *path]:
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
    return found is not torch.ops
