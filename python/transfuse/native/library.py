"""The native side: loads the libraries, speaks to the C face, gives the operators their fake kernels and gradients."""

import contextlib
import ctypes
import itertools
import json
import os
import threading
import weakref
from pathlib import Path

import torch

from transfuse import fallback
from transfuse.native.saved import MOST_COPIED, unsaved
from transfuse.pytorch.torch_private import is_batched, is_legacy_batched, multiplied_each
from transfuse.pytorch.trials import traced

# The bits of the operators' `mode` argument; src/torch/mode.h holds the same.
FREEZE, INFERENCE, TF32, REFERENCE, AUTOTUNE, TF32_BACKWARD, LEAN, OWN_MEMORY = 1, 2, 4, 8, 32, 64, 128, 256

DTYPES = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


class CompileError(RuntimeError):
    """A graph that the compiler refuses, with its reason."""


def _folder() -> Path:
    return Path(os.environ.get("TRANSFUSE_LIBRARY_DIR", Path(__file__).parents[1] / "lib"))


def _load() -> ctypes.CDLL:
    folder = _folder()
    for name in ("libtransfuse.so", "libtransfuse_torch.so"):
        if not (folder / name).exists():
            raise ImportError(f"transfuse: {folder / name} is missing; build it with `make build` or `pip install .`")
    core = ctypes.CDLL(str(folder / "libtransfuse.so"))
    torch.ops.load_library(str(folder / "libtransfuse_torch.so"))
    text, error = ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)
    for name, result, arguments in (
        ("transfuse_define", ctypes.c_int64, (text, error)),
        ("transfuse_hold", ctypes.c_int64, (text, ctypes.c_uint64, error)),
        ("transfuse_release", None, (ctypes.c_int64,)),
        ("transfuse_forget_frozen", None, (ctypes.c_int64, error)),
        ("transfuse_products", ctypes.c_int64, (ctypes.c_int64, text, error)),
        ("transfuse_explain", ctypes.c_void_p, (text, text, error)),
        ("transfuse_summary", ctypes.c_void_p, (text, text, error)),
        ("transfuse_stated", ctypes.c_void_p, (ctypes.c_int64, text, text, text, error)),
        ("transfuse_infer", ctypes.c_void_p, (text, error)),
        ("transfuse_layouts", ctypes.c_void_p, (ctypes.c_int64, text, text, error)),
        ("transfuse_kept", ctypes.c_void_p, (ctypes.c_int64, text, text, text, text, error)),
        ("transfuse_describe", ctypes.c_void_p, (ctypes.c_int64, error)),
        ("transfuse_ptx", ctypes.c_void_p, (text, text, error)),
        ("transfuse_cuda_unavailable", ctypes.c_void_p, ()),
        ("transfuse_nvrtc_unavailable", ctypes.c_void_p, ()),
        ("transfuse_free", None, (ctypes.c_void_p,)),
    ):
        function = getattr(core, name)
        function.restype, function.argtypes = result, arguments
    return core


_core = _load()


def build() -> str:
    """Names this build of the library: what other builds left in caches is not for it."""
    found = (_folder() / "libtransfuse.so").stat()
    return f"{found.st_size} {found.st_mtime_ns}"


def _taken(pointer: int | None) -> str | None:
    """The string behind a pointer that now is ours."""
    if not pointer:
        return None
    value = ctypes.string_at(pointer).decode()
    _core.transfuse_free(pointer)
    return value


def _call(function, *arguments):
    error = ctypes.c_void_p()
    result = function(*arguments, ctypes.byref(error))
    message = _taken(error.value)
    if message is not None:
        raise CompileError(message)
    return result


def define(text: str) -> int:
    return _call(_core.transfuse_define, text.encode())


def forget_frozen(handle: int) -> None:
    """What was prepared of frozen parameters is prepared anew."""
    _call(_core.transfuse_forget_frozen, handle)


def products(handle: int, of_leaves: list[int]) -> int:
    """What a mode with TF32 has of the leaves whose products are strict all the same: of each leaf 1 where that is in forward, 2 in the
    gradients of what it is convolved with, 4 in its own gradient, or a sum of these."""
    return _call(_core.transfuse_products, handle, _numbers(of_leaves)) << 16


