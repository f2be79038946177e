"""A module's forward as an ATen graph whose parameters and buffers are inputs, together with the shapes it holds for."""

from __future__ import annotations

import functools
import inspect
import linecache
import traceback
from dataclasses import dataclass, is_dataclass

import torch
from torch import nn
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from transfuse.capture.between import between
from transfuse.capture.guards import Watch
from transfuse.capture.identity import restored
from transfuse.capture.literals import Number, numbers_of, without_arithmetic, written_down
from transfuse.capture.parts import hooks_inside, kept_parts, place_parts
from transfuse.capture.questions import PATH
from transfuse.capture.reads import Reads, tensors_in
from transfuse.capture.refusals import CaptureError, LastingError, Unsettled, ValueDependent
from transfuse.capture.tracing import anchor_device_guard, capturing_here
from transfuse.capture.views import doubled, obstacle, plain_view
from transfuse.pytorch.torch_private import SIZE_GUARDS, FakeTensor, pytree
from transfuse.pytorch.trials import unseen
from transfuse.pytorch.versions import untested


@dataclass
class Capture:
    graph_module: torch.fx.GraphModule
    sources: list[tuple[str, str]]  # of each lifted placeholder: ("parameter" | "buffer" | "constant", dotted name)
    constants: dict[str, torch.Tensor]
    parameter_names: set[str]  # names of placeholders that hold parameters, buffers and constants
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    dynamic: bool
    # Of each user input: its sizes as (number, name, or None where a relation tells; low; high) and dtype, or None and the value.
    _inputs: list
    _relations: object  # (flat inputs) → bool, or None: what else must hold between sizes
    own_gradient: str | None = (
        None  # why it is for calls without gradients: one is asked for that the graph does not know
    )
    has_parts: bool = False  # whether parts of the model run inside it
    looks: bool = False  # whether forward() asked how tensors lie, or whether they want gradients
    literal: bool = False  # whether numbers that the model keeps in tensors are written down in it
    identities: tuple | None = None  # of the inputs, as `identity.py` has them
    reads: frozenset = frozenset()  # what forward() read beside what Watch sees anyway: (path of a module, attribute)

    def inputs(self) -> list[str]:
        """The tensors it takes, readable; sizes that may vary by name."""
        tensors = [(sizes, dtype) for sizes, dtype in self._inputs if sizes is not None]
        return [
            f"{str(dtype).removeprefix('torch.')}[{','.join(str(s[0] or '…') for s in sizes)}]"
            for sizes, dtype in tensors
        ]

    def placed_constants(self) -> dict[str, torch.Tensor]:
        """Constants by the name of their placeholder."""
        placeholders = [n for n in self.graph_module.graph.nodes if n.op == "placeholder"]
        return {
            n.name: self.constants[target]
            for n, (kind, target) in zip(placeholders, self.sources)
            if kind == "constant"
        }

    def admits(self, flat_inputs: list) -> bool:
        """Whether the graph holds for inputs of these shapes. Plain comparisons alone: torch.compile traces them, too."""
        if len(flat_inputs) != len(self._inputs):
            return False
        symbols: dict = {}
        for (sizes, kind), value in zip(self._inputs, flat_inputs):
            if sizes is None:
                if isinstance(value, torch.Tensor) or value != kind:
                    return False
                continue
            if not isinstance(value, torch.Tensor) or value.dtype != kind or value.dim() != len(sizes):
                return False
            for (size, low, high), got in zip(sizes, value.shape):
                if isinstance(size, int):
                    if size != got:
                        return False
                elif size is not None and (
                    symbols.setdefault(size, got) != got or got < low or (high is not None and got > high)
                ):
                    return False
        return self._relations is None or self._relations(flat_inputs)


def _stand_in(value):
    """A tensor with the metadata of `value`, whatever mode it was made in. Values of floats never decide what is captured. (Others are
    shown by a tensor of their own as well: torch.export writes on what it is given which sizes vary, and a capture that fails leaves
    that there.)"""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return value
    if not value.is_floating_point():
        return value.detach().requires_grad_(value.requires_grad)  # complex numbers may want one
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return made.requires_grad_(value.requires_grad)


