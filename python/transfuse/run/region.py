"""One region: its text, its handle, and how a call chooses between ours and PyTorch's."""

from __future__ import annotations

import functools
import itertools
import re
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from transfuse import fallback
from transfuse.capture.questions import is_strided
from transfuse.native import library
from transfuse.native.frozen import Frozen
from transfuse.pytorch.torch_private import is_exporting, is_grad_enabled
from transfuse.pytorch.trials import capturing, is_one_of_many, traced, unseen
from transfuse.recent import MOST_SIZES, Recent
from transfuse.run.clock import allocated, fastest, fastest_on_device, step
from transfuse.run.memory import peak_of, total
from transfuse.run.precision import Rounding, allows_tf32, rounding_of

_salts = itertools.count(1)


# What PyTorch's kernels take inside themselves is not counted, ours is: so the weights twice (prepared for the products, in full
# fp32 as two halves), a fiftieth of the tensors counted, and some bytes beside are allowed. On CUDA these are as many as cuBLAS keeps
# of PyTorch's memory on a Hopper: of a small model's tensors nobody asks more than that.
SPARE = {"cpu": 1 << 20, "cuda": 32 << 20}
EVEN = 1.02  # times as near as this are equal, and ours is taken


@dataclass
class Choice:
    """A quick measurement for one size: seconds a call, and bytes at the peak of one."""

    ours: float
    pytorch: float
    ours_bytes: int = 0
    pytorch_bytes: int = 0
    parameter_bytes: int = 0
    device: str = "cpu"
    lean: bool = False  # our way without scratch memory for the sake of speed
    budget: float = 1.0  # how many times PyTorch's memory ours may take

    def __post_init__(self):
        self.takes_ours = self.ours <= EVEN * self.pytorch and not self.needs_more_memory

    @property
    def needs_more_memory(self) -> bool:
        spare = self.pytorch_bytes // 50 + 2 * self.parameter_bytes + SPARE[self.device]
        return self.ours_bytes > self.budget * self.pytorch_bytes + spare


OURS = Choice(0.0, 0.0)  # without a measurement


