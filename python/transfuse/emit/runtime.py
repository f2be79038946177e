"""The Python part of a file that is the same for all models: building, refusing, launching, differentiating."""

from __future__ import annotations

import re

from transfuse.emit import derived, portable

BATCH_NORM = '''
def batch_norm(x, weight, bias, eps):
    """In training: the result, the batch's mean and its unbiased variance."""
    mean, variance = x.new_zeros(2, x.shape[1])
    cudnn = torch.backends.cudnn.enabled
    return torch.ops.aten.batch_norm(x, weight, bias, mean, variance, True, 1.0, eps, cudnn), mean, variance
'''


UPDATE = '''

def update(running, found, momentum):
    """Running statistics, rounded once: found may be fp32 where they are 16 bits."""
    if running[0].dtype == found[0].dtype:
        return torch._foreach_lerp_(running, found, momentum)
    return [mine.copy_(mine.float().lerp_(new, momentum)) for mine, new in zip(running, found)]
'''


def helpers(regions: str) -> str:
    """What the regions as written call beside torch's own operators."""
    statistics = BATCH_NORM if re.search(r"(?<![.\w])batch_norm\(", regions) else ""
    statistics += UPDATE if statistics else ""
    return (derived.HELPERS + "\n" if "_as_derived" in regions else "") + statistics


COMPILED = '''
ELEMENTS = {torch.float32: "float", torch.float16: "Half", torch.bfloat16: "Bfloat"}
@OTHERWISE@_built, _calls = {}, {}


def compiled(dtype, device@TOLD_HERE@):
    """The kernels for a dtype and the GPU at hand: built on first use, later found in torch's extension cache."""
    major, minor = torch.cuda.get_device_capability(device)
    arch = f"sm_{major}{minor}a" if major == 9 else f"sm_{major}{minor}"
@FLAGS@
    key = *flags, arch
    if key not in _built:
        path = load_inline(
            name="_".join(["transfuse_@DIGEST@", *key]).replace("-D", "").replace("=", "_"),
            cpp_sources="",
            cuda_sources="@INCLUDES@" + @SOURCE@,
            extra_cuda_cflags=[*flags, f"-gencode=arch={arch.replace('sm', 'compute')},code={arch}", "-diag-suppress=177,550"],
            is_python_module=False,
            no_implicit_headers=True,
        )
        _built[key] = ctypes.CDLL(path), 10 * major + minor
    return _built[key]
'''

RUN = '''
def call(function, leaves, out, sizes, workspace, arch):
    addresses = lambda tensors: (ctypes.c_void_p * len(tensors))(*[0 if t is None else t.data_ptr() for t in tensors])
    where, device = 0 if workspace is None else workspace.data_ptr(), leaves[0].device
    with torch.cuda.device(device):
        stream = torch._C._cuda_getCurrentRawStream(device.index)
        found = function(addresses(leaves), addresses(out), sizes, where, stream, arch)
    if workspace is not None and found:
        raise RuntimeError(f"CUDA error {found}")
    return found


def prepared(name, leaves, expected, sizes_at, outputs):
    """Refuses what the kernels cannot take; else what a call with leaves like these needs."""
    first = leaves[0]
    if not first.is_cuda:
        raise RuntimeError(f"this file was written for CUDA tensors, got one on {first.device}")
    if first.dtype not in ELEMENTS:
        raise ValueError(f"{expected[0][0]} must be one of {', '.join(map(str, ELEMENTS))}, got {first.dtype}")
    for leaf, (label, shape) in zip(leaves, expected):
        if leaf.dtype != first.dtype or leaf.device != first.device:
            raise ValueError(f"{label} must be {first.dtype} on {first.device}, got {leaf.dtype} on {leaf.device}")
        if leaf.dim() != len(shape) or any(isinstance(n, int) and n != m for n, m in zip(shape, leaf.shape)):
            raise ValueError(f"{label} must have shape {shape}, got {tuple(leaf.shape)}")
    sizes = [leaves[leaf].shape[axis] for leaf, axis in sizes_at]
    counts = (ctypes.c_longlong * len(sizes))(*sizes)
@ASK@
    if need == -1:
        raise ValueError(f"{name}: at sizes {sizes} a tensor would have 2^31 elements or more, which these kernels cannot address")
    return function, counts, arch, need, outputs(*sizes)


def run(name, leaves, expected, sizes_at, outputs):
    """Launches a program@NONE@.
    `expected`: of each leaf a name and its shape; sizes that may vary are words in it."""
@LEAVES@
    key = name, torch.backends.cudnn.allow_tf32, *[(t.shape, t.dtype, t.device, t.data_ptr() % 16) for t in leaves]
    if key not in _calls:
        _calls[key] = prepared(name, leaves, expected, sizes_at, outputs)
    function, counts, arch, need, shapes = _calls[key]
@PORTABLE@    out = [leaves[0].new_empty(shape) for shape in shapes]
    workspace = torch.empty(max(need, 1), dtype=torch.uint8, device=leaves[0].device)
    call(function, leaves, out, counts, workspace, arch)
    return @RETURN@
'''

