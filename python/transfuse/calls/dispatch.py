"""Which graph runs a call of an optimised module: one that was found before, one captured for other sizes, a new one, or none."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import torch
from torch import nn
from torch.compiler import is_compiling

from transfuse import fallback
from transfuse.calls.apart import Apart
from transfuse.calls.remembered import Bound, Entry, Recall, State, ties
from transfuse.capture.capture import capture
from transfuse.capture.guards import Watch, attributes, autocast_state, is_transformed, places, watched_from_outside
from transfuse.capture.identity import are_distinct, identities
from transfuse.capture.literals import numbers_of
from transfuse.capture.outside import in_tables, replaced
from transfuse.capture.questions import is_strided, layout
from transfuse.capture.refusals import CaptureError, LastingError, Slow, Unsettled, ValueDependent
from transfuse.capture.views import plain_view
from transfuse.cut.regions import cut
from transfuse.pytorch import trials
from transfuse.pytorch.torch_private import pytree

# As many graphs as torch.compile would make:
MOST_VARIANTS = 8  # of a module whose attributes change
MOST_VALUES = 8  # of calls that differ in arguments that are no tensors
MOST_SIZES = 16  # of calls that differ in sizes alone, where each graph holds for one size
# Captures that fail: of calls that differ in sizes alone, and of a module in all.
MOST_FAILED, MOST_FAILURES = 2, 8


def _flatten(args: tuple, kwargs: dict):
    if not kwargs and all(isinstance(a, torch.Tensor) for a in args):
        return list(args), None
    flat, spec = pytree.tree_flatten((args, kwargs))
    return flat, spec


def _shapes(flat: list):
    return tuple([(a.shape, a.dtype, a.device) if isinstance(a, torch.Tensor) else _value(a) for a in flat])


def _ranks(flat: list):
    return tuple([(a.dim(), a.dtype, a.device) if isinstance(a, torch.Tensor) else _value(a) for a in flat])


def _kinds(flat: list):
    return tuple([(a.dim(), a.dtype, a.device) if isinstance(a, torch.Tensor) else type(a) for a in flat])


def _form(module: nn.Module, state: State, flat: list, spec) -> tuple:
    """What holds which inputs, and which of them are one tensor."""
    watch = state.watch or Watch(module, state.reads)  # another thread may be about to set it
    return spec, identities(module, watch.parameters, flat)


def _looks(module: nn.Module, flat: list) -> tuple:
    """What a forward() may see that asks how its tensors lie and whether they want gradients."""
    inputs = [layout(a) if isinstance(a, torch.Tensor) else None for a in flat]
    return tuple(inputs), tuple([p.requires_grad for p in module.parameters()])


def _value(a):
    return (type(a), a) if _is_hashable(a) else id(a)


def _mode(module: nn.Module, state: State, flat: list) -> tuple:
    """What besides the sizes and types of inputs decides which graph holds."""
    watch = state.watch
    found = watch.state() if watch is not None and watch.holds() else None
    if found is None or not _is_hashable(found):  # there is a list where a number was
        with state.lock:
            # Another structure: what was bound to the old one's tables must not be found again.
            state.watch = watch = Watch(module, state.reads)
            state.captures, state.traceable, state.variants = {}, [], set()
            state.entries.clear(), state.barred.clear(), state.values.clear(), state.failed.clear()
            state.bound, state.recalls, state.recall = {}, {}, None
        found = watch.state()
    return found, autocast_state(), _looks(module, flat) if state.looks else None


def _is_hashable(value) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def called(module: nn.Module, state: State, args: tuple, kwargs: dict):
    """The forward() of an optimised module."""
    if is_compiling() and trials.traced():
        return traced(module, state, args, kwargs)
    recall = state.recall
    if recall is not None and not kwargs and (call := recall.find(args)) is not None:
        return call(*args)
    return forward(module, state, args, kwargs)


def forward(module: nn.Module, state: State, args: tuple, kwargs: dict):
    if watched_from_outside():
        return _plain(module, state, args, kwargs)
    if state.refused is not None:
        return _apart(module, state, args, kwargs)
    flat, spec = _flatten(args, kwargs)
    if spec is not None and any([isinstance(a, torch.fx.Proxy) for a in flat]):  # torch.fx.symbolic_trace
        return _plain(module, state, args, kwargs)
    if _refuse_layouts(module, state, flat):
        return _plain(module, state, args, kwargs)
    return _in_mode(module, state, args, kwargs, flat, spec, _mode(module, state, flat))


def _refuse_layouts(module: nn.Module, state: State, flat: list) -> bool:
    found = not all(map(is_strided, flat))
    if found:
        reason = f"{type(module).__name__} was given a tensor that is not laid out by strides"
        fallback.give_up(reason, state.options, state.said)
    return found


def _in_mode(module: nn.Module, state: State, args, kwargs, flat: list, spec, mode: tuple):
    form = _form(module, state, flat, spec)
    key = (mode, _shapes(flat), form)
    entry = state.entries.get(key)
    if entry is None or (entry.__class__ is Bound and entry.conditional and not entry.fits()):
        loose = (mode, _ranks(flat), form)
        with state.lock:
            entry = _admitted(module, state, flat, key, loose)
        if entry is None:
            entry = _find(module, state, args, kwargs, flat, form, mode, key, loose)
            mode = _mode(module, state, flat)
    if isinstance(entry, Refusal):
        result = _plain(module, state, args, kwargs)  # if PyTorch refuses as well, its error is the one to see
        entry.remember(state)
        return result
    if isinstance(entry, str):
        return _apart(module, state, args, kwargs)
    if spec is None and not state.looks and not any([isinstance(place, str) for place in form[1] or ()]):
        _remember(module, state, mode, flat, entry)
    return entry.call(*flat)


def _meeting(module: nn.Module, state: State, mode: tuple):
    """What runs inputs of a new size in a state of the module that was just found to hold: it need not be described again."""
    own = weakref.ref(module)

    def meet(*args):
        if state.refused is None and all([isinstance(a, torch.Tensor) and is_strided(a) for a in args]):
            return _in_mode(own(), state, args, {}, list(args), None, mode)
        return forward(own(), state, args, {})

    return meet


def _remember(module: nn.Module, state: State, mode: tuple, flat: list, entry: Bound) -> None:
    """So that the next such call is found without describing the module first."""
    with state.lock:
        recall = state.recalls.get(mode)
        if recall is None:
            if len(state.recalls) > MOST_VARIANTS:
                return
            recall = state.recalls[mode] = Recall(state.watch, _meeting(module, state, mode))
        recall.remember(flat, entry)
        state.recall = recall


def traced(module: nn.Module, state: State, args, kwargs):
    """Inside torch.compile or torch.export: a captured graph that surely fits, else PyTorch's own forward."""
    flags = [child.training for child in module.modules()]
    flat, spec = _flatten(args, kwargs)
    grad = torch.is_grad_enabled()
    for entry in state.traceable if not is_transformed() and are_distinct(module, flat) else ():
        known = entry.capture
        if known.has_parts or known.literal or known.identities is not None or (grad and known.own_gradient):
            continue
        if entry.flags == flags and entry.spec == spec and entry.describes(module) and known.admits(flat):
            return entry.traced(module, flat)
    return state.base.forward(module, *args, **kwargs)


