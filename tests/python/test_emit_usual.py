"""Files of usual models that no row is like: they can say what kernels need, and a pass that a text confuses costs lines, no file."""

import shutil
import subprocess
from dataclasses import replace

import pytest

from emitted import namespace, root
from transfuse import emit
from transfuse.emit import Part, device, file, host
from transfuse.emit.formula import Unstated
from transfuse.emit.launches import Kernel, Launch, Parameter, Program, Programs


NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")


@pytest.mark.skipif(NVCC is None, reason="no nvcc here")
@pytest.mark.parametrize(
    "model, stored",
    [("further/v1", "float"), ("further/v28", "float"), ("further/v36", "float"), ("models/d6", "Half")],
)
def test_host_and_device_code_compile(model, stored, tmp_path):
    """A norm in two modes; a root that one place reads; three convolutions, some of them told nothing of others' maps; two kernels for
    16 bits."""
    dtype = "float32" if stored == "float" else "float16"
    (tmp_path / "file.cu").write_text(namespace(emit.emit(root / "bench" / f"{model}.py", dtype=dtype))["SOURCE"])
    flags = ["-std=c++17", "-arch=sm_90a", f"-DSTORED={stored}", "-diag-suppress=177,550"]
    told = subprocess.run(
        [NVCC, *flags, "-c", tmp_path / "file.cu", "-o", tmp_path / "file.o"], capture_output=True, text=True
    )
    assert told.returncode == 0, told.stdout + told.stderr


def test_single_pixels_are_read_by_maps_that_round():
    """The first layer of a generator: channels of a pixel lie side by side, and copies round them to TF32."""
    text = emit.emit(root / "bench" / "further" / "v31.py")
    text = " ".join(text.split())
    assert "}, 0, 11));" in text and "int swizzle = 0, int dtype = 7)" in text
    assert "encode(&map, dtype, 5, tensor, extent, stride, box, ones, 0, swizzle, 3, 0);" in text


def test_three_convolutions_of_which_some_roles_are_told_nothing():
    text = emit.emit(root / "bench" / "further" / "v36.py")
    assert text.count("launch(forward_dense") == 3 and "class ModelNew" in text


def test_a_file_for_16_bits_that_cannot_be_converts_them(monkeypatch):
    """Kernels for 16 bits that no formulas give for all sizes."""
    stated = emit.state

    def state(sized, options, aligned, dtype="f32", *told):
        if dtype == "f16":
            raise Unstated("no formula")
        return stated(sized, options, aligned, dtype, *told)

    monkeypatch.setattr(emit, "state", state)
    text = emit.emit(root / "bench" / "further" / "v4.py", dtype="float16")
    assert "16 bits are converted" in text


@pytest.mark.parametrize(
    "called, told", [("{1, 2}, {3}, 1)", True), ("{1, 2}, {3})", False), ("{1}, {2}, {3}, 0, 11)", True)]
)
def test_maps_are_told_of_swizzles_where_one_has_any(called, told):
    text = "".join(host.support(f"boxes_of(leaf[0], {called};", False, False))
    assert ("int swizzle = 0, int dtype = 7)" in text) == told
    assert text.count("static TensorMap boxes_of(") == 1 and "@" not in text


def test_a_text_that_confuses_a_pass_is_put_plainly(monkeypatch):
    kernel = "__global__ void k(float* y) { y[threadIdx.x] = 1.0f; }\n"

    def confused(*_):
        raise IndexError("list index out of range")

    monkeypatch.setattr(device, "_briefly", confused)
    code, told = device.assembled({"fp32": [("k", kernel)]})
    assert "y[threadIdx.x] = 1.0f" in code["fp32"] and told == device.Told()


def test_a_size_that_a_question_reads_keeps_its_name():
    """Of a norm's rows a block keeps so many: it is asked for before anything is launched."""
    kernel = Kernel("k", "", [Parameter("int", "n", "out_height")])
    asked = Program(
        [kernel], [Launch(kernel, "1", 256, 0, 1, False, "")], [("out_height", "2 * height")], [], "0", [], {}
    )
    calls = ["launch(k, 1, 256, 0, true, stream, out_height);"]
    made, program = host._said_where_given(calls, replace(asked, beyond=["out_height > 128"]))
    assert made == calls and program.extents == [("out_height", "2 * height")]
    made, program = host._said_where_given(calls, asked)
    assert made == ["launch(k, 1, 256, 0, true, stream, 2 * height);"] and not program.extents


def test_fp32_asks_for_no_program_of_16_bits():
    """Which need not be one of formulas: a file for fp32 is written all the same."""

    def unstated():
        raise Unstated("no formula")

    program = Program([], [], [], [], "0", [], {})
    programs = Programs({"fp32": [("", program)]}, {"half": unstated})
    assert programs["fp32"] and "half" in programs
    with pytest.raises(Unstated):
        programs.for_own_rows()
    assert file._own_rows not in {
        way for less in file._ways([Part("forward", None, programs, {})], "fp32") for way in less
    }
