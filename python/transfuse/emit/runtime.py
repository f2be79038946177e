"""The Python part of a file that is the same for all models: building, refusing, launching, differentiating."""

from __future__ import annotations

import json
import re

from transfuse.emit import derived, portable

BATCH_NORM = '''
def batch_norm(x, weight, bias, eps):
    """In training: the result, the batch's mean and its unbiased variance."""
    own = x.new_zeros(2, x.shape[1]).unbind()
    return torch.ops.aten.batch_norm(x, weight, bias, *own, True, 1.0, eps, torch.backends.cudnn.enabled), *own
'''

BATCH_NORM_BY_EITHER = '''
def batch_norm(x, weight, bias, eps, *running):
    """The result, mean and variance: the running ones, or in training the batch's, its variance unbiased."""
    own = running or x.new_zeros(2, x.shape[1]).unbind()
    return torch.ops.aten.batch_norm(x, weight, bias, *own, not running, 1.0, eps, torch.backends.cudnn.enabled), *own
'''


HELD = '''
_held = weakref.WeakKeyDictionary()


def held_by(model, names):
    """Parameters and buffers by their names. To go from layer to layer takes longer than to launch kernels: it is done once, and again
    where a layer has been replaced."""
    layers, places = _held.setdefault(model, {}).get(names, ((), ()))
    if not places or any(inside.get(name) is not layer for inside, name, layer in layers):
        layers, places = [], []
        for path, _, name in (name.rpartition(".") for name in names):
            layer = model
            for step in path.split(".") if path else ():
                layers.append((layer._modules, step, layer._modules[step]))
                layer = layer._modules[step]
            places.append((layer._parameters if name in layer._parameters else layer._buffers, name, path))
        layers = list({(id(inside), name): (inside, name, layer) for inside, name, layer in layers}.values())
        _held[model][names] = layers, places
    return [inside[name] if name in inside else getattr(model.get_submodule(path), name) for inside, name, path in places]
'''


OF = '''

def of(layer, *names):
    """Parameters and buffers of a layer: nn.Module would take a microsecond to find each of them."""
    return [own[name] if name in own else getattr(layer, name) for own in [layer._parameters | layer._buffers] for name in names]
'''


UPDATE = '''

def update(running, found, momentum):
    """Running statistics, rounded once: found may be fp32 where they are 16 bits."""
    if running[0].dtype == found[0].dtype:
        return torch._foreach_lerp_(running, found, momentum)
    wide = [t.to(found[0].dtype) for t in running]
    return torch._foreach_copy_(running, torch._foreach_lerp(wide, found, momentum))
'''
# Of one batch norm, where its statistics are found: in fp32 `to` gives the buffer itself, which is not copied to itself.
UPDATED = (
    "running, found = @RUNNING@, @FOUND@\n[t.copy_(new) for t, new in zip(running, "
    "torch._foreach_lerp_([t.to(found[0].dtype) for t in running], found, @MOMENTUM@))]  # rounded once"
)


def helpers(regions: str, model: str) -> str:
    """What the regions as written and the model call beside torch's own operators."""
    either = BATCH_NORM_BY_EITHER if "*running" in regions else BATCH_NORM
    statistics = either if re.search(r"(?<![.\w])batch_norm\(", regions) else ""
    statistics += UPDATE if re.search(r"(?<![.\w])update\(", model) else ""
    lookup = OF if re.search(r"(?<![.\w])of\(", model) else ""
    return (derived.HELPERS + "\n" if "_as_derived" in regions else "") + statistics + lookup


COMPILED = '''
@ELEMENTS@@OTHERWISE@_built, _calls = {}, {}


def compiled(name, @DTYPE@device@TOLD_HERE@):
    """A function of the source for the GPU at hand: built on first use, later found in torch's extension cache."""
    major, minor = torch.cuda.get_device_capability(device)
    key = @ELEMENT_KEY@@TOLD_KEY@f"{major}{minor}" + "a" * (major == 9)
    if key not in _built:
@OPTIONS@
        _built[key] = ctypes.CDLL(load_inline(@NAME@, "", @SOURCE@, **options))
    return ctypes.CFUNCTYPE(ctypes.c_longlong)((name, _built[key])), 10 * major + minor
'''

ARCH = 'f"-gencode=arch=compute_{key[-1]},code=sm_{key[-1]}"'
ONE = ARCH.replace("key[-1]", "key")
OPTIONS = (
    f"""        options = {{"extra_cuda_cflags": [{ONE}], "is_python_module": False, "no_implicit_headers": True}}"""
)
OPTIONS_AND_FLAGS = f"""        flags = [@ELEMENT_FLAG@@TOLD_FLAG@{ARCH}, "-diag-suppress=177,550"]
        options = {{"extra_cuda_cflags": flags, "is_python_module": False, "no_implicit_headers": True}}"""