def _plain(module: nn.Module, state: State, args, kwargs):
    return state.base.forward(module, *args, **kwargs)


def _apart(module: nn.Module, state: State, args, kwargs):
    """A call that is not captured. Where nothing of the module is, its parts are, each on its own."""
    # (A first call makes lazy parts what they will be.)
    lazy = state.apart is None and any(map(nn.parameter.is_lazy, module.parameters()))
    if lazy or (state.captures and state.refused is None):
        return _plain(module, state, args, kwargs)
    with state.lock:
        if state.apart is None:
            state.apart = Apart(module, state, called)
    with state.apart:
        return _plain(module, state, args, kwargs)


def _admitted(module, state: State, flat: list, key: tuple, loose: tuple):
    """What was found for such a call, or a graph captured for other sizes that holds for these; None: neither."""
    known = state.entries.get(key)
    if isinstance(known, str) or (known is not None and known.fits()):
        return known
    for entry in state.captures.get(loose, ()):
        if entry.capture.admits(flat) and (candidate := _bound(module, state, entry)).fits():
            state.entries[key] = candidate
            return candidate
    return state.closed or state.barred.get(loose) or state.barred.get((loose[0], _kinds(flat), loose[2]))


def _find(module, state: State, args, kwargs, flat, form, mode, key, loose):
    with state.lock:
        if (known := _admitted(module, state, flat, key, loose)) is not None:
            return known  # another thread's
        if len(state.variants) <= MOST_VARIANTS:
            state.variants.add(mode)
        if len(state.variants) > MOST_VARIANTS and len(state.captures) > MOST_VARIANTS:
            reason = f"attributes of {type(module).__name__} take ever new values, each of which is another graph"
            refuse(module, reason)
            return reason
        met = state.values.setdefault((mode, _kinds(flat), form), set())
        if len(met) >= MOST_VALUES and loose not in met:
            reason = (
                f"{type(module).__name__} is given ever new values that are no tensors, each of which is another graph "
                f'(tensors, or torch.compile(…, backend="transfuse"), make it one): calls but for the first {MOST_VALUES}'
            )
            state.barred[mode, _kinds(flat), form] = reason
            state.failures.append(reason)
            fallback.give_up(reason, state.options, state.said)
            return reason
        met.add(loose)
        held = [entry for entry in state.captures.get(loose, ()) if entry.places]
        if sum(not _bound(module, state, entry).fits() for entry in held) >= MOST_VALUES:
            reason = (
                f"tensors that {type(module).__name__} holds are ever new ones (buffers would be inputs of one graph)"
            )
            state.barred[loose] = reason
            state.note(reason)
            fallback.give_up(reason, state.options, state.said)
            return reason
        try:
            if (function := replaced(state.watch.outside)) is not None:
                raise CaptureError(f"{function} has been replaced")
            entry = _capture(module, state, args, kwargs, form[1], state.captures.get(loose, ()))
        except Exception as error:
            reason = f"{type(module).__name__} could not be captured ({_first_line(error)})"
            if state.options.require_full_compilation:
                _try_plainly(module, state, args, kwargs)
                raise RuntimeError(f"transfuse: {reason}") from error
            return Refusal(reason, error, key, loose)
        if state.options.require_full_compilation:
            left = [line for line in entry.cut.lines if line.left]
            if left:
                raise RuntimeError(
                    f"transfuse: require_full_compilation, but {left[0].op} stays with PyTorch: {left[0].reason}"
                )
        if entry.capture.own_gradient:
            fallback.warn(entry.capture.own_gradient, state.said)
            state.note(entry.capture.own_gradient)
        if not entry.capture.reads <= state.reads or entry.capture.looks > state.looks:
            # From now on these are looked at as well: whatever was found without that is not found again.
            state.reads |= entry.capture.reads
            state.looks |= entry.capture.looks
            state.watch = None
            mode = _mode(module, state, flat)
            key, loose = (mode, *key[1:]), (mode, *loose[1:])
        entry.flags, entry.spec = [child.training for child in module.modules()], form[0]
        entry.places = places(module, entry.capture.constants.values())
        entry.numbers = numbers_of(module) if entry.capture.literal else []
        entry.outside = in_tables(state.watch.outside)
        untold = entry.capture.looks or entry.outside is None
        entry.attributes = None if untold else attributes(module, entry.capture.reads)
        entry.ties = ties(module)
        state.captures.setdefault(loose, []).append(entry)
        state.unsettled, state.put_off = None, None
        state.traceable.append(entry)
        state.entries[key] = _bound(module, state, entry)
        return state.entries[key]


