"""The private names of PyTorch that are used here, and what happens where a version has one of them no more.

Without the first ones `import transfuse` fails, and says which is gone: no capture works without them. (Attributes that PyTorch's
objects have had in every version stand where they are used: a module's tables and hooks, a tensor's `_version`, a storage's `_cdata`, an
operator's `_schema`. So do `torch._dynamo` and `torch._inductor`: what of them a backend is to use has no other name.)
"""

import contextlib
import importlib
import math
from types import SimpleNamespace

import torch
import torch.utils._pytree as pytree
from torch import _C
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch._subclasses import FakeTensor, FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.autograd import forward_ad as _forward_ad
from torch.fx.experimental import symbolic_shapes
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._python_dispatch import _disable_current_modes as without_modes

__all__ = [
    "BatchNorm", "FakeTensor", "FakeTensorMode", "FunctionalTensor", "HigherOrderOperator", "OpOverload", "OpOverloadPacket",
    "TorchDispatchMode", "no_dispatch", "pytree", "without_modes",
]  # fmt: skip


def _found(owner, name: str, otherwise):
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return otherwise if owner is None else owner


# Nodes that Dynamo's and torch.export's graphs have. Gone: no node is one of them.
set_grad_enabled = _found(_C, "_set_grad_enabled", object())
enter_autocast = _found(torch.amp, "autocast_mode._enter_autocast", object())
get_data = _found(_C, "_autograd._get_data_attr", object())

# Transforms and tracers around a call, asked at each. Gone: they are not noticed, and meet our operators, which refuse vmap and have
# no forward derivative.
functorch_stack = _found(_C, "_functorch.peek_interpreter_stack", lambda: None)
is_tracing = _found(_C, "_is_tracing", lambda: False)
forward_ad = _forward_ad if hasattr(_forward_ad, "_current_level") else SimpleNamespace(_current_level=-1)
is_batched = _found(_C, "_functorch.is_batchedtensor", lambda _: False)
is_legacy_batched = _found(_C, "_functorch.is_legacy_batchedtensor", lambda _: False)
# Gone: every kind of autocast is asked.
any_autocast = _found(
    _C, "_is_any_autocast_enabled", lambda: torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
)

# How fp32 is multiplied on CUDA. Gone: the old switch alone is read, and TF32 is never tried without.
fp32_precision = _found(_C, "_get_fp32_precision_getter", lambda *_: "none")
set_fp32_precision = _found(_C, "_set_fp32_precision_setter", lambda *_: None)
cudnn_allows_tf32 = _found(_C, "_get_cudnn_allow_tf32", lambda: torch.backends.cudnn.allow_tf32)

# Hooks on saved tensors do not see trials. Gone: they do, and torch.utils.checkpoint may complain of a first call inside it.
suspend_saved_tensors_hooks = _found(_C, "_autograd._saved_tensors_hooks_set_tracing", lambda _: False)

# Who stands by while tensors are saved: torch.utils.checkpoint, say. Gone: nobody is seen.
saved_tensors_hooks = _found(_C, "_autograd._top_saved_tensors_default_hooks", lambda _: None)

# A GPU idles for some cycles. Gone: a call's time on it may hold the host's.
cuda_sleep = _found(torch.cuda, "_sleep", lambda cycles: None)

# As a function that nobody replaces meanwhile.
is_grad_enabled = torch.is_grad_enabled

# What the text of torch.export's guards of sizes names. Gone: these, which most of them name.
SIZE_GUARDS = _found(symbolic_shapes, "SYMPY_INTERP", {"math": math, "torch": torch})

# Functions are not overridden by modes. Gone: they are, and a part that stays whole tells of what it reads.
DisableTorchFunction = _found(_C, "DisableTorchFunction", contextlib.nullcontext)

# Without a GPU, so that a thread may end that traced first. Gone: not needed, or as PyTorch has it.
ensure_cuda_device_guard = _found(_C, "_ensureCUDADeviceGuardSet", None)

# Of all tensors of a list at once. Gone: one after the other.
multiplied_each = _found(torch, "_foreach_mul", lambda tensors, by: [tensor * by for tensor in tensors])
move_each_ = _found(torch, "_foreach_lerp_", lambda tensors, to, by: [a.lerp_(b, by) for a, b in zip(tensors, to)])


def detect_fake_mode(values):
    """Gone: example inputs are made fake anew."""
    try:
        from torch._guards import detect_fake_mode
    except ImportError:
        return None
    return detect_fake_mode(values)


@contextlib.contextmanager
def apart_from_dynamo():
    """What is compiled here says nothing to the compilation around it: gradients are compiled at once, since a first backward would
    report to that. Gone: nothing is compiled inside another compilation."""
    from torch._functorch import config
    from torch._guards import tracing

    with tracing(None), config.patch(force_non_lazy_backward_lowering=True):
        yield


def is_exporting() -> bool:
    """Whether torch.export traces, which Dynamo says of itself as well: the flag behind it tells. Gone: PyTorch is believed."""
    return _found(torch.compiler, "_is_exporting_flag", torch.compiler.is_exporting())


def is_compiled(module) -> bool:
    """Whether torch.compile made it. Gone: a report shows nothing of it."""
    if getattr(module, "_compiled_call_impl", None) is not None:
        return True
    try:
        from torch._dynamo import OptimizedModule
    except ImportError:
        return False
    return isinstance(module, OptimizedModule)


# Where torch.func's operators come from. Gone: tracing goes through them, or refuses.
FUNCTORCH = ("torch._functorch", "torch._C._functorch")

# What is replaced around torch.export: (module, path in it). Gone: nothing is.
PATCH_METHOD = "torch.fx._symbolic_trace", "_Patcher.patch_method"  # … other threads see methods of nn.Module patched
PARAMETRIZATIONS_KEPT = "torch.nn.utils.parametrize", "_cache_enabled"  # … traced weights stay in parametrize.cached()
BATCH_NORM = "torch.nn.modules.batchnorm", "_BatchNorm.forward"  # … momentum=None is not captured in training
BACKENDS_OFF = (
    "torch.export._trace",
    "_ignore_backend_decomps",
)  # … other threads compute without cuDNN and oneDNN meanwhile
PRINT = "torch.export._trace", "print"  # … graphs that are not finished are printed


@contextlib.contextmanager
def replaced(where: tuple[str, str], by, missing=None):
    """While it holds, what stands there is by(it); `missing` is what a name means that stands among Python's own."""
    module, path = where
    inner, _, name = path.rpartition(".")
    try:
        owner = importlib.import_module(module)
    except ImportError:
        owner = None
    owner = _found(owner, inner, None) if inner else owner
    before = getattr(owner, name, missing)
    if before is None:
        yield
        return
    there = name in vars(owner)
    setattr(owner, name, by(before))
    try:
        yield
    finally:
        if there:
            setattr(owner, name, before)
        else:
            delattr(owner, name)