def without_exceptions(mode: int) -> int:
    return mode & 0xFFFF


def excepts(mode: int) -> bool:
    """Whether it is strict for some products."""
    return mode >> 16 != 0


def explain(text: str, machine: str = "cpu") -> str:
    return _taken(_call(_core.transfuse_explain, text.encode(), machine.encode()))


def summary(text: str, machine: str = "cpu") -> dict:
    return json.loads(_taken(_call(_core.transfuse_summary, text.encode(), machine.encode())))


@contextlib.contextmanager
def alone(text: str):
    """The handles of programs with this text that nobody else has, by what each is for."""
    handles: dict[str, int] = {}

    def handle(use: str) -> int:
        if use not in handles:
            handles[use] = _call(_core.transfuse_hold, text.encode(), next(_salts))
        return handles[use]

    try:
        yield handle
    finally:
        for held in handles.values():
            _core.transfuse_release(held)


_salts = itertools.count(1 << 40)  # beyond those of programs with frozen parameters


def stated(handle: int, leaves, sizes, options: str) -> dict:
    """What `optimize` launches for leaves and sizes like these: kernels' sources, launches, workspace. Needs no GPU."""
    told = _call(_core.transfuse_stated, handle, _views(leaves), _numbers(sizes), options.encode())
    return json.loads(_taken(told))


def infer(text: str) -> list[str]:
    return _taken(_call(_core.transfuse_infer, text.encode())).split()


def _numbers(given) -> bytes:
    return " ".join([str(size.node.hint if isinstance(size, torch.SymInt) else size) for size in given]).encode()


def _views(leaves) -> bytes:
    """Types, extents and strides of tensors, one a line."""
    told = [(DTYPES[t.dtype], t.dim(), _numbers(t.shape).decode(), _numbers(t.stride()).decode()) for t in leaves]
    return "\n".join([" ".join(map(str, words)) for words in told]).encode()


def channels_last(handle: int, leaves, sizes) -> list[bool]:
    """Of each result of a program, whether the operators lay it channels last for leaves like these."""
    told = _taken(_call(_core.transfuse_layouts, handle, _views(leaves), _numbers(sizes)))
    return [word == "last" for word in told.split()]


def kept(handle: int, leaves, sizes, keep) -> list[tuple[torch.dtype, list[int], list[int]]]:
    """What a training call on leaves like these gives behind its results: types, extents and strides."""
    device = leaves[0].device.type.encode()
    told = _taken(_call(_core.transfuse_kept, handle, _views(leaves), _numbers(sizes), device, _numbers(keep)))
    dtypes = {name: dtype for dtype, name in DTYPES.items()}
    listed = lambda text: [int(n) for n in text.strip("[]").split(",") if n]  # noqa: E731
    lines = [line.replace("[", " [", 1).split() for line in told.splitlines()]
    return [(dtypes[name], listed(extents), listed(strides)) for name, extents, strides in lines]


def describe(handle: int) -> dict:
    return json.loads(_taken(_call(_core.transfuse_describe, handle)))


def ptx(text: str, *options: str) -> str:
    """What the run-time compiler makes of device code; CompileError with its words where it refuses it."""
    return _taken(_call(_core.transfuse_ptx, text.encode(), "\n".join(options).encode()))


def cuda_unavailable() -> str | None:
    return _taken(_core.transfuse_cuda_unavailable())


def nvrtc_unavailable() -> str | None:
    return _taken(_core.transfuse_nvrtc_unavailable())


run = torch.ops.transfuse.run.default
run_text = torch.ops.transfuse.run_text.default
# Called at every turn: what OpOverload.__call__ calls.
run_detached = torch.ops.transfuse.run_detached.default._op
run_keeping = torch.ops.transfuse.run_keeping.default._op
run_one = torch.ops.transfuse.run_one.default._op
run_backward = torch.ops.transfuse.run_backward.default._op
scratch = torch.ops.transfuse.scratch.default
scratch_backward = torch.ops.transfuse.scratch_backward.default