def _bound(module: nn.Module, state: State, entry: Entry) -> Bound:
    if entry not in state.bound:
        state.bound[entry] = entry.bind(module, state)
    return state.bound[entry]


def _try_plainly(module: nn.Module, state: State, args, kwargs) -> None:
    """Raises PyTorch's error if PyTorch refuses such a call too. Only where a trial leaves no trace: nothing in training keeps
    statistics or draws random numbers."""
    if not any(m.training for m in module.modules()):
        with torch.no_grad():
            plain_view(module, state.base).forward(*args, **kwargs)


@dataclass
class Refusal:
    """A call that could not be captured, before it is known whether PyTorch can run it."""

    reason: str
    error: Exception
    key: tuple
    loose: tuple

    def remember(self, state: State) -> None:
        """Once PyTorch has run the call."""
        with state.lock:
            settles = isinstance(self.error, Unsettled) and state.unsettled != self.key[1:]
            if settles and state.refusals < MOST_FAILURES - 1:
                # What it computes once may be there now: the next such call is looked at anew.
                state.unsettled = self.key[1:]
                state.refusals += 1
                return
            state.tell(self.reason)
            state.entries[self.key] = self.reason
            state.failed[self.loose] = often = state.failed.get(self.loose, 0) + 1
            if isinstance(self.error, ValueDependent) or often >= MOST_FAILED:
                state.barred[self.loose] = self.reason
            state.refusals += 1
            if state.refusals >= MOST_FAILURES:
                state.closed = self.reason
            if isinstance(self.error, LastingError):
                if state.captures:  # which hold where they held
                    state.closed = self.reason
                else:
                    state.refused = self.reason