ASK = """    library, arch = compiled(first.dtype, first.device)
    function = library[name]
    function.restype, function.argtypes = ctypes.c_longlong, [ctypes.c_void_p] * 5 + [ctypes.c_int]
    need = call(function, leaves, [], counts, None, arch)"""

ASK_SEVERAL = """@EXACT@    need, told = None, @TOLD@
    while need is None or need in OTHERWISE:  # @OTHER@
        told = OTHERWISE.get(need, told)
        library, arch = compiled(first.dtype, first.device, told)
        function = library[name]
        function.restype, function.argtypes = ctypes.c_longlong, [ctypes.c_void_p] * 5 + [ctypes.c_int]
        need = call(function, leaves, [], counts, None, arch)"""

DIFFERENTIATED = '''

def differentiated(written, leaves, gradients):
    """Gradients of a model in PyTorch's operators, by their own backward."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        leaves = leaves if again else [t.detach().requires_grad_(t.requires_grad) for t in leaves]
        pairs = [(y, g) for y, g in zip(written(torch.ops.aten.convolution, *leaves), gradients) if g is not None]
        wanted = [t for t in leaves if t.requires_grad]
        given = [y for y, _ in pairs], wanted, [g for _, g in pairs]
        found = iter(torch.autograd.grad(*given, create_graph=again, allow_unused=True))
    return tuple(next(found) if t.requires_grad else None for t in leaves)
'''


def imports() -> str:
    return "import ctypes\n\nimport torch\nimport torch.nn as nn\nfrom torch.utils.cpp_extension import load_inline\n"


def text(builds: list[str], falls: bool, source: str) -> str:
    """builds: the arithmetics that are compiled apart. falls: some sizes or GPUs take the portable path."""
    others = [*([(-3, "STRICT")] if "strict" in builds else []), *([(-4, "WIDE")] if "wide" in builds else [])]
    other = "; ".join(
        [*(["small: fp32 though TF32 is allowed, as PyTorch does"] if "strict" in builds else []),
         *(["rows of another length than the example's"] if "wide" in builds else [])]
    )  # fmt: skip
    told = '"STRICT" if exact else "TF32"' if "strict" in builds else '"TF32"'
    told = f'"HALF" if first.dtype != torch.float32 else {told}' if "half" in builds else told
    exact = (
        "    exact = first.dtype == torch.float32 and not torch.backends.cudnn.allow_tf32\n"
        if "strict" in builds
        else ""
    )
    several, portable_when, floats = len(builds) > 1, "need == -2", falls and "half" not in builds
    if falls and "strict" not in builds:
        portable_when = "need in (-2, -3) or (dtype == torch.float32 and not torch.backends.cudnn.allow_tf32)"
    leaves = "    dtype, leaves = leaves[0].dtype, " if floats else "    leaves = "
    leaves += "[leaf.contiguous() for leaf in leaves]"
    if floats:
        leaves += "\n    leaves = [leaf.float() for leaf in leaves]  # products of 16-bit numbers are exact in TF32"
    heads = ["algorithm", *(["array", "cstdint", "dlfcn.h"] if "boxes_of(" in source else []), "cuda_runtime.h"]
    flags = '    flags = [f"-DSTORED={ELEMENTS[dtype]}"' + (', f"-D{told}"]' if several else "]")
    code = "SOURCE"
    if ".f16.f16" in source:  # the one instruction that names the type
        code = 'SOURCE.replace(".f16.f16", ".bf16.bf16" if dtype == torch.bfloat16 else ".f16.f16")'
    words = {
        "@TOLD_HERE@": ", told" if several else "",
        "@FLAGS@": flags,
        "@SOURCE@": code,
        "@INCLUDES@": "".join(f"#include <{h}>\\n" for h in heads),
        "@ASK@": ASK_SEVERAL.replace("@EXACT@", exact).replace("@TOLD@", told).replace("@OTHER@", other)
        if several
        else ASK,
        "@OTHERWISE@": "OTHERWISE = {" + ", ".join(f'{n}: "{b}"' for n, b in others) + "}\n" if several else "",
        "@NONE@": "; None where the portable path must be taken" if falls else "",
        "@PORTABLE@": f"    if {portable_when}:\n        return None\n" if falls else "",
        "@LEAVES@": leaves,
        "@RETURN@": "[t.to(dtype) if t.dim() > 1 else t for t in out]  # statistics stay fp32" if floats else "out",
    }
    out = COMPILED + "\n" + RUN + DIFFERENTIATED + (portable.python(builds) if falls else "")
    for word, by in words.items():
        out = out.replace(word, by)
    return out
