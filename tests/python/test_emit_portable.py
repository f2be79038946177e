"""The plain convolution of an emitted file, compiled as C++ and run thread by thread, beside PyTorch's."""

import ctypes
import subprocess

import pytest
import torch

from transfuse.emit import portable

SHIM = """
#define __global__
#define __launch_bounds__(n)
static struct { long long x; } blockIdx, threadIdx, gridDim = {3};
"""
RUN = """
extern "C" void run_all(const float* x, const float* weight, const float* bias, float* y, const int* size) {
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < 256; threadIdx.x++) direct(x, weight, GIVEN);
}
"""

CASES = {  # weight's leading extents, taps, stride, padding, dilation, output padding, groups, transposed, bias
    "3d": ((4, 6), (3, 2, 3), (2, 1, 3), (1, 0, 2), (1, 2, 1), (1, 0, 0), 1, True, True),
    "2d groups": ((6, 4), (3, 5), (2, 3), (1, 2), (2, 1), (0, 0), 2, True, False),
    "1d": ((5, 3), (4,), (1,), (0,), (3,), (0,), 1, True, True),
    "2d as it is": ((6, 2), (3, 1), (2, 1), (1, 0), (1, 1), (0, 0), 3, False, True),
}


@pytest.mark.parametrize("case", CASES)
def test_it_computes_what_pytorch_does(case, tmp_path):
    channels, taps, stride, padding, dilation, beyond, groups, transposed, biased = CASES[case]
    cin = channels[0] if transposed else channels[1] * groups
    cout = channels[1] * groups if transposed else channels[0]
    x, weight = torch.rand(2, cin, *(5, 4, 6)[: len(taps)]), torch.rand(*channels, *taps)
    bias = torch.rand(cout) if biased else None
    how = [list(stride), list(padding), list(dilation), transposed, list(beyond), groups]
    wanted = torch.ops.aten.convolution(x.double(), weight.double(), bias if bias is None else bias.double(), *how)
    text = f"convolve(x, w, {'b' if biased else 'None'}, {', '.join(map(str, how))})"
    found = portable.called([(text, {"w": tuple(weight.shape)})])
    kernel, _, _ = portable.texts(found, transposed)
    given = ["bias"] * biased + ["y"] + [f"size[{i}]" for i in range(x.dim() - 1)]
    (tmp_path / "direct.cpp").write_text(
        SHIM + kernel.replace("STORED", "float") + RUN.replace("GIVEN", ", ".join(given))
    )
    library = tmp_path / "direct.so"
    subprocess.run(["c++", "-O1", "-shared", "-fPIC", tmp_path / "direct.cpp", "-o", library], check=True)
    leaves, outputs = portable.program(found)
    assert [eval(leaf)[0] for leaf in leaves] == ["x", "weight", "bias"][: 2 + biased]
    (shape,) = eval(outputs)(x.shape[0], *x.shape[2:])
    assert shape == tuple(wanted.shape)
    y = torch.full(shape, float("nan"))
    sizes = (ctypes.c_int * (x.dim() - 1))(x.shape[0], *x.shape[2:])
    at = [ctypes.c_void_p(t if t is None else t.data_ptr()) for t in (x, weight, bias, y)]
    ctypes.CDLL(library).run_all(*at, sizes)
    assert torch.allclose(y.double(), wanted, rtol=1e-5, atol=1e-6)


def test_unlike_convolutions_have_one_kernel_for_all():
    text = "convolve(x, w, None, [1], [0], [1], True, [0], 1)\nconvolve(y, w, None, [2], [0], [1], True, [0], 1)"
    found = portable.called([(text, {"w": (4, 4, 3)})])
    assert len(found) == 2 and "struct Geometry" in portable.texts(found, True)[0]
    assert portable.called([("convolve(x, made, None, [1], [0], [1], True, [0], 1)", {"w": (4, 4, 3)})]) == [None]