@dataclass
class Region:
    name: str
    text: str  # the program: sizes that only the call tells are $k
    example: str  # the same with the sizes of the capture
    eager: nn.Module  # PyTorch's own way: (*leaves, *sizes) → (*outputs, *batch statistics)
    leaf_count: int
    inputs: list[int]  # positions of leaves that are no parameters
    differentiable: int  # the first so many outputs; the others are statistics
    reach: list[list[int]]  # of each of those the leaves its gradient can flow to
    multiplied: list[int]  # the leaves whose gradients come out of a convolution's backward
    weights: list[list[int]]  # of each convolution the leaves that its weight is made of
    linear: list[int]  # the leaves that the weights of linear layers are made of
    options: object
    ops: list[str]
    size_count: int = 0  # numbers that a call gives behind the leaves; the text need not name all of them
    failure: str | None = None
    choices: dict = field(default_factory=lambda: Recent(MOST_SIZES))  # by mode, shapes, sizes and layout of a call
    modes: dict = field(default_factory=lambda: Recent(MOST_SIZES))  # by the same, where TF32 is allowed
    measured: Measured = field(default_factory=lambda: Measured())  # of both, what was not taken over from another size
    nodes_to_erase: list = field(default_factory=list)

    def __post_init__(self):
        # Frozen parameters live in the executable, so programs of different models must not be shared.
        salt = next(_salts) if self.options.freeze else 0
        self.program = library.program_of(self.text, salt, self.eager, self.reach, self.leaf_count)
        self.handle, self.outputs = self.program.handle, self.program.outputs
        self.gradient = fallback.Gradient(self.options.require_full_compilation)
        self.training_mode = library.REFERENCE if self.options.engine == "reference" else 0
        self.training_mode |= library.AUTOTUNE if self.options.autotune else 0
        self.inference_mode = self.training_mode | library.INFERENCE | (library.FREEZE if self.options.freeze else 0)
        # Leaves that no gradient flows to have no place in autograd's graph: what they come from is not to be asked for one.
        self.unreached = set(range(self.leaf_count)).difference(*self.reach)
        parameters = set(range(self.leaf_count)).difference(self.inputs)
        self.in_full = library.products(self.handle, self.strict) if self.linear else 0
        self.frozen = Frozen(self.handle, parameters) if self.options.freeze else None
        self._ready: weakref.WeakSet[Ready] = weakref.WeakSet()
        self.on_cuda = False
        self.autocast = ("cpu", False, torch.bfloat16)  # in a compiled graph: where it was captured
        self.kept: list[tuple[str, list[int], int]] = []  # of the call measured last, from forward to backward
        self.lean = False  # in a compiled graph: without scratch memory for the sake of speed (choice.py)
        self.kept_otherwise = False  # in compiled graphs: a call met would have kept other tensors than was promised
        self.alike: dict[int, Region] = {}  # in compiled graphs: which runs in its place, being the same, by number

    @functools.cached_property
    def form(self) -> str:
        """Its text without anybody's names: blocks of a network that are built alike have one."""
        numbers: dict[str, int] = {}
        body = self.text.partition("{")[2]
        return re.sub(r"%[\w.]+", lambda name: f"%{numbers.setdefault(name[0], len(numbers))}", body)

    @functools.cached_property
    def output_dtypes(self) -> list[torch.dtype]:
        names = {name: dtype for dtype, name in library.DTYPES.items()}
        return [names[told.partition("[")[0]] for told in library.infer(self.example)]

    def __deepcopy__(self, memo):
        return self

    def module(self) -> RegionCall:
        return RegionCall(self)

    def module_call(self, arguments: tuple):
        """A call from Python code that torch.compile or torch.export may be tracing."""
        if not traced():
            return self.caller()(*arguments)
        if capturing() and self.differentiable == self.outputs:
            return self.eager(
                *arguments
            )  # a part of the model that is being captured: in PyTorch's operators, which join others
        leaves, sizes = list(arguments[: self.leaf_count]), list(arguments[self.leaf_count :])
        grad = torch.is_grad_enabled() and any([leaf.requires_grad for leaf in leaves])
        mode = self.call_mode(leaves[0], grad) & ~library.FREEZE  # nobody would look at the parameters
        if is_exporting():
            if library.excepts(mode):  # which this program alone knows
                mode = library.without_exceptions(mode) & ~library.TF32 & ~library.TF32_BACKWARD
            outputs = torch.ops.transfuse.run_text(leaves, self.text, sizes, mode)
        else:
            outputs = torch.ops.transfuse.run(leaves, self.handle, sizes, mode)
        return self.attached(outputs, leaves) if grad else outputs

    def call_mode(self, tensor: torch.Tensor, grad: bool) -> int:
        mode = self.training_mode if grad else self.inference_mode
        if mode & library.AUTOTUNE and is_one_of_many():
            mode &= ~library.AUTOTUNE
        if tensor.is_cuda:
            self.on_cuda = True
            if tensor.dtype is torch.float32 and allows_tf32():
                mode |= library.TF32 | library.TF32_BACKWARD if grad else library.TF32
                mode |= self.in_full
        return mode

    @property
    def strict(self) -> list[int]:
        """Of each leaf which products are strict where TF32 is allowed: those of linear layers, which PyTorch multiplies as matrices,
        by another switch, whose default is full fp32."""
        return [7 if leaf in self.linear else 0 for leaf in range(self.leaf_count)]

    def caller(self):
        """What an eager call of the region runs, as a function of its leaves and sizes; all that never changes is bound to it."""
        eager, count, run = self.eager, self.leaf_count, self.run
        choices, modes = self.choices, self.modes
        never_slower, has_sizes = self.options.never_slower, bool(self.size_count)
        grad_enabled, frozen = is_grad_enabled, self.frozen

        def call(*arguments):
            if self.failure is not None:
                return eager(*arguments)
            leaves, sizes = (arguments[:count], arguments[count:]) if has_sizes else (arguments, ())
            grad = False
            if grad_enabled():
                for leaf in leaves:
                    if leaf.requires_grad:
                        grad = True
                        break
            mode = self.call_mode(leaves[0], grad)
            if frozen is not None and mode & library.FREEZE:
                mode = frozen.mode(mode, leaves)
            try:
                if never_slower or mode & library.TF32:
                    key = self.key(mode, leaves, sizes)
                    if mode & library.TF32:
                        mode = modes.get(key)
                        if mode is None:
                            mode = self.as_pytorch_multiplies(key, leaves, grad)
                    if never_slower:
                        choice = choices.get(key)
                        if choice is None:
                            choice = self.choose(key, leaves, mode, grad)
                        if not choice.takes_ours:
                            return eager(*arguments)
                        if choice.lean:
                            mode |= library.LEAN
                return run(leaves, sizes, mode, grad)
            except RuntimeError as error:
                return self.gave_up(error, arguments)

        return call

    def run(self, leaves: tuple, sizes: tuple, mode: int, grad: bool):
        """Ours."""
        if not grad:
            return library.run_detached(leaves, self.handle, sizes, mode)
        if self.unreached:
            leaves = [leaf.detach() if i in self.unreached else leaf for i, leaf in enumerate(leaves)]
        return library.with_gradient((self.program, self.gradient, sizes, mode), *leaves)

    def key(self, mode: int, leaves: tuple, sizes: tuple) -> tuple:
        given = [leaves[i] for i in self.inputs]
        return mode, tuple([t.shape for t in given]), sizes, tuple([t.is_contiguous() for t in given])

    def ready(self) -> Ready:
        """For one who calls the operator itself: the modes it finds by mode_of, forgotten when they hold no more."""
        self._ready.add(found := Ready())
        return found

    def mode_of(self, leaves: tuple) -> int | None:
        """The mode of calls without gradients on tensors like these; None where it is not settled, or PyTorch's way is used."""
        mode = self.call_mode(leaves[0], False)
        key = self.key(mode, leaves, ())
        if mode & library.TF32:
            mode = self.modes.get(key)
        choice = self.choices.get(key) if self.options.never_slower else None
        ours = choice.takes_ours if choice is not None else not self.options.never_slower
        if mode is not None and choice is not None and choice.lean:
            mode |= library.LEAN
        return mode if ours and self.failure is None else None

    def forget(self) -> None:
        """What was measured."""
        for table in (self.choices, self.modes, self.measured, *self._ready):
            table.clear()

    def attached(self, outputs: list, leaves: list) -> list:
        """An output that no gradient can flow through does not require one, as in PyTorch."""
        wants = [leaf.requires_grad for leaf in leaves]
        reached = [any([wants[i] for i in leaves_of]) for leaves_of in self.reach]
        if all(reached) and len(outputs) == len(reached):
            return outputs
        reached += [False] * (len(outputs) - len(reached))
        return [output if flows else output.detach() for output, flows in zip(outputs, reached)]

    def gave_up(self, error: RuntimeError, arguments: tuple):
        """The results of a call that failed, from PyTorch; so are those of all later ones, unless there was no memory for this one."""
        if fallback.ran_out_of_memory(error):
            return self.with_less_memory(error, arguments)
        result = self.eager(*arguments)  # if PyTorch refuses as well, its error is the one to see
        if all(map(is_strided, arguments)):  # else it says nothing of other tensors
            self.failed(error)
        elif self.options.require_full_compilation:
            raise error
        return result

    def failed(self, error: RuntimeError) -> None:
        """From now on it is PyTorch's, unless there was no memory for this one call."""
        if self.options.require_full_compilation:
            raise error
        if fallback.ran_out_of_memory(error):
            return
        self.failure = str(error)
        for table in self._ready:
            table.clear()
        fallback.warn(f"{self.name} could not run ({str(error).strip().splitlines()[0]})", set())

    def settled_mode(self, leaves: Sequence[torch.Tensor], sizes: Sequence[int], grad: bool) -> int:
        """The mode of a call in a compiled graph, where it is ours (an operator is given lists)."""
        leaves, sizes = tuple(leaves), tuple(sizes)
        mode = self.call_mode(leaves[0], grad)
        if self.frozen is not None and mode & library.FREEZE:
            mode = self.frozen.mode(mode, leaves)
        if mode & library.TF32:
            key = self.key(mode, leaves, sizes)
            settled = self.modes.get(key)
            if settled is None:
                own = tuple([leaf.detach().requires_grad_(grad) for leaf in leaves])
                settled = self.as_pytorch_multiplies(key, own, grad)
            mode = settled
        return mode | library.LEAN if self.lean else mode

    def settle(self, leaves: tuple, sizes: tuple) -> bool:
        """Whether ours can run in a compiled graph; how it multiplies is found for tensors like those of its calls."""
        try:
            self.settled_mode(leaves, sizes, any([leaf.requires_grad for leaf in leaves]))
        except RuntimeError as error:
            self.failed(error)
        return self.failure is None

    def beside(self, rival, leaves: tuple, sizes: tuple) -> Choice | None:
        """Ours and Inductor's version, or the seconds that it takes at least, on tensors like those of a compiled graph's calls; None
        where ours cannot run."""
        grad = any([leaf.requires_grad for leaf in leaves])
        try:
            mode = self.settled_mode(leaves, sizes, grad)
            key = self.key(self.call_mode(leaves[0], grad), leaves, sizes)
            choice = self.choices[key] = self.weigh(leaves, sizes, mode, grad, rival)
        except RuntimeError as error:
            self.failed(error)
            return None
        return choice

    def with_less_memory(self, error: RuntimeError, arguments: tuple):
        """The results of a call for which there was no memory: by the plan that needs least, else from PyTorch."""
        leaves, sizes = arguments[: self.leaf_count], arguments[self.leaf_count :]
        grad = torch.is_grad_enabled() and any([leaf.requires_grad for leaf in leaves])
        if leaves[0].is_cuda:  # CPUs take none for the sake of speed
            mode = self.call_mode(leaves[0], grad)
            mode = (self.modes.get(self.key(mode, leaves, sizes), mode) | library.LEAN) & ~library.FREEZE
            try:
                return self.run(leaves, sizes, mode, grad)
            except RuntimeError as again:
                error = again
        result = self.eager(*arguments)
        if self.options.require_full_compilation:
            raise error
        fallback.warn(f"a call of {self.name} found no memory")
        return result

    # Measuring --------------------------------------------------------------------------------------------------------

    def as_pytorch_multiplies(self, key: tuple, leaves: tuple, grad: bool) -> int:
        """The mode of a call, without TF32 where PyTorch does without it though it is allowed."""
        mode, _, sizes, _ = key
        settled = mode if self.options.precision == "switches" else self.measured.near("mode", key)
        if settled is None:
            if torch.cuda.is_current_stream_capturing():
                return mode
            try:
                wanted = [i for i in self.multiplied if grad and leaves[i].requires_grad]
                with unseen():
                    settled = self.rounding_as(rounding_of(self.eager, leaves, sizes, wanted), mode)
            except RuntimeError:  # PyTorch cannot run it here, for want of memory say: the switches decide
                settled = mode
            self.measured.add("mode", key, settled)
        self.modes[key] = settled
        return settled

    def rounding_as(self, found: list[Rounding], mode: int) -> int:
        """A mode that allows TF32 as one that rounds what PyTorch's convolutions round."""
        unnamed = [all(rounds) for weight, rounds in zip(self.weights, found) if not weight]
        if len(found) != len(self.weights) or not all(unnamed):  # whose they are cannot be said
            return mode & ~library.TF32 & ~library.TF32_BACKWARD
        forward = any([rounds for rounds, *_ in found])
        backward = any([any(rounds) for _, *rounds in found])
        mode &= ~(0 if forward else library.TF32) & ~(0 if backward else library.TF32_BACKWARD)
        mode, strict = library.without_exceptions(mode), self.strict
        for weight, rounds in zip(self.weights, found):
            for leaf in weight:
                strict[leaf] |= sum([1 << i for i, does in enumerate(rounds) if not does])
        if (forward or backward) and any(strict):
            mode |= library.products(self.handle, strict)
        return mode

    def choose(self, key: tuple, leaves: tuple, mode: int, grad: bool) -> Choice:
        choice = self.measured.near("choice", key)
        if choice is None:
            if leaves[0].is_cuda and torch.cuda.is_current_stream_capturing():
                return OURS
            try:
                choice = OURS if is_one_of_many() else self.weigh(leaves, key[2], mode, grad)
            except RuntimeError as error:
                if not fallback.ran_out_of_memory(error):
                    raise
                return OURS  # for this call; the next one is measured
            self.measured.add("choice", key, choice)
        self.choices[key] = choice
        return choice

    def weigh(self, leaves: tuple, sizes: tuple, mode: int, grad: bool, rival=None) -> Choice:
        with unseen():
            choice = self.measure(leaves, sizes, mode, grad, rival)
            if choice.needs_more_memory and self.on_cuda:
                lean = self.measure(leaves, sizes, mode | library.LEAN, grad, rival)
                if lean.takes_ours:
                    choice = replace(lean, lean=True)
        return choice

    def measure(self, leaves: tuple, sizes: tuple, mode: int, grad: bool, rival=None) -> Choice:
        """PyTorch's own way is a candidate: a few calls of each decide, on the tensors at hand. `rival`: that way as Inductor made it,
        beside which the device's time counts, or its seconds."""
        own, ours = self.timed(leaves, sizes, mode, grad)
        pytorch = rival if callable(rival) else lambda *leaves: self.eager(*leaves, *sizes)
        calls = (lambda: step(ours, own), lambda: step(pytorch, own))
        if isinstance(rival, float):
            times = (*fastest_on_device(calls[:1], leaves[0]), rival)
        else:
            times = (fastest_on_device if rival else fastest)(calls, leaves[0])
        wanted = [i for i, leaf in enumerate(own) if leaf.requires_grad]
        theirs = peak_of(self.eager, own, sizes, wanted)
        if theirs is None:
            return Choice(*times)
        parameters = total([leaf for i, leaf in enumerate(own) if i not in self.inputs])
        device, budget = "cuda" if self.on_cuda else "cpu", self.options.memory
        choice = Choice(*times, self.bytes(own, sizes, mode, wanted), theirs, parameters, device, budget=budget)
        if choice.needs_more_memory and choice.ours <= EVEN * choice.pytorch and self.on_cuda:
            # cuDNN may take as much again for itself as its tensors have (copies in another layout): what is allocated counts.
            needed = [allocated(lambda call=call: step(call, own), leaves[0]) for call in (ours, pytorch)]
            choice = Choice(*times, *needed, parameters, device, budget=budget)
        return choice

    def timed(self, leaves: tuple, sizes: tuple, mode: int, grad: bool) -> tuple[list, object]:
        """Leaves of a trial's own, and ours as a function of them."""
        own = [leaf.detach().requires_grad_(grad and leaf.requires_grad) for leaf in leaves]

        def ours(*leaves):
            if grad:
                return library.with_gradient((self.program, self.gradient, sizes, mode), *leaves)
            return library.run_detached(leaves, self.handle, sizes, mode)

        return own, ours

    def bytes(self, leaves: list, sizes: tuple, mode: int, wanted: list[int]) -> int:
        """What a call needs at its peak, as its plans say: results, what is kept for the gradient, and scratch."""
        if not wanted:
            return total(library.run_detached(leaves, self.handle, sizes, mode)) + library.scratch(
                leaves, self.handle, sizes, mode, ()
            )
        wants = tuple([i in wanted for i in range(self.leaf_count)])
        keep, shared, _ = self.program.kept(wants, leaves, sizes)
        with torch.no_grad():
            results = library.run_keeping(leaves, self.handle, sizes, mode, keep)
            self.kept = [*results[self.outputs :], *[results[i] for i in shared]]
            self.kept = [(library.DTYPES[t.dtype], list(t.shape), t.untyped_storage().nbytes()) for t in self.kept]
            forward = total(results) + library.scratch(leaves, self.handle, sizes, mode, keep)
            flows = [i for i, reached in enumerate(self.reach) if any(j in wanted for j in reached)]
            gradients = [torch.ones_like(results[i]) for i in flows]
            given = [*gradients, *results[self.outputs :], *[results[i] for i in shared]]
            scratch = library.scratch_backward(leaves, given, self.handle, sizes, mode, flows, wanted, keep)
        return max(forward, total(results) + total(gradients) + total([leaves[i] for i in wanted]) + scratch)


