"""The Python part of a file that is the same for all models: building, refusing, launching, differentiating."""

from __future__ import annotations

import re

from transfuse.emit import portable

BATCH_NORM = '''
def batch_norm(x, weight, bias, eps):
    """In training: the result, the batch's mean and its unbiased variance."""
    mean, variance = x.new_zeros(2, x.shape[1])
    return torch.ops.aten.native_batch_norm(x, weight, bias, mean, variance, True, 1.0, eps)[0], mean, variance
'''


def helpers(regions: str) -> str:
    """What the regions as written call beside torch's own operators."""
    return BATCH_NORM if re.search(r"(?<![.\w])batch_norm\(", regions) else ""


COMPILED = '''
ELEMENTS = {torch.float32: "float", torch.float16: "tf_half", torch.bfloat16: "tf_bfloat"}
_built, _calls = {}, {}


def compiled(dtype, device):
    """The kernels for a dtype and the GPU at hand: built on first use, later found in torch's extension cache."""
    arithmetic = @ARITHMETIC@
    major, minor = torch.cuda.get_device_capability(device)
    key = arithmetic, dtype, major, minor
    if key not in _built:
        source = @SOURCE@
        arch = f"{major}{minor}a" if major == 9 else f"{major}{minor}"
        path = load_inline(
            name=f"transfuse_@DIGEST@_{arithmetic}_{ELEMENTS[dtype]}_sm{major}{minor}",
            cpp_sources="",
            cuda_sources=@INCLUDES@ + source,
            extra_cuda_cflags=[f"-gencode=arch=compute_{arch},code=sm_{arch}", f"-DSTORED={ELEMENTS[dtype]}", "-diag-suppress=177,550"],
            is_python_module=False,
            no_implicit_headers=True,
        )
        _built[key] = ctypes.CDLL(path), 10 * major + minor
    return _built[key]
'''

RUN = '''
def call(function, leaves, out, sizes, workspace, arch):
    addresses = lambda tensors: (ctypes.c_void_p * len(tensors))(*[0 if t is None else t.data_ptr() for t in tensors])
    where = ctypes.c_void_p(None if workspace is None else workspace.data_ptr())
    with torch.cuda.device(leaves[0].device):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
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
    library, arch = compiled(first.dtype, first.device)
    function, sizes = library[name], [leaves[leaf].shape[axis] for leaf, axis in sizes_at]
    function.restype, counts = ctypes.c_longlong, (ctypes.c_longlong * len(sizes))(*sizes)
    need = call(function, leaves, [], counts, None, arch)
    if need == -1:
        raise ValueError(f"{name}: at sizes {sizes} a tensor would have 2^31 elements or more, which these kernels cannot address")
    return function, counts, arch, need, outputs(*sizes)


def run(name, leaves, expected, sizes_at, outputs):
    """Launches a program@NONE@. `expected`: of each leaf a name and its shape; sizes that may vary are words in it."""
    dtype, leaves = leaves[0].dtype, [leaf.contiguous() for leaf in leaves]
@EXACT@    key = name, torch.backends.cudnn.allow_tf32, *[(leaf.shape, leaf.dtype, leaf.device, leaf.data_ptr() % 16) for leaf in leaves]
    if key not in _calls:
        _calls[key] = prepared(name, leaves, expected, sizes_at, outputs)
    function, counts, arch, need, shapes = _calls[key]
@PORTABLE@    out = [leaves[0].new_empty(shape) for shape in shapes]
    workspace = torch.empty(max(need, 1), dtype=torch.uint8, device=leaves[0].device)
    call(function, leaves, out, counts, workspace, arch)
    return @RETURN@

'''

DIFFERENTIATED = '''
def differentiated(written, leaves, gradients):
    """Gradients of the model as written, by PyTorch's own backward operators."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        leaves = leaves if again else [t.detach().requires_grad_(t.requires_grad) for t in leaves]
        pairs = [(y, g) for y, g in zip(written(torch.ops.aten.convolution, *leaves), gradients) if g is not None]
        wanted = [t for t in leaves if t.requires_grad]
        given = [y for y, _ in pairs], wanted, [g for _, g in pairs]
        found = iter(torch.autograd.grad(*given, create_graph=again, allow_unused=True))
    return tuple(next(found) if t.requires_grad else None for t in leaves)
'''


def imports(falls: bool) -> str:
    standard = "import ctypes\nimport math\n" if falls else "import ctypes\n"
    return standard + "\nimport torch\nimport torch.nn as nn\nfrom torch.utils.cpp_extension import load_inline\n"


def sources(joined: dict[str, list[str]]) -> str:
    said = {"fp32": "fp32, TF32 allowed", "strict": "strict fp32", "half": "16 bits"}
    lines = [f'    "{key}": {" + ".join(names)},' for key, names in joined.items()]
    about = ": " + ", ".join(said[k] for k in joined) if len(joined) > 1 else ""
    return f"# What is compiled{about}.\nSOURCES = {{\n" + "\n".join(lines) + "\n}"


def text(joined: dict[str, list[str]], falls: bool, boxes: bool) -> str:
    """falls: some sizes or GPUs take the portable path; then fp32 is TF32 where there is no strict build."""
    strict, half = "strict" in joined, "half" in joined
    arithmetic = '"fp32"'
    if half:
        arithmetic = '"fp32" if dtype == torch.float32 else "half"'
    if strict:
        arithmetic = f'"strict" if dtype == torch.float32 and not torch.backends.cudnn.allow_tf32 else {arithmetic}'
    source = "SOURCES[arithmetic]"
    if half:  # the one instruction that names the type
        source = 'SOURCES[arithmetic].replace(".f16.f16", ".bf16.bf16" if dtype == torch.bfloat16 else ".f16.f16")'
    heads = ["algorithm", *(["array", "cstdint", "dlfcn.h", "type_traits"] if boxes else []), "cuda_runtime.h"]
    includes = '"' + "".join(f"#include <{h}>\\n" for h in heads) + '"'
    out = COMPILED.replace("@ARITHMETIC@", arithmetic).replace("@SOURCE@", source).replace("@INCLUDES@", includes)
    run = RUN
    back = "out"
    exact = ""
    if falls and not half:
        exact = "    leaves = [leaf.float() for leaf in leaves]  # products of 16-bit numbers are exact in TF32\n"
        back = "[t.to(dtype) for t in out]"
    stop = ""
    if falls:
        when = (
            "need == -2" if strict else "need == -2 or (dtype == torch.float32 and not torch.backends.cudnn.allow_tf32)"
        )
        stop = f"    if {when}:\n        return None\n"
    run = run.replace("@EXACT@", exact).replace("@PORTABLE@", stop).replace("@RETURN@", back)
    run = run.replace("@NONE@", "; None where the portable path must be taken" if falls else "")
    return out + "\n" + run + DIFFERENTIATED + (portable.PYTHON if falls else "")