# They have no gradients of their own, and need not be asked for one at every call.
_own = torch.library.Library("transfuse", "IMPL")
for _name in ("run_detached", "run_keeping", "run_one"):
    _own.impl(_name, torch.library.fallthrough_kernel, "Autograd")


class Program:
    """A region's program, how PyTorch itself would compute it (leaves and sizes in, results out), and what its gradient is asked
    for. The compiler keeps what it made of it for as long as somebody holds this."""

    def __init__(self, handle: int, text: str, eager, reach: list[list[int]], leaves: int):
        """`reach`: of each output the leaves its gradient can flow to; outputs beyond are statistics."""
        self.handle, self.eager, self.reach = handle, eager, reach
        self.outputs = text.rpartition("return ")[2].count("%")
        self.gives_statistics = self.outputs > len(reach)
        self.reaches_all = self.outputs == len(reach) and all(len(reached) == leaves for reached in reach)
        self._roles: dict[tuple, tuple] = {}
        self._saved: dict[tuple, tuple] = {}
        self.gradient = fallback.Gradient()  # of calls that a tracer wrote down
        weakref.finalize(self, _core.transfuse_release, handle).atexit = False

    def __deepcopy__(self, memo):
        return self

    def kept(self, wants: tuple, leaves: tuple, sizes: tuple) -> tuple[list[int], list[int], list[int]]:
        """Of a call whose leaves want gradients as told: what is kept for it, as the operators take it; the results among that,
        which PyTorch's own way keeps as well; and the leaves that may change between forward and backward: of these copies are."""
        found = self._saved.get(wants)
        if found is None:
            loose, shared = unsaved(self.eager, leaves, sizes, wants)
            wanted, still = self.roles(wants)
            flows = [i for i in range(self.outputs) if i not in still]
            shared = [i for i in shared if i in flows]
            found = self._saved[wants] = [len(flows), *flows, len(wanted), *wanted, *shared], shared, loose
        keep, shared, loose = found
        return keep, shared, [i for i in loose if leaves[i].numel() <= MOST_COPIED] if loose else loose

    def roles(self, wants: tuple) -> tuple[list[int], list[int]]:
        """The leaves that want a gradient; and the outputs that none can flow to, which then do not require one, as in PyTorch:
        statistics never do."""
        found = self._roles.get(wants)
        if found is None:
            flows = [any(wants[j] for j in leaves) for leaves in self.reach]
            still = [i for i in range(self.outputs) if i >= len(flows) or not flows[i]]
            found = self._roles[wants] = [i for i, want in enumerate(wants) if want], still
        return found


_programs: weakref.WeakValueDictionary[int, Program] = weakref.WeakValueDictionary()
_naming = threading.Lock()


def program_of(text: str, salt: int, eager, reach: list[list[int]], leaves: int) -> Program:
    """Equal texts are one program; `salt` keeps apart those that hold frozen parameters."""
    with _naming:
        handle = _call(_core.transfuse_hold, text.encode(), salt)
        found = _programs.get(handle)
        if found is None:
            found = _programs[handle] = Program(handle, text, eager, reach, leaves)
        else:
            _core.transfuse_release(handle)
    return found


def _known(program: int | str) -> Program | None:
    """None: it was made in another process."""
    return _programs.get(_handle(program))


def eager_of(handle: int):
    """PyTorch's own way with a region that gives no batch statistics. None: it gives some."""
    found = _programs[handle]
    return None if found.gives_statistics else found.eager


def _reached(reach: list[list[int]], needed, gradients) -> list[int]:
    """The leaves to be given a gradient: those that want one and that an output with a gradient reaches. The others get none, not
    zeros: an optimiser passes over what has none."""
    leaves = {leaf for leaves, gradient in zip(reach, gradients) if gradient is not None for leaf in leaves}
    return [i for i, need in enumerate(needed) if need and i in leaves]


def _fake_outputs(program: int | str, leaves, sizes):
    """Shapes and dtypes from PyTorch's own fake kernels; layout as the operator chooses it."""
    known = _known(program)
    if known is None:
        raise NotImplementedError("transfuse: this program was made in another process and cannot be traced again here")
    with torch.no_grad():
        outputs = known.eager(*leaves, *sizes)
    made = []
    for output, last in zip(outputs, channels_last(_handle(program), leaves, sizes)):
        form = (
            (torch.channels_last if output.dim() == 4 else torch.channels_last_3d) if last else torch.contiguous_format
        )
        made.append(torch.empty_like(output, memory_format=form))
    return made


