"""What besides its inputs decides which graph of a module holds: its parts, their flags and plain attributes, and hooks.

A graph is captured with the numbers and names that forward() reads from the module (`self.alpha`, a mode, a list of factors)
as they are then. So they are part of the key under which the graph is found again.
"""

from __future__ import annotations

import operator
import types

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from transfuse.capture.derived import written
from transfuse.capture.generators import state_of
from transfuse.capture.outside import Outside, is_number, value_at
from transfuse.capture.questions import PATH
from transfuse.capture.reads import NUMBERS, Same, exact, is_plain, parts_of, snapshot
from transfuse.pytorch.torch_private import any_autocast, forward_ad, functorch_stack, is_tracing

# Hooks on all modules: they want to see every one called.
_EVERYWHERE = [
    getattr(nn.modules.module, f"_global_{kind}_hooks")
    for kind in ("forward", "forward_pre", "backward", "backward_pre")
]
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Watch:
    """The places to look at, found once; only reading them is left for every call."""

    def __init__(self, module: nn.Module, reads=frozenset()):
        """`reads`: attributes that a forward() was seen to read beside public numbers and lists of them, as (path, name)."""
        self.modules = list(module.modules())
        tables = [m.__dict__ for m in self.modules]
        self.sizes = [(table, len(table)) for table in tables]
        self.children = [(t["_modules"], list(t["_modules"].values())) for t in tables]
        self.plain, self.lists = [], []
        for table in tables:
            names = [
                name
                for name, value in table.items()
                if name in ("training", "forward") or (name[0] != "_" and is_plain(value))
            ]
            if names:  # a scripted module keeps its own elsewhere
                self.plain.append((operator.itemgetter(*names), table))
            listed = [
                name
                for name, value in table.items()
                if isinstance(value, list) and name[0] != "_" and all(map(is_plain, value))
            ]
            self.lists += [(table, name) for name in listed]
        # 1, 1.0 and True are equal, and not the same to a forward() of the user's.
        self.numbers = []
        for part in self.modules:
            if not type(part).__module__.startswith("torch."):
                names = [
                    n for n, v in part.__dict__.items() if n[0] != "_" and n != "training" and isinstance(v, NUMBERS)
                ]
                self.numbers += [(operator.itemgetter(*names), part.__dict__, len(names))] if names else []
        # Whoever gives a part another class, or a class another forward(), means the next call. (The root's class is ours.)
        self.kinds = list(map(type, self.modules[1:]))
        kinds = [written(type(module)), *self.kinds]
        self.classes = [k for k in dict.fromkeys(kinds) if not issubclass(k, torch.jit.ScriptModule)]
        self.outside = Outside(module).places()
        parts = parts_of(module)
        self.read = [(parts[path], name) for path, name in sorted(reads) if path in parts]
        # The root's own hooks run around forward(), outside of what is captured.
        self.hooks = [t[name] for t in tables[1:] for name in HOOKS]
        self.parameters = [t[kind] for t in tables for kind in ("_parameters", "_buffers")]
        # A forward() may read how long its own parameters are: len(self.scale). Those of PyTorch's layers do not.
        users = [m for m in self.modules if not written(type(m)).__module__.startswith("torch.")]
        self.shaped = [table for m in users if (table := m.__dict__["_parameters"])]

    def holds(self) -> bool:
        """Whether the module still has the parts and attributes that are watched, and the parts their classes."""
        for table, size in self.sizes:
            if len(table) != size:
                return False
        for table, children in self.children:
            if len(table) != len(children) or any([a is not b for a, b in zip(table.values(), children)]):
                return False
        kinds = list(map(type, self.modules[1:]))
        # In another thread parts may just be optimised ones (calls/apart.py).
        return kinds == self.kinds or list(map(written, kinds)) == list(map(written, self.kinds))

    def state(self) -> tuple:
        """Equal as long as nothing watched has changed."""
        return (
            tuple([get(table) for get, table in self.plain]),
            tuple([tuple([(k, p.dtype) for k, p in t.items() if p is not None]) for t in self.parameters]),
            tuple([tuple([(k, p.shape) for k, p in _filled(t)]) for t in self.shaped]) if self.shaped else None,
            tuple([tuple(_kinds(get(table), count)) for get, table, count in self.numbers]),
            tuple([exact(tuple(table[name])) for table, name in self.lists]) if self.lists else None,
            tuple([tuple(h) for h in self.hooks if h]) if any(self.hooks) else None,
            tuple([snapshot(getattr(part, name, None)) for part, name in self.read]) if self.read else None,
            tuple([_kept(value_at(*place)) for place in self.outside]) if self.outside else None,
            tuple([kind.forward for kind in self.classes]),
        )

    def tests(self) -> tuple[list[str], dict]:
        """The present state and autocast as expressions, with the names in them: whether nothing has changed since. They stand
        before every call, so they compare where things lie, many of them at once, and build little."""
        names: dict = {
            "functorch": functorch_stack,
            "tracing": is_tracing,
            "autocast": any_autocast,
            "forward_ad": forward_ad,
        }

        def named(value) -> str:
            names[name := f"v{len(names)}"] = value
            return name

        # Under vmap, torch.func.grad, torch.jit.trace, dual numbers, … a transform needs to see PyTorch's own operators.
        tests = ["functorch() is None", "not tracing()", "forward_ad._current_level < 0"]
        if (casts := autocast_state()) is None:
            tests.append("not autocast()")
        else:
            tests.append(f"{named(autocast_state)}() == {named(casts)}")
        tables = [table for table, _ in self.children] + self.parameters + self.hooks
        names["nothing"] = _EVERYWHERE + [table for table in tables if not table]
        tests.append("not any(nothing)")
        filled = [table for table, _ in self.sizes] + [table for table in tables if table]
        tests.append(f"[*map(len, {named(filled)})] == {named([*map(len, filled)])}")
        kinds = {kind: named(kind) for kind in [*self.classes, *self.kinds]}
        tests += [f"type({named(part)}) is {kinds[kind]}" for part, kind in zip(self.modules[1:], self.kinds)]
        tests += [f"{kinds[kind]}.forward is {named(kind.forward)}" for kind in self.classes]
        for table, _ in self.children:
            where = named(table) if table else ""
            tests += [f"{where}[{key!r}] is {named(child)}" for key, child in table.items()]
        for table in self.parameters:
            where = named(table) if table else ""
            tests += [
                f"{where}[{key!r}] is None" if tensor is None else f"{where}[{key!r}].dtype is {named(tensor.dtype)}"
                for key, tensor in table.items()
            ]
        for table in self.shaped:
            where = named(table)
            tests += [f"{where}[{key!r}].shape == {named(p.shape)}" for key, p in _filled(table)]
        tests += [f"{named(get)}({named(table)}) == {named(get(table))}" for get, table in self.plain]
        for get, table, count in self.numbers:
            values = f"{named(get)}({named(table)})"
            kinds_of = f"[*map(type, {values})]" if count > 1 else f"[type({values})]"
            tests.append(f"{kinds_of} == {named(_kinds(get(table), count))}")
        tests += [
            f"{named(exact)}(tuple({named(table)}[{name!r}])) == {named(exact(tuple(table[name])))}"
            for table, name in self.lists
        ]
        tests += [
            f"{named(snapshot)}(getattr({named(part)}, {name!r})) == {named(snapshot(getattr(part, name, None)))}"
            for part, name in self.read
        ]
        tests += [f"tuple({named(hooks)}) == {named(tuple(hooks))}" for hooks in self.hooks if hooks]
        for place, name in self.outside:
            now, where = value_at(place, name), ".cell_contents" if name is None else f"[{name!r}]"
            value = f"{named(place)}{where}"
            tests.append(
                f"{named(exact)}({value}) == {named(exact(now))}" if is_number(now) else f"{value} is {named(now)}"
            )
        return tests, names

    def bare(self, tests: list[str], names: dict) -> tuple[list[str], dict]:
        """The same, and whether a call of the module is its forward(): no hooks on it, no torch.compile of its own."""
        table = self.sizes[0][0]
        own = {"own": table, "nothing": names["nothing"] + [table[name] for name in HOOKS]}
        return ["own.get('_compiled_call_impl') is None", "'forward' not in own", *tests], names | own