def _dynamic_shapes(forward, module, args, kwargs):
    bound = inspect.signature(forward).bind(module, *args, **kwargs).arguments
    bound.pop(next(iter(bound)))

    def auto(value):
        if isinstance(value, torch.Tensor):
            return {i: torch.export.Dim.AUTO for i, s in enumerate(value.shape) if s > 1}
        return None

    return {name: pytree.tree_map(auto, value) for name, value in bound.items()}


def capture(
    module: nn.Module,
    base: type,
    args: tuple,
    kwargs: dict,
    identities: tuple | None = None,
    dynamic: bool = True,
    literal: bool = False,
) -> Capture:
    """`identities`: which inputs are one tensor. `literal`: numbers that the model keeps in tensors are written down, so that sizes
    may be computed from them."""
    found = obstacle(module)
    if found:
        raise CaptureError(found)
    if (hooks := hooks_inside(module)) and (found := between(module, hooks)):
        raise ValueDependent(found)
    view = doubled(plain_view(module, base))
    reads = Reads()
    numbers = [(number, number.tensor.item()) for number in numbers_of(view)] if literal else []
    changes = _note_changes(view, reads, numbers, _arranged(view, identities, [*kwargs]))
    anchor_device_guard()
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        unseen(),
        capturing_here(module),
        kept_parts(module, view, reads) as hooked,
        reads.of(view),
    ):
        args, kwargs = pytree.tree_map(_stand_in, (tuple(args), dict(kwargs)))
        paths = _paths(base.forward, view, args, kwargs)
        shapes = _dynamic_shapes(base.forward, view, args, kwargs) if dynamic else None
        try:
            program = torch.export.export(view, args, kwargs, dynamic_shapes=shapes, strict=False)
        except GuardOnDataDependentSymNode as error:
            raise ValueDependent(
                f"control flow depends on the values of a tensor{_place(error)}; "
                'torch.compile(…, backend="transfuse") takes the pieces before and after it'
            ) from error
        except Exception as error:
            if not hooked or isinstance(error, CaptureError):
                raise
            raise ValueDependent(
                f"its forward() fails where hooks of its parts do not run ({type(error).__name__}); "
                f'module {hooked[0].path}: {hooked[0].reason}; torch.compile(…, backend="transfuse") traces them'
            ) from error
        _note_users(program.graph_module.graph)
        if literal:
            without_arithmetic(program.graph_module.graph)
        has_parts = place_parts(program.graph_module)
    if reads.questions.switches_on:
        if not reads.questions.now["is_grad_enabled"]:
            raise CaptureError("its forward() switches gradients on, where they are off")
        reads.found[PATH, "is_grad_enabled"] = True
    if reads.questions.infers:
        if not reads.questions.now["is_inference_mode_enabled"]:
            raise CaptureError("its forward() enters inference mode")
        reads.found[PATH, "is_inference_mode_enabled"] = True
    if reads.questions.replaces:
        raise LastingError("its forward() gives a tensor other memory")
    if reads.questions.draws:
        raise LastingError("its forward() draws random numbers of Python's or numpy's")
    if changes or reads.written:
        what = f" ({reads.written})" if reads.written else ""
        raise Unsettled(f"its forward() changes attributes of the module{what}, or variables beside it")
    _forget_tensors(program.graph_module)
    captured = _lifted(program, dynamic, paths)
    if len(captured._inputs) != len(pytree.tree_leaves((args, kwargs))):
        raise ValueDependent("an argument is a module, or what else torch.export takes for part of the model")
    asked = reads.questions
    captured.has_parts, captured.literal, captured.identities = has_parts, literal, identities
    captured.reads, captured.looks = frozenset(reads.found), asked.looks
    own, strangers = asked.own_gradient, _name_registered(captured, view, asked.met)
    if strangers or _wants_gradients(captured.constants.values(), view):
        own = "a tensor that is no parameter of the model"
    captured.own_gradient = untested()
    if own:
        captured.own_gradient = f"{own} in {base.__name__} has a gradient of its own: where one is asked for"
    return captured


def _same_memory(tensor: torch.Tensor) -> tuple:
    return tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype


def _name_registered(captured: Capture, view: nn.Module, met: dict[int, torch.Tensor]) -> list[torch.Tensor]:
    """Constants that are parameters or buffers of the model after all get their names: functions that know the model, such as a
    forward() set on a part, lead to them past the copy that is traced. Returns the tensors that want gradients and have no name."""
    named = [("parameter", name, tensor) for name, tensor in view.named_parameters() if id(tensor) in met]
    named += [("buffer", name, tensor) for name, tensor in view.named_buffers() if id(tensor) in met]
    places = {_same_memory(tensor): (kind, name) for kind, name, tensor in named}
    for i, (kind, target) in enumerate(captured.sources):
        if kind == "constant" and target.rpartition(".")[2].startswith("lifted_tensor"):
            captured.sources[i] = places.get(_same_memory(captured.constants[target]), captured.sources[i])
    registered = {id(tensor) for kind, name, tensor in named if (kind, name) in captured.sources}
    return [tensor for key, tensor in met.items() if tensor.requires_grad and key not in registered]


def _wants_gradients(constants, view: nn.Module) -> bool:
    """Whether a constant of the graph is a tensor of the model's that gradients shall flow to: a parameter in a list, say."""
    places = {constant.untyped_storage()._cdata for constant in constants}
    registered = ("_parameters", "_buffers", "_modules")
    held = [
        tensor
        for part in view.modules()
        for name, value in part.__dict__.items()
        if name not in registered
        for tensor in tensors_in(value)
    ]
    return any(tensor.requires_grad and tensor.untyped_storage()._cdata in places for tensor in held)


def _note_users(graph: torch.fx.Graph) -> None:
    """Where torch.export sets a block without gradients apart, what the block reads forgets users that nobody uses in turn."""
    for node in graph.nodes:
        for operand in node.all_input_nodes:
            operand.users.setdefault(node)


def _forget_tensors(graph_module: torch.fx.GraphModule) -> None:
    """Tracing remembers which stand-in belongs to which tensor by weak references, and torch.utils.swap_tensors refuses to touch a
    tensor that has any."""
    modes = {
        node.meta["val"].fake_mode for node in graph_module.graph.nodes if isinstance(node.meta.get("val"), FakeTensor)
    }
    for mode in modes:
        describer = mode.fake_tensor_converter.meta_converter.describer
        describer.lookup_tensor.clear()


def _place(error: Exception) -> str:
    """The innermost line of the user's that an error came from."""
    inner = (f"{torch.__path__[0]}/", f"{__file__.rsplit('/', 2)[0]}/")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(inner)]
    if not frames:
        return ""
    file, line = frames[-1].filename, frames[-1].lineno
    return f" ({file.rpartition('/')[2]}:{line}: {linecache.getline(file, line).strip()})"


def _arranged(view: nn.Module, identities: tuple | None, names: list[str]):
    """(args, kwargs) as a tracer gives them to forward() → the same, where what was one tensor is one. `names`: of kwargs, in the
    call's order."""

    def arrange(args: tuple, kwargs: dict):
        if identities is None:
            return args, kwargs
        flat, spec = pytree.tree_flatten((args, {name: kwargs[name] for name in names}))
        return pytree.tree_unflatten(restored(view, identities, flat), spec)

    return arrange


def _note_changes(view: nn.Module, reads: Reads, numbers: list[tuple[Number, int]], arranged) -> list:
    """A list that will hold something once forward() has changed a plain attribute. (torch.export puts such changes back, so
    they must be seen before it does.) `arranged`: what its arguments go through."""
    changes: list = []
    original = view.forward

    @functools.wraps(original)
    def forward(*args, **kwargs):
        args, kwargs = arranged(args, kwargs)
        watch = Watch(view)
        before, tensors, given = watch.state(), _held(watch), pytree.tree_flatten((args, kwargs))
        with written_down(numbers), reads.forward(view):
            result = original(*args, **kwargs)
        now = pytree.tree_flatten((args, kwargs))
        if now[1] != given[1] or not _same(now[0], given[0]):
            raise ValueDependent(
                "its forward() changes a list or dictionary that it is given; "
                'torch.compile(…, backend="transfuse") knows how'
            )
        if not watch.holds() or watch.state() != before or not _same(_held(watch), tensors):
            changes.append(True)
        for part in pytree.tree_leaves(result):
            if not isinstance(part, (torch.Tensor, torch.SymInt, torch.SymFloat, int, float, str, type(None))):
                kind = type(part).__name__
                raise LastingError(
                    f"its forward() gives a {kind}, which torch.export does not know"
                    + (f" (torch.export.register_dataclass({kind}) helps)" if is_dataclass(part) else "")
                )
        return result

    view.__dict__["forward"] = forward
    return changes