class Ready(dict):
    """Layouts of calls and their modes."""

    __slots__ = ("__weakref__",)
    __hash__, __eq__ = object.__hash__, object.__eq__


class Measured:
    """What was measured, by its kind and by mode, layout and ranks of a call. A size within a factor of two of a measured one
    decides alike: a hundred lengths are not measured each. (One that was itself taken over does not count: by small steps any
    size would be decided by the first.)"""

    def __init__(self):
        self._found: dict = {}  # → [(numbers in the inputs, what was found)]

    @staticmethod
    def _place(kind: str, key: tuple) -> tuple:
        mode, shapes, _, layout = key
        return (kind, mode, layout, tuple([len(s) for s in shapes])), sum([s.numel() for s in shapes])

    def near(self, kind: str, key: tuple):
        alike, numbers = self._place(kind, key)
        for others, found in self._found.get(alike, ()):
            if others <= 2 * numbers and numbers <= 2 * others:
                return found
        return None

    def add(self, kind: str, key: tuple, found) -> None:
        alike, numbers = self._place(kind, key)
        self._found.setdefault(alike, []).append((numbers, found))

    def clear(self) -> None:
        self._found.clear()


class RegionCall(nn.Module):
    """The node that stands for a region in a cut graph."""

    def __init__(self, region: Region):
        super().__init__()
        self.region = region

    def forward(self, *arguments):
        return self.region.module_call(arguments)

    def extra_repr(self) -> str:
        return f"{len(self.region.ops)} operators"
