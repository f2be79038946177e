"""Emitted files whose kernels are plain code, run on the CPU: kernels and the host code that launches them are compiled by the C++
compiler beside tests/cuda_host/shim.h, where the threads of a block are fibers."""

import copy
import ctypes
import re
import shutil
import subprocess

import pytest
import torch

from emitted import namespace, root
from transfuse import emit

# What the shim has not: the runtime's launches, and instructions that the text names itself.
RUNTIME = r"""
#include "shim.h"
#define STORED float
#define __constant__ static
typedef void* cudaStream_t;
struct dim3 { unsigned x; dim3(unsigned n) : x(n) {} };
struct Value { int programmaticStreamSerializationAllowed; struct { unsigned x, y, z; } clusterDim; };
struct cudaLaunchAttribute { int id; Value val; };
enum { cudaLaunchAttributeProgrammaticStreamSerialization, cudaLaunchAttributeClusterDimension,
       cudaFuncAttributeMaxDynamicSharedMemorySize };
struct cudaLaunchConfig_t { dim3 grid, block; size_t shared; cudaStream_t stream; cudaLaunchAttribute* attributes; unsigned count; };
static int cudaGetLastError() { return 0; }
template <class F> void cudaFuncSetAttribute(F, int, int) {}
template <class... P> void cudaLaunchKernelEx(const cudaLaunchConfig_t* c, void (*kernel)(P...), P... a) {
    run_grid((int)c->grid.x, (int)c->block.x, true, false, [=] { kernel(a...); });
}
"""
INSTRUCTIONS = (
    (r"struct Half \{.*?\n\};\nstruct Bfloat \{.*?\n\};\n", ""),
    (r"__device__ const", "static const"),
    (r"extern __shared__ [^;]*\bfloat tf_tiles\[\];", "static float tf_tiles[1 << 16];"),
    (r'asm volatile\("cp\.async\.ca[^;]*;"[^;]*;', "*to = *from;"),
    (r'asm volatile\("cp\.async[^;]*;"[^;]*;', ";"),
    (r"direct<<<(.*?), 256, 0, stream>>>\((.*?)\);", r"run_grid((int)(\1), 256, true, false, [=] { direct(\2); });"),
    (r"\bP\(a\)\.\.\.", "(P)a..."),  # a number becomes a pointer
)


def emulated(text: str, folder) -> dict:
    """The file, its kernels on the CPU. They are told of a GPU that has no clusters of blocks."""
    source = namespace(text)["SOURCE"]
    for instruction, by in INSTRUCTIONS:
        source = re.sub(instruction, by, source, flags=re.S)
    (folder / "file.cpp").write_text(RUNTIME + source)
    flags = ["-std=c++17", "-O1", "-U_FORTIFY_SOURCE", "-w", "-fpermissive", "-fPIC", "-shared", "-ffp-contract=off"]
    command = [
        "c++",
        *flags,
        f"-I{root / 'tests' / 'cuda_host'}",
        str(folder / "file.cpp"),
        "-o",
        str(folder / "file.so"),
    ]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(folder / "file.so"))

    def compiled(name, *_):
        function = library[name]
        function.restype, function.argtypes = ctypes.c_longlong, [ctypes.c_void_p] * 3 + [ctypes.c_int] * 2
        return function, 80

    space = namespace(text.replace("if not leaves[0].is_cuda:", "if False:"))
    space["compiled"] = compiled
    return space


def rms(found, truth) -> float:
    return ((found.double() - truth).pow(2).mean().sqrt() / truth.pow(2).mean().sqrt()).item()


# Of A and B several chunks of rows, one chunk, and sizes that only the general kernels take; of f10 parts of the image that are
# empty at the example's sizes, and none.
CASES = {
    "A": ((2, 64, 130, 32), (1, 64, 70, 16), (1, 64, 9, 7)),
    "B": ((2, 64, 130, 32), (1, 64, 9, 7)),
    "f10": ((2, 3, 8, 12, 16), (1, 3, 9, 33, 32)),
}


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
@pytest.mark.parametrize("row", CASES)
def test_kernels_of_a_file_compute_what_the_model_does(row, tmp_path, monkeypatch):
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: -1, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)
    path = root / "bench" / "models" / f"{row}.py"
    space, theirs = emulated(emit.emit(path), tmp_path), namespace(path.read_text())
    arguments = theirs["get_init_inputs"]()
    for shape in CASES[row]:
        for training in (True, False):
            torch.manual_seed(0)
            reference = theirs["Model"](*arguments).train(training)
            torch.manual_seed(0)
            model = space["ModelNew"](*arguments).train(training)
            wide, x = copy.deepcopy(reference).double(), torch.rand(shape)
            with torch.no_grad():
                found, plain, truth = model(x), reference(x), wide(x.double())
            assert rms(found, truth) <= max(2 * rms(plain, truth), 1e-7)
            for mine, true in zip(model.buffers(), wide.buffers()):
                torch.testing.assert_close(mine.double(), true.double(), rtol=1e-6, atol=1e-6)
    assert all(need > 0 for _, _, _, need, *_ in space["_calls"].values())  # no call was left to PyTorch
