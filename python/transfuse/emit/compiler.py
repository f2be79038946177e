"""What the compiler says of a text before a file with it is written: its front end alone, which takes a second and no GPU."""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path

import torch

FLAGS = ("-arch=sm_90a", "-std=c++17", "-default-device", "--fdevice-syntax-only")


@functools.cache
def nvrtc() -> ctypes.CDLL | None:
    """The compiler that comes with PyTorch; None where there is none."""
    folders = (Path(torch.__file__).parent.parent / "nvidia").glob("*/lib/libnvrtc.so.1*")
    for path in [os.environ.get("TRANSFUSE_NVRTC", ""), *sorted(map(str, folders), key=len)]:
        if path and Path(path).is_file():
            return ctypes.CDLL(path)
    return None


@functools.cache
def refused(text: str, *flags: str) -> str | None:
    """The first error in device code; None where there is none, or no compiler to ask."""
    library, program, size = nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    if library is None or library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"file.cu", 0, None, None):
        return None
    options = [flag.encode() for flag in (*FLAGS, *flags)]
    right = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)) == 0
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    said = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, said)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    errors = [line for line in said.value.decode().splitlines() if "error" in line]
    return None if right else (errors or ["the compiler gives no reason"])[0]
