"""What an optimised module remembers: captured graphs, how their inputs are gathered, and which call found which."""

from __future__ import annotations

import threading
import weakref

import torch
from torch import nn

from transfuse import fallback
from transfuse.capture.capture import Capture
from transfuse.capture.guards import Watch
from transfuse.capture.identity import holds_one, repeated
from transfuse.capture.literals import Number
from transfuse.capture.parts import Unlike
from transfuse.choose import choice
from transfuse.cut.regions import Cut
from transfuse.native import library
from transfuse.options import Options
from transfuse.pytorch.torch_private import is_grad_enabled, pytree
from transfuse.recent import MOST_SIZES, Recent
from transfuse.run.direct import alone, direct
from transfuse.run.precision import allows_tf32

MOST_TOLD = 64  # that a report tells


class Entry:
    """One captured graph, cut into regions, and how its inputs are gathered from a module and a call."""

    def __init__(self, captured: Capture, result: Cut):
        self.capture, self.cut = captured, result
        self.run = self._runs()
        self.alone = None if result.options.graphs else alone(result.graph_module)
        self.flags: list = []  # the training flags it was captured with
        self.spec = None
        self.places: list = []  # where constants of the graph were found in the module
        self.numbers: list[Number] = []  # that are written down in the graph
        self.ties: list = []  # pairs of names under which the module held one tensor: the graph reads it under one of them
        self.outside: list = []  # variables that forward() reads beside the module, and their values: (table, name, value)
        self.attributes: list | None = None  # the module's when it was captured; None: not all can be told

    def _runs(self):
        options = self.cut.options
        if options.rest == "inductor" and not self.capture.has_parts:
            return choice.whole(self.cut, len(self.capture.sources), options.mode, options.graphs)
        return direct(self.cut.graph_module)

    def bind(self, module: nn.Module, state: State) -> Bound:
        owners = [self._owner(module, *source) for source in self.capture.sources]
        ties = [(*held_at(module, a), *held_at(module, b)) for a, b in self.ties]
        return Bound(self, owners, ties, weakref.ref(module), weakref.ref(state))

    def describes(self, module: nn.Module) -> bool:
        """Whether the module has the attributes it was captured with. Plain comparisons alone: torch.compile traces them, and then
        looks at these attributes before every call."""
        if self.attributes is None:
            return False
        for path, name, value in self.attributes:
            now = getattr(module.get_submodule(path), name)
            if (now is not value) if callable(value) else (now != value or type(now) is not type(value)):
                return False
        for table, name, value in self.outside:
            now = table[name]
            if (now is not value) if callable(value) or isinstance(value, torch.Tensor) else (now != value):
                return False
        for a, b in self.ties:
            (table, name), (other, other_name) = held_at(module, a), held_at(module, b)
            if table[name] is not other[other_name]:
                return False
        return True

    def traced(self, module: nn.Module, flat: list):
        """A call that a tracer watches: it sees the graph with its regions as modules."""
        values = [table[name] for table, name in [self._owner(module, *source) for source in self.capture.sources]]
        outputs = self.cut.graph_module.forward(*values, *flat)
        return pytree.tree_unflatten(outputs, self.capture.out_spec)

    def _owner(self, module: nn.Module, kind: str, target: str):
        if kind == "constant":
            return self.capture.constants, target
        return held_at(module, target)


def held_at(module: nn.Module, target: str) -> tuple[dict, str]:
    """The table that holds a parameter or buffer, and its name there."""
    path, _, name = target.rpartition(".")
    owner = module.get_submodule(path)
    return (owner._parameters if name in owner._parameters else owner._buffers), name


def ties(module: nn.Module) -> list[tuple[str, str]]:
    """The names of tensors that the module holds more than once, each with the first name of the same tensor."""
    first: dict[int, str] = {}
    held = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    pairs = [(first.setdefault(id(tensor), name), name) for name, tensor in held]
    # A part that stands in two places holds its tensors once.
    return [(a, b) for a, b in pairs if a != b and held_at(module, a)[0] is not held_at(module, b)[0]]