def _capture(module, state: State, args, kwargs, same: tuple | None, known: list[Entry]) -> Entry:
    """`same`: which inputs are one tensor. `known`: captured for calls that differ in sizes alone."""
    attempts = [(True, False), (False, False)] if state.dynamic and not state.slow else [(False, False)]
    many = sum(not entry.capture.dynamic for entry in known) >= MOST_SIZES
    if many:  # one for all sizes, though it takes less
        attempts.pop()
    elif any(entry.capture.literal for entry in known):
        attempts = [(False, True)]
    error = None
    while attempts:
        dynamic, literal = attempts.pop(0)
        try:
            captured = capture(module, state.base, args, kwargs, same, dynamic, literal)
        except Slow as problem:
            error, state.slow = error or problem, True  # with sizes fixed there is less to solve
            continue
        except ValueDependent as problem:
            error = error if literal else problem
            attempts = [(False, True)] if not (literal or many) and numbers_of(module) else []
            continue
        except CaptureError:
            raise
        except Exception as problem:  # torch.export raises many kinds
            error = error or problem
            continue
        result = cut(captured.graph_module, captured.parameter_names, state.options, captured.placed_constants())
        if dynamic and result.lost_to_sizes() and not many:
            continue  # with sizes fixed more can be taken; other sizes will be captured on their own
        return Entry(captured, result)
    raise error or ValueDependent(f"each size of its inputs is another graph, and {MOST_SIZES} are known")


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    if lines and isinstance(error, CaptureError):
        return lines[0]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def prepare(module: nn.Module, args: tuple, kwargs: dict) -> None:
    """Captures for inputs like these in the module's present mode, without running it."""
    state: State = module.__dict__["_transfuse"]
    flat, spec = _flatten(args, kwargs)
    if _refuse_layouts(module, state, flat):
        return
    mode = _mode(module, state, flat)
    form = _form(module, state, flat, spec)
    key = (mode, _shapes(flat), form)
    if key not in state.entries:
        found = _find(module, state, args, kwargs, flat, form, mode, key, (mode, _ranks(flat), form))
        if isinstance(found, Refusal):
            _try_plainly(module, state, args, kwargs)
            if isinstance(found.error, Unsettled):  # which the first call settles
                state.put_off = found.reason
            else:
                found.remember(state)


def refuse(module: nn.Module, reason: str) -> None:
    state: State = module.__dict__["_transfuse"]
    fallback.give_up(reason, state.options, state.said)
    state.refuse(reason)
