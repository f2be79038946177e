"""Parts of a model that stay PyTorch's: in the captured graph each of their calls is one node, in which the part itself runs.

A part with hooks is one. Its forward hooks stand after it, so what it computes can still be taken, and only the hooks are a node; other
hooks (before it, or in backward) may do anything to how it runs, so all of it is a node.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.nn.utils.prune import BasePruningMethod

from transfuse.capture.reads import Reads, is_plain
from transfuse.capture.refusals import CaptureError
from transfuse.pytorch.torch_private import DisableTorchFunction, pytree
from transfuse.recent import MOST_SIZES, Recent

KEPT = "kept"  # in node.meta: the call of a part that the node stands for


class Unlike(Exception):
    """A part gave something of other sizes or types than its forward() gives, so that the graph does not hold."""


def weight_hook(hook) -> bool:
    """Pre-hooks that only compute a weight are part of the computation and captured with it."""
    return type(hook).__name__ in ("WeightNorm", "SpectralNorm") or isinstance(hook, BasePruningMethod)


def _hooks(part: nn.Module) -> tuple[list, list]:
    """Those that stand after forward(), and those that may do anything."""
    after = [hook for key, hook in part._forward_hooks.items() if key not in part._forward_hooks_always_called]
    around = [part._forward_hooks[key] for key in part._forward_hooks_always_called]
    around += [hook for hook in part._forward_pre_hooks.values() if not weight_hook(hook)]
    return after, around + [*part._backward_hooks.values(), *part._backward_pre_hooks.values()]


def hooks_inside(module: nn.Module) -> list[tuple[str, object]]:
    """Of its parts, with their paths."""
    return [(path, hook) for path, part in module.named_modules() if path for hooks in _hooks(part) for hook in hooks]


def _reason(part: nn.Module) -> str | None:
    after, around = _hooks(part)
    if not after and not around:
        return None
    hook = (around or after)[0]
    return f"it has a hook ({getattr(hook, '__name__', type(hook).__name__)})"


@dataclass
class Kept:
    """One call of a part in a graph. Called with the tensors and numbers that the node is given, gives tensors."""

    part: nn.Module
    path: str
    whole: bool  # else its hooks alone, given what forward() was given and gave
    reason: str
    given: pytree.TreeSpec = None
    constants: list = field(default_factory=list)  # of what is given: (its kind, or None and the value)
    gives: pytree.TreeSpec = None
    made: list = field(default_factory=list)  # the results as a tracer sees them
    same: dict[int, int] = field(default_factory=dict)  # which results lie in the memory of which given tensors
    written: list[int] = field(default_factory=list)  # given tensors that are changed
    symbols: list = field(default_factory=list)  # of the given tensors, the sizes as a tracer sees them
    _expected: Recent = field(default_factory=lambda: Recent(MOST_SIZES))

    @property
    def title(self) -> str:
        kind = type(self.part).__name__
        return kind if self.whole else f"hook of {kind}"

    def __call__(self, *values):
        values = iter(values)
        tensors = [next(values) for kind, _ in self.constants if kind == "tensor"]
        numbers = list(values)
        parts = {"tensor": iter(tensors), "number": iter(numbers)}
        flat = [value if kind is None else next(parts[kind]) for kind, value in self.constants]
        args, kwargs, *result = pytree.tree_unflatten(flat, self.given)
        if self.whole:
            result = self.part(*args, **kwargs)
        else:
            result = _after_forward(self.part, args, kwargs, *result)
        leaves, spec = pytree.tree_flatten(result)
        expected = self._sizes_of(tensors)
        if spec != self.gives or len(leaves) != len(expected) or not all(map(_is_like, leaves, expected)):
            raise Unlike(f"what {self.title} {self.path} gives is not of the sizes and types that its forward() gives")
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def _sizes_of(self, tensors: list) -> list:
        """What it will give for tensors of these sizes: (shape, dtype, device), or a value."""
        key = tuple([t.shape for t in tensors])
        if (expected := self._expected.get(key)) is None:
            known = {}
            for symbols, tensor in zip(self.symbols, tensors):
                for size, number in zip(symbols, tensor.shape):
                    known.update(_solved(size, number))
            self._expected[key] = expected = [
                (tuple([_told(s, known) for s in leaf.shape]), leaf.dtype, leaf.device)
                if isinstance(leaf, torch.Tensor)
                else leaf
                for leaf in self.made
            ]
        return expected


def _solved(size, number: int) -> dict:
    """The symbol in a size a·s + b of the tracer's, which has turned out to be this number."""
    expression = size.node.expr if isinstance(size, torch.SymInt) else None
    if expression is None or len(expression.free_symbols) != 1:
        return {}
    (s,) = expression.free_symbols
    a, b = expression.coeff(s), expression.subs(s, 0)
    if a == 0 or expression != a * s + b or (number - b) % a:
        return {}
    return {s: (number - b) // a}


def _told(size, known: dict) -> int | None:
    """A size of the tracer's as a number; None: nothing that is given tells it."""
    if isinstance(size, int):
        return size
    value = size.node.expr.subs(known)
    return int(value) if value.is_Integer else None


def _is_like(leaf, expected) -> bool:
    if not isinstance(leaf, torch.Tensor):
        return not isinstance(expected, tuple) and leaf == expected
    if not isinstance(expected, tuple) or (leaf.dtype, leaf.device) != expected[1:]:
        return False
    return leaf.dim() == len(expected[0]) and all([b is None or a == b for a, b in zip(leaf.shape, expected[0])])


def _after_forward(part: nn.Module, args: tuple, kwargs: dict, result):
    """What nn.Module's call does behind forward()."""
    for key, hook in [*part._forward_hooks.items()]:
        if key in part._forward_hooks_with_kwargs:
            changed = hook(part, args, kwargs, result)
        else:
            changed = hook(part, args, result)
        result = result if changed is None else changed
    return result


# While capturing -------------------------------------------------------------------------------------------------------

_calls: dict[int, Kept] = {}
_numbers = itertools.count()

torch.library.define("transfuse::part", "(Tensor[] tensors, SymInt[] numbers, int call) -> Tensor[]")
_operator = torch.ops.transfuse.part.default
torch.fx.node.has_side_effect(_operator)


@torch.library.register_fake("transfuse::part")
def _(tensors, numbers, call):
    results = [leaf for leaf in _calls[call].made if isinstance(leaf, torch.Tensor)]
    return [torch.empty_strided(r.shape, r.stride(), dtype=r.dtype, device=r.device) for r in results]


def _no_gradient(*_):
    raise NotImplementedError("transfuse::part stands for a part of a model while it is captured, and has no gradient")


torch.library.register_autograd("transfuse::part", _no_gradient)


@contextlib.contextmanager
def kept_parts(module: nn.Module, double: nn.Module, reads: Reads):
    """While it holds, calls of parts of the double that have to stay PyTorch's become nodes; gives these, whose hooks do not run.
    `module`: whose parts they are when the graph runs."""
    first = next(_numbers)
    _calls[first] = Kept(module, "", True, "")  # so that what is added from here on can be told
    outer: list[str] = []
    hooked: list[Kept] = []
    for path, part in double.named_modules():
        reason = _reason(part) if path else None
        if reason is None or any(path.startswith(f"{other}.") for other in outer):
            continue
        if part is module.get_submodule(path):
            raise CaptureError(f"module {path} must stay PyTorch's ({reason}), and the model cannot be copied")
        whole = bool(_hooks(part)[1])
        if whole:
            outer.append(path)
        template = Kept(module.get_submodule(path), path, whole, reason)
        _replace(part, template, reads)
        hooked.append(template)
    try:
        yield hooked
    finally:
        for number in [number for number in _calls if number >= first]:
            del _calls[number]


def _replace(part: nn.Module, template: Kept, reads: Reads) -> None:
    """Gives a part of a double a forward() that is seen as a node. The hooks, copied with it, are not run while tracing, nor are
    those inside a part that stays whole."""
    original = part.forward
    part._forward_hooks.clear()
    for inner in part.modules() if template.whole else ():
        inner._forward_hooks.clear()
        for table in (inner._forward_pre_hooks, inner._backward_hooks, inner._backward_pre_hooks):
            for key in [key for key, hook in table.items() if inner is part or not weight_hook(hook)]:
                del table[key]

    def forward(*args, **kwargs):
        kept = Kept(template.part, template.path, template.whole, template.reason)
        if kept.whole:
            leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            versions = [leaf._version for leaf in leaves]
            with reads.aside(), disable_proxy_modes_tracing(), DisableTorchFunction():
                result = original(*args, **kwargs)
            kept.written = [i for i, leaf in enumerate(leaves) if leaf._version != versions[i]]
            return _noted(kept, (args, kwargs), result)
        result = original(*args, **kwargs)
        return _noted(kept, (args, kwargs, result), result)

    part.__dict__["forward"] = forward


def _noted(kept: Kept, given: tuple, result):
    """What a call gives, as the node that is put into the graph gives it."""
    if _can_be_changed((*given[0], *given[1].values())):  # by a hook, and the graph would not know
        raise CaptureError(f"module {kept.path} ({kept.reason}) is given a list or dictionary")
    flat, kept.given = pytree.tree_flatten(given)
    tensors = [value for value in flat if isinstance(value, torch.Tensor)]
    numbers = [value for value in flat if isinstance(value, torch.SymInt)]
    for value in flat:
        kind = "tensor" if isinstance(value, torch.Tensor) else "number" if isinstance(value, torch.SymInt) else None
        if kind is None and not is_plain(value):
            raise CaptureError(f"module {kept.path} ({kept.reason}) is given a {type(value).__name__}")
        kept.constants.append((kind, None if kind else value))
    kept.made, kept.gives = pytree.tree_flatten(result)
    for value in kept.made:
        if not isinstance(value, torch.Tensor) and not is_plain(value):
            raise CaptureError(f"module {kept.path} ({kept.reason}) gives a {type(value).__name__}")
    kept.symbols = [tuple(tensor.shape) for tensor in tensors]
    results = [value for value in kept.made if isinstance(value, torch.Tensor)]
    memory = {tensor.untyped_storage()._cdata: i for i, tensor in enumerate(tensors)}
    kept.same = {
        j: memory[place] for j, made in enumerate(results) if (place := made.untyped_storage()._cdata) in memory
    }
    number = next(_numbers)
    _calls[number] = kept
    outputs = iter(_operator(tensors, numbers, number))
    return pytree.tree_unflatten(
        [next(outputs) if isinstance(value, torch.Tensor) else value for value in kept.made], kept.gives
    )


def _can_be_changed(value) -> bool:
    return isinstance(value, (list, dict)) or (isinstance(value, tuple) and any(map(_can_be_changed, value)))


def place_parts(graph_module: GraphModule) -> bool:
    """In the graph, what stood for parts becomes the parts. Whether there are any."""
    found = [node for node in graph_module.graph.nodes if node.target is _operator]
    for i, node in enumerate(found):
        tensors, numbers, call = node.args
        kept = _calls[call]
        with graph_module.graph.inserting_before(node):
            placed = graph_module.graph.call_function(_function(kept, i), (*tensors, *numbers))
        placed.meta = {**node.meta, KEPT: kept}
        node.replace_all_uses_with(placed)
        graph_module.graph.erase_node(node)
    return bool(found)


def _function(kept: Kept, number: int):
    """Generated code calls functions by name."""

    def part(*values):
        return kept(*values)

    part.__name__ = part.__qualname__ = f"part_{number}"
    return part