class Bound:
    """An entry with the places where one module keeps its parameters and buffers."""

    def __init__(self, entry: Entry, owners: list, ties: list, module: weakref.ref, state: weakref.ref):
        """`ties`: (table, name, table, name) of places that must hold one tensor. `module`: whose own forward() is called where
        the graph turns out not to hold, and what is remembered of it."""
        self.entry, self.owners, self.ties, self._module, self._state = entry, owners, ties, module, state
        self.fixed, self.own_gradient = entry.places, entry.capture.own_gradient is not None
        self.conditional = bool(self.fixed or ties or entry.numbers)
        self._makers: dict = {}
        self.call = self._compiled()
        if self.own_gradient:
            self.call = self._without_gradients(self.call)
        if entry.capture.has_parts:
            self.call = self._with_parts(self.call)

    def fits(self) -> bool:
        """Whether the tensors that were captured as constants are still the ones in the module, and what was one tensor still is."""
        return (
            all([table.get(name) is tensor for table, name, tensor in self.fixed])
            and all([a.get(name) is b.get(other) for a, name, b, other in self.ties])
            and all([number.holds() for number in self.entry.numbers])
        )

    def _plain(self, inputs: tuple):
        """The module's own forward()."""
        spec = self.entry.spec
        args, kwargs = (inputs, {}) if spec is None else pytree.tree_unflatten(inputs, spec)
        return self._state().base.forward(self._module(), *args, **kwargs)

    def _without_gradients(self, ours):
        """Where gradients may be asked for, they are some that the graph does not know."""
        return lambda *inputs: self._plain(inputs) if torch.is_grad_enabled() else ours(*inputs)

    def _with_parts(self, ours):
        """The first call is PyTorch's: what hooks collected while it ran, forward() may have given back."""
        met = False

        def call(*inputs):
            nonlocal met
            if not met:
                result = self._plain(inputs)
                met = True
                if pytree.tree_structure(result) != self.entry.capture.out_spec:
                    reason = (
                        f"what {type(self._module()).__name__} gives has in it what hooks of its parts have collected"
                    )
                    self._state().refuse(reason)
                return result
            try:
                return ours(*inputs)
            except Unlike as found:
                self._state().refuse(str(found))
                return self._plain(inputs)

        return call

    def _compiled(self):
        """The call as one function of the flat inputs, which reads every parameter where it lies."""
        spec = self.entry.capture.out_spec
        names = {"run": self.entry.run, "unflatten": pytree.tree_unflatten, "spec": spec}
        values = ", ".join([*self._tables(names), "*inputs"])
        if spec == pytree.tree_structure(0):
            result = f"run({values})[0]"
        elif spec == pytree.tree_structure((0,) * spec.num_leaves):
            result = f"tuple(run({values}))"
        else:
            result = f"unflatten(run({values}), spec)"
        return _defined("call", f"def call(*inputs):\n    return {result}\n", names)

    def _tables(self, names: dict) -> list[str]:
        names.update({f"table{i}": table for i, (table, _) in enumerate(self.owners)})
        return [f"table{i}[{name!r}]" for i, (_, name) in enumerate(self.owners)]

    def like(self, flat: list):
        """The call for inputs of these sizes, types and devices. A graph that is one region goes straight to the operator, with
        the mode that calls of this layout were found to have; a call with gradients, or one of a new layout, to the region."""
        alone = self.entry.alone
        if alone is None or self.own_gradient or self.entry.capture.out_spec != pytree.tree_structure(0):
            return self.call
        if alone[0].frozen is not None:  # which looks at its parameters
            return self.call
        switched = any([a.is_cuda and a.dtype is torch.float32 for a in flat])
        if switched not in self._makers:
            self._makers[switched] = self._maker(len(flat), switched)
        return self._makers[switched](self.entry.alone[0].ready())

    def _maker(self, count: int, switched: bool):
        """Makes such calls, each with its own table of modes. `switched`: TF32 may be allowed or not."""
        region, takes, gives = self.entry.alone
        names = {"region": region.caller(), "gave_up": region.gave_up, "mode_of": region.mode_of}
        names |= {"handle": region.handle, "grad": is_grad_enabled}
        if region.outputs == 1:
            names["run"], run = library.run_one, "run(leaves, handle, mode)"
        else:
            names["run"], run = library.run_detached, f"run(leaves, handle, (), mode)[{gives}]"
        names["allows_tf32"] = allows_tf32
        tables, inputs = self._tables(names), [f"a{i}" for i in range(count)]
        leaves = [tables[i] if i < len(tables) else inputs[i - len(tables)] for i in takes]
        layout = [f"{leaf}.is_contiguous()" for i, leaf in zip(takes, leaves) if i >= len(tables)]
        layout += ["allows_tf32()"] if switched else []
        text = f"""
def make(ready):
    def call({", ".join(inputs)}):
        leaves = ({", ".join(leaves)},)
        if grad():
            return region(*leaves)[{gives}]
        layout = {layout[0] if len(layout) == 1 else "(" + ", ".join(layout) + ",)"}
        mode = ready.get(layout)
        if mode is None:
            result = region(*leaves)[{gives}]
            if (mode := mode_of(leaves)) is not None:
                ready[layout] = mode
            return result
        try:
            return {run}
        except RuntimeError as error:
            return gave_up(error, leaves)[{gives}]
    return call
"""
        return _defined("make", text, names)


def _defined(name: str, text: str, names: dict):
    exec(compile(text, f"<transfuse {name}>", "exec"), names)
    return names[name]