def empty_kept(handle: int, leaves, sizes, keep) -> list[torch.Tensor]:
    """Tensors like those that run_keeping gives behind its results."""
    told = kept(handle, leaves, sizes, keep) if keep else []
    return [torch.empty_strided(extents, strides, dtype=d, device=leaves[0].device) for d, extents, strides in told]


def _handle(program: int | str) -> int:
    return define(program) if isinstance(program, str) else program


@torch.library.register_fake("transfuse::run_detached")
@torch.library.register_fake("transfuse::run")
def _(leaves, program, sizes, mode):
    return _fake_outputs(program, leaves, sizes)


@torch.library.register_fake("transfuse::run_keeping")
def _(leaves, program, sizes, mode, keep):
    return [*_fake_outputs(program, leaves, sizes), *empty_kept(_handle(program), leaves, sizes, keep)]


@torch.library.register_fake("transfuse::run_one")
def _(leaves, program, mode):
    return _fake_outputs(program, leaves, ())[0]


@torch.library.register_fake("transfuse::run_text")
def _(leaves, program, sizes, mode):
    return _fake_outputs(program, leaves, sizes)


@torch.library.register_fake("transfuse::run_backward")
def _(leaves, gradients, program, sizes, mode, outputs, wanted, keep):
    whole = [torch.ops.aten.is_non_overlapping_and_dense(leaf) for leaf in leaves]
    kept, plain = torch.preserve_format, torch.contiguous_format
    return [torch.empty_like(leaves[i], memory_format=kept if whole[i] else plain) for i in wanted]


def _save_for_backward(ctx, inputs, output):
    leaves, ctx.program, ctx.sizes, ctx.mode = inputs
    ctx.save_for_backward(*leaves)
    ctx.set_materialize_grads(False)


def _eager_gradients(program, sizes, leaves, gradients, needed):
    """PyTorch's own backward: where ours cannot run, and for a gradient that will be differentiated again."""
    known = _known(program)
    if known is None:
        raise RuntimeError("transfuse: the gradient of a program made in another process is not available")
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        if again:  # as seen here alone, whatever one of them was computed from: perhaps from another
            leaves = [leaf.view_as(leaf) for leaf in leaves]
        else:
            leaves = [leaf.detach().requires_grad_(need) for leaf, need in zip(leaves, needed)]
        outputs = known.eager(*leaves, *sizes)
        reached = [(o, g) for o, g in zip(outputs, gradients) if g is not None and o.requires_grad]
        wanted = [leaf for leaf, need in zip(leaves, needed) if need]
        if reached:
            found = torch.autograd.grad(
                [o for o, _ in reached], wanted, [g for _, g in reached], create_graph=again, allow_unused=True
            )
        else:
            found = [None] * len(wanted)
    found = iter(found)
    return [next(found) if need else None for need in needed]


def _backward(ctx, gradients):
    leaves = list(ctx.saved_tensors)
    needed = list(ctx.needs_input_grad[0])
    known = _known(ctx.program)
    reach = [range(len(leaves))] * len(gradients) if known is None else known.reach
    wanted = _reached(reach, needed, gradients)
    own = fallback.Gradient() if known is None else known.gradient
    found = _gradients(own, ctx.program, ctx.sizes, ctx.mode, leaves, gradients, needed, wanted)
    # What register_autograd makes of lists: one of numbers is one thing that has no gradient, an empty one is none.
    return found, None, None if ctx.sizes else [], None


def _batched(gradient) -> bool:
    """Whether it is many gradients at once: torch.autograd.grad(…, is_grads_batched=True)."""
    return gradient is not None and (is_legacy_batched(gradient) or is_batched(gradient))


