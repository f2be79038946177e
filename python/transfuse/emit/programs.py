"""What the engine states for the regions of a model: kernels, launches and workspace, the same that `optimize` takes."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

import torch

from transfuse.emit.captured import Way, wants
from transfuse.native import library
from transfuse.problem import ProblemError
from transfuse.run.region import Region

TENSOR_CORES = "transfuse_dense"  # kernels of this name are written for one architecture
LEAST = 86  # of those since sm_80 the one whose blocks have least shared memory


@dataclass(frozen=True)
class Plan:
    """Launches over one block of workspace, in the words of the file."""

    workspace: int
    outputs: tuple  # (dtype, shape, strides)
    launches: tuple  # Launch
    given: tuple  # (dtype, shape, strides) of what it is called with

    @property
    def reads(self) -> set[int]:
        return {a[1] for launch in self.launches for a in launch.arguments if a[0] == "leaf"}


@dataclass(frozen=True)
class Launch:
    kernel: str
    grid: tuple
    block: tuple
    shared: int
    cluster: int
    early: bool
    arguments: tuple
    note: str


@dataclass
class Kernels:
    """The sources of a file, each once, by name."""

    texts: dict[str, tuple] = field(default_factory=dict)  # name → (entry, text, options)
    names: dict[tuple, str] = field(default_factory=dict)

    def name(self, source: dict) -> str:
        key = source["entry"], source["text"], tuple(source["options"])
        if key not in self.names:
            base = re.sub(r"^(tf|transfuse)_|\d+$", "", source["entry"])
            numbered = (base + (f"_{i}" if i > 1 else "") for i in itertools.count(1))
            self.names[key] = next(n for n in numbered if n not in self.texts)
            self.texts[self.names[key]] = key
        return self.names[key]


@dataclass
class Programs:
    """The plans of a file: of each region, at each size, those of every kind and arithmetic."""

    arch: int
    precisions: list[str]
    gradients: bool
    kernels: Kernels = field(default_factory=Kernels)
    plans: dict[Plan, str] = field(default_factory=dict)  # → name
    # (region, leaves that want gradients) → results that these read, results they are gradients of
    kept: dict[tuple, tuple] = field(default_factory=dict)
    stated: dict[tuple, list] = field(default_factory=dict)  # (region, its calls) → plans by kind
    left: list[str] = field(default_factory=list)  # what is left to PyTorch's operators, in sentences
    checked: bool = True  # a compiler was there to say which kernels spill
    portable: bool = True  # every plan is the same on the architectures since sm_80

    def add(self, stated: dict, name: str) -> str:
        names = [self.kernels.name(source) for source in stated["sources"]]
        self.checked &= stated["compiled"]
        launches = tuple(
            Launch(
                names[l["source"]], tuple(l["grid"]), tuple(l["block"]), l["shared"], l["cluster"], l["early"],
                tuple(tuple(_frozen(a)) for a in l["arguments"]), l["note"],
            )
            for l in stated["launches"]
        )  # fmt: skip
        typed = lambda key: tuple((d, tuple(shape), tuple(strides)) for d, shape, strides in stated[key])  # noqa: E731
        plan = Plan(stated["workspace"], typed("outputs"), launches, typed("leaves"))
        if plan not in self.plans:
            numbered = (name + (f"_{i}" if i > 1 else "") for i in itertools.count(1))
            taken = set(self.plans.values())
            self.plans[plan] = next(n for n in numbered if n not in taken)
        return self.plans[plan]

    def of(self, way: Way, region: Region, name: str) -> list[tuple[tuple, dict]]:
        """Of each size: what the region is called with, and by kind the plan for TF32 and the one for full fp32 (of other dtypes both
        are one). Train and eval mode may have one region, and the same calls."""
        calls = way.calls[region.name]
        given = [
            tuple((library.DTYPES[t.dtype], tuple(t.shape), tuple(t.stride())) for t in call.leaves) for call in calls
        ]
        key = (name, *given)
        if key not in self.stated:
            with library.alone(region.text) as handle:
                self.stated[key] = [self._at(way, region, name, call, handle) for call in calls]
        return list(zip(given, self.stated[key]))

    def _at(self, way: Way, region: Region, name: str, call, handle) -> dict[tuple, tuple]:
        ask = lambda words: self._stated(region, handle, call, words)  # noqa: E731
        kinds: dict[tuple, tuple] = {("inference",): self._both(way, ask, "inference", name)}
        if self.gradients and way.capture.own_gradient:
            self.left.append(f"gradients, as {way.capture.own_gradient.partition(':')[0]}")
        for leaves in wants(way, region) if self.gradients and not way.capture.own_gradient else []:
            wanted = tuple([i in leaves for i in range(region.leaf_count)])
            keep, shared, _ = region.program.kept(wanted, call.leaves, call.sizes)
            flows = keep[1 : 1 + keep[0]]
            self.kept[name, leaves] = shared, flows
            words = f"keep={_listed(keep)}"
            gradients = f"{words} gradient={_listed(flows)}:{_listed(leaves)}"
            try:
                both = (
                    self._both(way, ask, words, f"{name}_training"),
                    self._both(way, ask, gradients, f"{name}_gradients"),
                )
            except library.CompileError as error:
                self.left.append(f"gradients of {name} ({str(error).splitlines()[0]})")
            else:
                kinds[("training", *leaves)], kinds[("gradients", *leaves)] = both
        return kinds

    def _both(self, way: Way, ask, words: str, name: str) -> tuple:
        if way.dtype != torch.float32:
            plan = self.add(ask(words), f"{name}_{str(way.dtype).removeprefix('torch.')}")
            return plan, plan
        told = {p: ask(f"tf32 {words}" if p == "tf32" else words) for p in self.precisions}
        one = len({repr(t) for t in told.values()}) == 1
        plans = {p: self.add(t, name if one else f"{name}_{p}") for p, t in told.items()}
        return plans.get("tf32"), plans.get("strict")

    def _stated(self, region: Region, handle, call, words: str) -> dict:
        """A program of its own for each kind of call and its gradients: what it has met decides its kernels."""
        held = handle(words.partition(" gradient=")[0])
        if "tf32" in words and region.linear:
            words += f" products={library.products(held, region.strict) >> 16}"
        ask = lambda arch: library.stated(held, call.leaves, call.sizes, f"{words} arch={arch}")  # noqa: E731
        try:
            stated = ask(self.arch)
        except library.CompileError as error:
            if "keep=" in words:
                raise
            raise ProblemError(f"the engine cannot compile the model: {error}") from error
        # What does not depend on the architecture is the same on all of them.
        if self.portable:
            cores = any(source["entry"] == TENSOR_CORES for source in stated["sources"])
            self.portable = not cores and self.arch >= 80 and stated == ask(LEAST if self.arch != LEAST else 90)
        return stated


def _listed(numbers) -> str:
    return ",".join(map(str, numbers))


def _frozen(value):
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return tuple((key, _frozen(item)) for key, item in value.items())
    return value