def _held(watch: Watch) -> list[torch.Tensor | None]:
    """The tensors that modules hold: a buffer that forward() sets anew would not be set by a graph."""
    return [tensor for table in watch.parameters for tensor in table.values()]


def _same(some: list, others: list) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others))


def _lifted(program, dynamic: bool, paths: dict[str, int]) -> Capture:
    from torch.export.graph_signature import InputKind, OutputKind

    signature = program.graph_signature
    for output in signature.output_specs:
        if output.kind is not OutputKind.USER_OUTPUT:
            raise CaptureError(f"an output of kind {output.kind.name}")
    graph_module = program.graph_module
    placeholders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    sources, lifted = [], set()
    inputs = 0
    kinds = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer", InputKind.CONSTANT_TENSOR: "constant"}
    for spec, node in zip(signature.input_specs, placeholders):
        if spec.kind is InputKind.USER_INPUT:
            inputs += 1
        elif spec.kind in kinds:
            if inputs:
                raise CaptureError("a lifted tensor comes after the inputs")
            sources.append((kinds[spec.kind], spec.target))
            lifted.add(node.name)
        else:
            raise CaptureError(f"an input of kind {spec.kind.name}")
    shared = [v for v in program.constants.values() if not isinstance(v, torch.Tensor)]
    if shared:
        raise CaptureError(f"an object of type {type(shared[0]).__name__} is used in the graph")
    relations = list(getattr(program, "_guards_code", None) or ()) if dynamic else []
    ranges = program.range_constraints
    users = [n for n in placeholders if n.name not in lifted]
    return Capture(
        graph_module, sources, dict(program.constants), lifted, program.call_spec.in_spec, program.call_spec.out_spec, dynamic,
        [_input(node.meta.get("val"), ranges) for node in users], _relation(relations, paths) if relations else None,
    )  # fmt: skip


def _input(value, ranges: dict):
    """What an input must look like."""
    if not isinstance(value, torch.Tensor):
        return None, value
    sizes = []
    for size in value.shape:
        size = size if isinstance(size, int) else size.node.expr
        if isinstance(size, int) or size.is_Integer:
            sizes.append((int(size), None, None))
        elif size.is_Symbol:
            bounds = ranges.get(size)
            low, high = (0, None) if bounds is None else (bounds.lower, bounds.upper)
            sizes.append((str(size), int(low), int(high) if getattr(high, "is_Integer", False) else None))
        else:
            sizes.append((None, None, None))
    return sizes, value.dtype


def _relation(guards: list[str], paths: dict[str, int]):
    """torch.export's guards, which speak of arguments by name, as a function of the flat inputs."""
    text = " and ".join(f"({guard})" for guard in guards)
    for path in sorted(paths, key=len, reverse=True):
        text = text.replace(path + ".", f"f[{paths[path]}].")
    if "L[" in text:
        raise CaptureError("a condition on something that is no plain input")
    return eval(f"lambda f: {text}", dict(SIZE_GUARDS))


def _paths(forward, module, args, kwargs) -> dict[str, int]:
    """By what name a guard calls each tensor → its place among the flat inputs."""
    bound = inspect.signature(forward).bind(module, *args, **kwargs).arguments
    bound.pop(next(iter(bound)))
    place = {id(value): i for i, value in enumerate(pytree.tree_leaves((args, kwargs)))}
    named, _ = pytree.tree_flatten_with_path(dict(bound))
    return {f"L{pytree.keystr(path)}": place[id(value)] for path, value in named if isinstance(value, torch.Tensor)}