def _gradients(own, program, sizes, mode, leaves, gradients, needed, wanted, kept=(), keep=()):
    outputs = [i for i, gradient in enumerate(gradients) if gradient is not None]
    if not outputs or not wanted:
        return [None] * len(leaves)
    # create_graph=True: it will be differentiated again
    if (torch.is_grad_enabled() or _batched(gradients[outputs[0]])) and not traced():
        return _eager_gradients(program, sizes, leaves, gradients, needed)
    handle = _handle(program)
    if own.failure is not None:
        return _eager_gradients(program, sizes, leaves, gradients, needed)
    given, mode = [*[gradients[i] for i in outputs], *kept], mode & ~(INFERENCE | FREEZE)
    try:
        try:
            found = run_backward(leaves, given, handle, sizes, mode, outputs, wanted, keep)
        except RuntimeError as error:
            if mode & LEAN or not (leaves[0].is_cuda and fallback.ran_out_of_memory(error)):
                raise
            found = run_backward(leaves, given, handle, sizes, mode | LEAN, outputs, wanted, keep)
    except RuntimeError as error:
        own.failed(error)
        return _eager_gradients(program, sizes, leaves, gradients, needed)
    if len(found) == len(needed):
        return found
    made = dict(zip(wanted, found))
    return [made.get(i) for i in range(len(needed))]


_CHANGED = "transfuse: a gradient that is to be differentiated again needs a tensor that has been modified by an inplace operation"


class Run(torch.autograd.Function):
    """The same gradient without the dispatcher's Python detour: what eager calls use. What the gradient needs of the forward call is
    kept (src/program/kept.h). `call`: the program, whether its gradient is ours, sizes and mode."""

    @staticmethod
    def forward(ctx, call, *leaves):
        program, _, sizes, mode = ctx.call = call
        wants = ctx.needs_input_grad[1:]
        ctx.keep, shared, loose = program.kept(wants, leaves, sizes)
        outputs = run_keeping(leaves, program.handle, sizes, mode, ctx.keep)
        count = program.outputs
        ctx.loose = ()
        if loose:
            ctx.loose = [(i, leaves[i], leaves[i]._version) for i in loose]
            leaves = list(leaves)
            for i, copy in zip(loose, multiplied_each([leaves[i] for i in loose], 1.0)):
                leaves[i] = copy
        ctx.save_for_backward(*leaves, *outputs[count:], *[outputs[i] for i in shared])
        del outputs[count:]
        ctx.set_materialize_grads(False)  # where none comes none goes on, not zeros: an optimiser tells them apart
        if not program.reaches_all and (still := program.roles(wants)[1]):
            ctx.mark_non_differentiable(*[outputs[i] for i in still])
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *gradients):
        program, own, sizes, mode = ctx.call
        needed, saved = ctx.needs_input_grad[1:], ctx.saved_tensors
        count = len(needed)
        # (`None not in gradients` would compare tensors with None, for 50 µs.)
        if program.reaches_all and all([gradient is not None for gradient in gradients]):
            wanted, _ = program.roles(needed)
        else:
            wanted = _reached(program.reach, needed, gradients)
        leaves, kept = saved[:count], saved[count:]
        if ctx.loose and torch.is_grad_enabled():  # to be differentiated again: with respect to the leaves themselves
            leaves = list(leaves)
            for i, leaf, version in ctx.loose:
                if leaf._version != version:
                    raise RuntimeError(_CHANGED)
                leaves[i] = leaf
        return None, *_gradients(own, program.handle, sizes, mode, leaves, gradients, needed, wanted, kept, ctx.keep)


# Function.apply looks for functorch's transforms, which callers of ours have done.
with_gradient = super(torch.autograd.Function, Run).apply

torch.library.register_autograd("transfuse::run", _backward, setup_context=_save_for_backward)
torch.library.register_autograd("transfuse::run_text", _backward, setup_context=_save_for_backward)


def _refuse_vmap(info, in_dims, *arguments):
    raise NotImplementedError(
        "transfuse: torch.vmap over an optimised model is not supported; map the original model, or make the mapped axis the batch"
    )


for _name in ("run", "run_detached", "run_keeping", "run_one", "run_text", "run_backward"):
    torch.library.register_vmap(f"transfuse::{_name}", _refuse_vmap)
