"""The runtime of a file: NVRTC compiles its kernels for the H200, a driver that does nothing takes its launches, and what fails is a
sentence."""

import os
import subprocess
import sys

import pytest
from emitted import needs_compiler, root

from transfuse import emit
from transfuse.native import library

MODEL = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(64, 64, 3, 1, 1)
    def forward(self, x):
        return torch.relu(self.up(x))
def get_inputs(): return [torch.rand(8, 64, 32, 64)]
def get_init_inputs(): return []
"""
RUN = """
import sys, torch
space = {{"__name__": "emitted"}}
exec(open({file!r}).read(), space)
space.update(architecture=lambda device: 90, elsewhere=lambda device: None, rounds=lambda *_: (True, True))
torch._C._cuda_getCurrentRawStream = lambda device: 0
x = torch.zeros({shape})
with torch.no_grad():
    assert space["ModelNew"]()(x).shape == {shape}
space["ModelNew"]()(x).sum().backward()
driver = __import__("ctypes").CDLL("libcuda.so.1")
driver.launched.restype = __import__("ctypes").c_char_p
print(driver.launched().decode())
"""
FAILURES = "cuLaunchKernelEx cuFuncSetAttribute cuTensorMapEncodeTiled cuModuleLoadData"
FAILING = f"""
import os
for function in "{FAILURES}".split():
    os.environ["FAILS"] = function
    space["_prepared"].clear(), space["_loaded"].clear()
    try:
        space["ModelNew"]()(x)
    except RuntimeError as error:
        said = str(error)
    print(said)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> tuple:
    """A file, what runs it beside a driver that does nothing, and the folder that kernels are kept in."""
    folder = tmp_path_factory.mktemp("launch")
    (folder / "problem.py").write_text(MODEL)
    (folder / "new.py").write_text(emit.emit(folder / "problem.py", emit.Request(precisions=("tf32",))).text)
    return folder, RUN.format(file=str(folder / "new.py"), shape=(8, 64, 32, 64))


def ran(file, tmp_path, more: str = "") -> subprocess.CompletedProcess:
    folder, script = file
    driver = tmp_path / "libcuda.so.1"
    source = root / "tools" / "launches" / "driver.cpp"
    subprocess.run(["c++", "-std=c++20", "-w", "-shared", "-fPIC", source, "-o", driver], check=True)
    own = {"LD_LIBRARY_PATH": str(tmp_path), "TORCH_EXTENSIONS_DIR": str(folder / "extensions"), "MAX_JOBS": "2"}
    return subprocess.run(
        [sys.executable, "-c", script + more], env=os.environ | own, capture_output=True, text=True, cwd=tmp_path
    )


@needs_compiler
@pytest.mark.skipif(library.nvrtc_unavailable() is not None, reason="no NVRTC here")
def test_plans_are_compiled_and_launched(file, tmp_path):
    told = ran(file, tmp_path)
    if "libnvrtc" in told.stderr:
        pytest.skip("no NVRTC that a process finds by itself")
    assert told.returncode == 0, told.stderr
    dense = [line.split() for line in told.stdout.splitlines() if line.startswith("transfuse_dense ")]
    assert dense and all(
        int(words[words.index("shared") + 1]) > 48 << 10 and "6:" in words for words in dense
    )  # begins while weights are packed
    assert {path.suffix for path in (file[0] / "extensions").rglob("*")} >= {".cubin", ".so"}
    told = ran(file, tmp_path, FAILING)
    assert told.returncode == 0, told.stderr
    for line, where in zip(
        [line for line in told.stdout.splitlines() if "CUDA_ERROR" in line],
        (
            "the launch of prepare",
            "bytes of shared memory) of dense",
            "cuTensorMapEncodeTiled for dense",
            "cuModuleLoadData of",
        ),
        strict=True,
    ):
        assert where in line and line.endswith("CUDA_ERROR_SAMPLE (as in a test)"), line


@needs_compiler
def test_without_a_driver_it_says_so(file, tmp_path):
    (tmp_path / "libcuda.so.1").write_text("")
    folder, script = file
    own = {"LD_LIBRARY_PATH": str(tmp_path), "TORCH_EXTENSIONS_DIR": str(folder / "extensions")}
    told = subprocess.run([sys.executable, "-c", script], env=os.environ | own, capture_output=True, text=True)
    assert told.returncode == 1 and "there is no CUDA driver here (libcuda.so.1)" in told.stderr


@pytest.mark.skipif(library.nvrtc_unavailable() is not None, reason="no NVRTC here")
@pytest.mark.parametrize("row", ("A", "B"))
def test_device_code_compiles(row):
    space: dict = {"__name__": "emitted"}
    exec((root / "examples" / "emitted" / f"{row}.py").read_text(), space)
    for entry, text, options in space["KERNELS"].values():
        assert entry in library.ptx(text, "-arch=sm_90a", "-std=c++17", "-default-device", *options)