RUN = '''
@IN_TF32@def prepared(name, leaves, at@HALF@):
    """Refuses what the kernels cannot take; else what a call with leaves like these needs."""
    sizes, (expected, outputs, *rest) = {}, PROGRAMS[name]
    if not leaves[0].is_cuda:
        raise RuntimeError(f"this file was written for CUDA tensors, got one on {leaves[0].device}")
    for leaf, (label, shape) in zip(leaves, expected):
        if leaf.dtype not in @TYPES@ or (leaf.dtype, leaf.device) != (leaves[0].dtype, leaves[0].device):
            raise ValueError(f"{label} must be @NAMES@ like all leaves on {leaves[0].device}, got {leaf.dtype} on {leaf.device}")
        if leaf.dim() != len(shape) or any(@WANTED@ != m for n, m in zip(shape, leaf.shape)):
            raise ValueError(f"{label} must have shape {shape}, got {tuple(leaf.shape)}")
    counts = (ctypes.c_longlong * len(sizes))(*sizes.values())
@ASK@
    if need == -1:
        raise ValueError(f"{name}: at sizes {sizes} a tensor would have 2^31 elements or more, which these kernels cannot address")
    shapes = @SHAPES@
@STRICT@    return function, counts, arch, need, struct.Struct(f"{len(at) + len(shapes)}P").pack, shapes, @FULL@*rest


def run(name, *given@WITHOUT@):
    """Launches a program@ELSEWHERE@.@STATISTICS@@UNWANTED@"""
    if -1 < (index := given[0].get_device()) != torch._C._cuda_getDevice():
        with torch.cuda.device(index):
            return run(name, *given@PASSED@)
@LEAVES@
    at = [*map(torch.Tensor.data_ptr, leaves)]
    key = name, @TF32@*[(t.shape, t.dtype, t.get_device(), a % 16) for t, a in zip(leaves, at)]
    function, counts, arch, need, pack, shapes, @KEPT@ = _calls.get(key) or _calls.setdefault(key, prepared(name, leaves, at@HALF@))
@WIDENED@@PORTABLE@@OUT@    if code := function(pack(*at, *map(torch.Tensor.data_ptr, out)), counts, @STREAM@, arch, False):
        raise RuntimeError(f"CUDA error {code}")
    return @RETURN@
'''

# Where TF32 is allowed cuDNN still multiplies some problems in full fp32, and no rule says which (transfuse/precision.py).
IN_TF32 = '''def in_tf32(written, given):
    """Whether PyTorch multiplies in TF32 at these sizes, where it may: asked once, its convolutions are computed with and without."""
    told, convolve = [], torch.ops.aten.convolution
    written(lambda *operands: told.append(operands) or convolve(*operands), *given)
    with torch.backends.cudnn.flags(True, allow_tf32=False):
        exact = [convolve(*operands) for operands in told]
    return any((convolve(*operands) - e).norm() >= 1e-6 * e.norm() for operands, e in zip(told, exact))
'''

ASK = """    function, arch = compiled(name, @DTYPE@first.device)
    need = function(struct.pack(f"{len(at)}P", *at), counts, None, arch, True)"""

ASK_SEVERAL = """    need, told = None, @TOLD@
    while need is None or need in OTHERWISE:  # rows of another length than the example's
        told = OTHERWISE.get(need, told)
        function, arch = compiled(name, @DTYPE@first.device, told)
        need = function(struct.pack(f"{len(at)}P", *at), counts, None, arch, True)"""

# What forward calls. Function.apply would first look for functorch's transforms, which kernels cannot serve, for some microseconds.
COMPUTE = "(super(torch.autograd.Function, Differentiable).apply if torch.is_grad_enabled() else run)"

FUNCTION = '''
class Differentiable(torch.autograd.Function):
    """Results by kernels, gradients of what is written by PyTorch's own backward (super().apply: no look for functorch's transforms)."""
    @staticmethod
    def forward(ctx, name, *leaves):
        ctx.save_for_backward(*leaves)
@FORWARD@

    @staticmethod
    def backward(ctx, *gradients):
        @TAKEN@
        with torch.enable_grad():
            leaves = [t.view_as(t) for t in ctx.saved_tensors]  # whatever one of them was computed from
            found, wanted = written(torch.ops.aten.convolution, *leaves), [t for t in leaves if t.requires_grad]
            found = iter(torch.autograd.grad(found@SOME@, wanted, gradients@SOME@, create_graph=again, allow_unused=True))
        return None, *[next(found) if t.requires_grad else None for t in leaves]
'''

KEPT = """        ctx.name, out = name, run(name, *leaves)
        ctx.mark_non_differentiable(*out[PROGRAMS[name][-1] :])
        return tuple(out)"""