class Recall:
    """A state of the module that was met, and the calls met in it. find(args): the call, if that state still holds, and `meet`
    where such inputs were not met in it; find_bare(args): the same if nothing stands around the module's forward()."""

    def __init__(self, watch: Watch, meet):
        # shape, dtype and device of each input, and which are one tensor → (call, Bound if it must be asked whether it fits, Bound)
        self.calls: dict = Recent(MOST_SIZES)
        self.meet = meet
        self.tables = watch.parameters
        held = [tensor for table in self.tables for tensor in table.values() if tensor is not None]
        self.held = {(tensor.shape, tensor.dtype) for tensor in held}
        tests, names = watch.tests()
        names |= {"calls": self.calls, "key": self.key, "meet": meet}
        self.find = _defined("find", self._text(tests), dict(names))
        tests, names = watch.bare(tests, names)
        self.find_bare = _defined("find", self._text(tests), names)

    @staticmethod
    def _text(tests: list[str]) -> str:
        condition = "\n                and ".join(tests)
        # What a test looks for may be gone, or an array where a number was: then something has changed. What is no tensor has no
        # shape, or one with no hash, and a nested tensor refuses to tell it.
        return f"""
def find(args):
    try:
        if not ({condition}):
            return None
    except (KeyError, AttributeError, TypeError, ValueError, RuntimeError):
        return None
    try:
        if len(args) == 1:
            a, = args
            call, bound, _ = calls[a.shape, a.dtype, a.device]
        else:
            call, bound, _ = calls[key(args)]
    except KeyError:
        return meet
    except (AttributeError, TypeError, RuntimeError):
        return None
    return call if bound is None or bound.fits() else None
"""

    @staticmethod
    def key(args) -> tuple:
        if len(args) == 1:
            (a,) = args
            return a.shape, a.dtype, a.device
        sizes = tuple([(a.shape, a.dtype, a.device) for a in args])
        same = repeated(args)
        return sizes if same is None else (sizes, same)

    def remember(self, flat: list, bound: Bound) -> None:
        key = self.key(flat)
        if self.calls.get(key, (None,))[-1] is not bound:  # else it is there, and another state was met in between
            call = bound.like(flat)
            if any([(a.shape, a.dtype) in self.held for a in flat]):
                call = self._asking(call)
            self.calls[key] = call, bound if bound.conditional else None, bound

    def _asking(self, call):
        """The call for inputs that could be parameters of the module themselves, by their sizes."""
        return lambda *inputs: self.meet(*inputs) if holds_one(self.tables, inputs) else call(*inputs)


class State:
    """What an optimised module remembers: its captures, and which call found which."""

    def __init__(self, base: type, options: Options, dynamic: bool, whole: State | None = None):
        """`whole`: of the module that is run apart, as which part this one is optimised."""
        self.base, self.options, self.dynamic, self.whole = base, options, dynamic, whole
        self.apart = None  # the parts that are captured each on its own, once nothing of the whole can be
        self.entries: dict = Recent(MOST_SIZES)  # full key, with shapes → Bound, or a reason to run PyTorch
        self.captures: dict = {}  # key without shapes → [Entry]
        self.traceable: list = []  # all of them, for tracers, which cannot look into keys
        self.bound: dict = {}  # Entry → Bound
        self.recalls: dict = {}  # mode → Recall
        self.recall: Recall | None = None  # the one that the last call found
        self.watch: Watch | None = None
        self.reads: frozenset = frozenset()  # what captured forwards read beside what Watch sees anyway
        self.looks = False  # whether one asked how tensors lie, or whether they want gradients
        self.variants: set = set()  # states of the module that were met
        self.failures: list[str] = []
        self.refused: str | None = None  # why no call of this module can be ours
        self.barred: dict = Recent(MOST_SIZES)  # key without shapes, or without values either → why no such call can be
        self.values: dict = Recent(MOST_SIZES)  # key without shapes and values → those with values that were met
        self.failed: dict = Recent(MOST_SIZES)  # key without shapes → how often such a call could not be captured
        self.slow = whole is not None and whole.slow  # whether it takes too long to capture it for all sizes at once
        self.refusals = 0  # of captures, in all
        self.unsettled: tuple | None = (
            None  # sizes and form of the last inputs whose call changed what the module holds
        )
        self.put_off: str | None = None  # why nothing could be captured before a first call
        self.closed: str | None = None  # why nothing more is captured
        self.said: set[str] = set() if whole is None else whole.said  # what was warned of
        self.lock = threading.RLock()

    def note(self, reason: str) -> None:
        """For the report."""
        if reason not in self.failures and len(self.failures) < MOST_TOLD:
            self.failures.append(reason)

    def reasons(self) -> list[str]:
        """Why calls are PyTorch's."""
        return list(dict.fromkeys(self.failures)) or [reason for reason in (self.refused, self.put_off) if reason]

    def tell(self, reason: str) -> None:
        """Why calls are not captured. Of a part it stands in the report alone."""
        if self.whole is None:
            fallback.warn(reason, self.said)
        self.note(reason)

    def refuse(self, reason: str) -> None:
        """From now on no call of the module is captured."""
        with self.lock:
            self.tell(reason)
            self.refused = reason
            self.recalls, self.recall = {}, None
            self.entries.clear()

    def fresh(self) -> State:
        return State(self.base, self.options, self.dynamic)

    def __deepcopy__(self, memo):
        return self.fresh()

    def __reduce__(self):
        return State, (self.base, self.options, self.dynamic)