def _filled(parameters: dict) -> list[tuple[str, torch.Tensor]]:
    return [(name, p) for name, p in parameters.items() if p is not None and not is_lazy(p)]


def _kinds(values, count: int) -> list[type]:
    """Of what an itemgetter of so many names gives."""
    return [*map(type, values)] if count > 1 else [type(values)]


def _kept(value):
    if isinstance(value, (torch.Tensor, types.FunctionType)):
        return Same(value)
    return exact(value) if is_number(value) else (Same(value), state_of(value))


def attributes(module: nn.Module, reads) -> list[tuple[str, str, object]] | None:
    """The plain attributes of a module's parts and those that were read, as (path, name, value): what a tracer of Python code can
    compare. None: something was read that is no number, name or list of them."""
    if any(path == PATH for path, _ in reads):
        return None  # a tracer has modes of its own
    found = {}
    parts = dict(module.named_modules())
    for path, part in parts.items():
        for name, value in part.__dict__.items():
            listed = isinstance(value, list) and all(map(is_plain, value))
            if name[0] != "_" and (is_plain(value) or listed):
                found[path, name] = list(value) if listed else value
    found.update({(path, name): getattr(parts[path], name, None) for path, name in reads if path in parts})
    if not all(is_plain(value) or isinstance(value, list) for value in found.values()):
        return None
    return [(path, name, value) for (path, name), value in found.items()]


def places(module: nn.Module, tensors) -> list[tuple[dict, str, torch.Tensor]]:
    """Where a module keeps tensors that are neither parameters nor buffers: (table, name, the tensor there now)."""
    wanted = {id(t) for t in tensors}
    tables = [m.__dict__ for m in module.modules()]
    return [(table, name, value) for table in tables for name, value in table.items() if id(value) in wanted]


@torch.compiler.assume_constant_result
def is_transformed() -> bool:
    """Whether vmap, torch.func.grad, … is around; torch.compile asks it where it traces, and looks at what it is called in itself."""
    return functorch_stack() is not None


def watched_from_outside() -> bool:
    """vmap, torch.func.grad, torch.jit.trace, dual numbers, …, and hooks on all modules: they need to see PyTorch's own operators and
    modules."""
    return functorch_stack() is not None or is_tracing() or forward_ad._current_level >= 0 or any(_EVERYWHERE)


def autocast_state():
    if not any_autocast():
        return None
    return tuple(
        torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None for kind in ("cpu", "cuda")
    )