def function(statistics: bool, written: list[str]) -> str:
    """What autograd is given. statistics: outputs behind `results` have no gradients. written: the functions of the programs."""
    forward, taken, some = "        ctx.name = name\n        return tuple(run(name, *leaves))", "*_, written", ""
    if statistics:
        forward, taken, some = KEPT, "*_, written, results", "[:results]"
    taken, text = f"again, ({taken}) = torch.is_grad_enabled(), PROGRAMS[ctx.name]", FUNCTION
    if len(written) == 1 and not statistics:  # nothing to look up
        forward, taken = forward.partition("\n")[2], "again = torch.is_grad_enabled()"
        text = text.replace("found, wanted = written(", f"found, wanted = {written[0]}(")
    return text.replace("@FORWARD@", forward).replace("@TAKEN@", taken).replace("@SOME@", some)


def imports(network: bool) -> str:
    own = "import ctypes\nimport struct\n" + ("import weakref\n" if network else "")
    return f"{own}\nimport torch\nimport torch.nn as nn\nfrom torch.utils.cpp_extension import load_inline\n"


def text(
    builds: list[str],
    falls: bool,
    tensor_cores: bool,
    rounding: list[str],
    others: bool,
    convolve: str,
    statistics: bool,
    formulas: bool,
    source: str,
    network: bool,
    scalars: bool,
    optional: bool,
    derived: bool,
    own_rows: bool,
) -> str:
    """builds: the arithmetics that are compiled apart. falls: some sizes or GPUs take the portable path. convolve: its Python, where it
    has a kernel. tensor_cores: kernels are for one arithmetic each. rounding: programs that round to TF32; others: some do not.
    statistics: there are outputs that stay fp32 whatever the leaves are. formulas: some leaf's extent is one of sizes. scalars: some
    output has no axes; of others the extents are given one by one, which PyTorch reads a microsecond faster. optional: some program
    has outputs that a caller may go without. derived: no function in PyTorch's operators has a convolution. own_rows: in 16 bits
    there are kernels for rows of the example's length alone; of others they are widened."""
    told = '"TF32" if in_tf32(rest[0], leaves) else "STRICT"' if "strict" in builds else '"TF32"'
    told = f'"HALF" if leaves[0].dtype != torch.float32 else {told}' if "half" in builds else told
    wide, asks = "wide" in builds, bool(rounding) and builds != ["half"]
    several, floats, halves = len(builds) > 1, tensor_cores and "half" not in builds, builds == ["half"]
    # cuDNN is faster than the portable kernel by far, which is for GPUs that none of the others runs on.
    portable_when, strict = "need == -2", ""
    by = "torch.ops.aten.convolution if arch == 90 else @CONVOLVE@" if convolve else "@CONVOLVE@"
    if rounding and "strict" not in builds and not halves:  # full fp32 as written, by PyTorch's operators
        these = f"name in {json.dumps(rounding)}" if others else "rest[0]" if convolve else ""
        exact = "not half" if floats else "leaves[0].dtype == torch.float32"
        strict = " and ".join(filter(None, [these, exact, "need >= 0", "not in_tf32(rest[0], leaves)"]))
        strict = f"    strict = {strict}\n"
        portable_when = "strict or need == -2"
    elsewhere = ""
    if convolve.startswith("lambda "):
        elsewhere, by = f"        convolve = {by.replace('@CONVOLVE@', convolve)}  # portable\n", "convolve"
    as_written = f"written({by}, *given)"
    if statistics:
        as_written = f"[t if i < results else t.float() for i, t in enumerate({as_written})]"
    leaves = "    leaves = [*map(torch.Tensor.contiguous, given)]"
    if halves:
        leaves = (
            "    if given[0].dtype == torch.float32:\n        return PROGRAMS[name][@WHICH@](torch.ops.aten.convolution, *given)\n"
            + leaves
        )
    if floats:
        leaves = (
            "    half = (dtype := given[0].dtype) != torch.float32 and {t.dtype for t in given} in ({torch.float16}, {torch.bfloat16})"
            "  # exact in TF32\n"
            "    leaves = [*map(torch.Tensor.contiguous, [t.float() for t in given] if half else given)]"
        )
    leaves = leaves.replace("@WHICH@", "-2" if statistics else "-1")
    rounded = "[t.to(given[0].dtype) for t in wide]"
    if statistics:
        rounded = "[*(t.to(given[0].dtype) for t in wide[:results]), *wide[results:]]"
    widened = f"""    if need == -3:  # 16 bits in rows of another length than the example's: exact in TF32
        wide = run(name, *[t.float() for t in given]@PASSED@)
        return {rounded}
"""
    code = "SOURCE"
    if ".f16.f16" in source:  # the one instruction that names the type
        code = 'SOURCE.replace(".f16.f16", ".bf16.bf16" if dtype == torch.bfloat16 else ".f16.f16")'
    types = ("" if halves else 'torch.float32: "float", ') + 'torch.float16: "Half", torch.bfloat16: "Bfloat"'
    types = f"ELEMENTS = {{{types}}}\n"
    words = {
        "@ELEMENTS@": "" if floats else types,
        "@ELEMENT_KEY@": "" if floats else "ELEMENTS[dtype], ",
        "@ELEMENT_FLAG@": "" if floats else 'f"-DSTORED={key[0]}", ',
        "@NAME@": '"_".join(["transfuse_@DIGEST@", *key])' if several or not floats else 'f"transfuse_@DIGEST@_{key}"',
        "not in @TYPES@": "!= torch.float32" if floats else "not in ELEMENTS",
        "@NAMES@": "fp32 or 16 bits" if floats else "fp32, fp16 or bf16",
        "@TF32@": ("half, " if strict and floats else "") + ("torch._C._get_cudnn_allow_tf32(), " if asks else ""),
        "@IN_TF32@": f"{IN_TF32}\n\n" if asks else "",
        "@HALF@": ", half" if strict and floats else "",
        "@STRICT@": strict,
        "@FULL@": "strict, " if strict else "",
        "@TOLD_HERE@": ", told" if several else "",
        "@TOLD_KEY@": "told, " if several else "",
        "@TOLD_FLAG@": 'f"-D{told}", ' if several else "",
        "@SOURCE@": code,
        "@ASK@": ASK_SEVERAL.replace("@TOLD@", told)
        if wide
        else ASK.replace("first.device)", f"first.device, {told})")
        if several
        else ASK,
        "@DTYPE@first": "leaves[0]" if floats else "leaves[0].dtype, leaves[0]",
        "@DTYPE@": "" if floats else "dtype, ",
        "@OTHERWISE@": 'OTHERWISE = {-4: "ANY_WIDTH"}\n' if wide else "",
        "@WANTED@": "(n if isinstance(n, int) else sizes.setdefault(n, m) if n.isidentifier() else m)"
        if formulas
        else "(n if isinstance(n, int) else sizes.setdefault(n, m))",
        "@ELSEWHERE@": "; what its kernels cannot take is computed as it is written" if falls else "",
        "@KEPT@": f"{'strict, ' if strict else ''}{'written' if falls else '_'}{', results' if statistics else ''}",
        "@WIDENED@": widened if own_rows else "",
        "@PORTABLE@": f"    if {portable_when}:\n{elsewhere}        return {as_written}\n" if falls else "",
        "@LEAVES@": leaves,
        "@CONVOLVE@": "convolve" if convolve else "None" if derived else "torch.ops.aten.convolution",
        "@STATISTICS@": " Outputs behind `results` are fp32." if statistics else "",
        "shapes = @SHAPES@": "shapes = [*outputs(**sizes), (max(need, 0) // leaves[0].element_size() + 1,)]"
        if floats or not statistics
        else "shapes = [(shape, leaves[0].dtype if i < rest[-1] else torch.float32)"
        " for i, shape in enumerate([*outputs(**sizes), (max(need, 0) // 4 + 1,)])]",
        "@OUT@": (
            "    out = [leaves[0].new_empty(@SHAPE@, dtype=dtype) for shape, dtype in shapes]  # the last is workspace\n"
            if statistics and not floats
            else "    out = [leaves[0].new_empty(@SHAPE@) for shape in shapes]  # the last is workspace\n"
            if not optional
            else "    out = [leaves[0].new_empty(@STAR@((0,) if i in without else shape)) for i, shape in enumerate(shapes)]\n"
        ),
        "@STREAM@": "ctypes.c_void_p(torch._C._cuda_getCurrentRawStream(index))",
        "@SHAPE@": "shape" if scalars else "*shape",
        "@STAR@": "" if scalars else "*",
        "@WITHOUT@": ", without=()" if optional else "",
        "@PASSED@": ", without=without" if optional else "",
        "@UNWANTED@": " Outputs `without` are not computed." if optional else "",
        "@RETURN@": (
            "[*(t.to(dtype) for t in out[:results]), *out[results:-1]] if half else out[:-1]"
            if floats and statistics
            else "[t.to(dtype) for t in out[:-1]] if half else out[:-1]"
            if floats
            else "out[:-1]"
        ),
    }
    options = OPTIONS if floats and not several else OPTIONS_AND_FLAGS
    if network:  # many kernels, compiled side by side
        options = options.replace(ONE, f'{ONE}, "-Xptxas=--split-compile=0"').replace(
            '"-diag', '"-Xptxas=--split-compile=0", "-diag'
        )
    out = COMPILED.replace("@OPTIONS@", options) + "\n" + RUN
    out += portable.python(convolve, builds, floats) if convolve else ""
    out += f"\n{HELD}" if network else ""
    for word, by in words.items():
        out = out.replace(word, by)
    return out
