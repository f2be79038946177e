"""The emitted files of the seed models, and what NVRTC says of their device code."""

import ctypes
import glob
import os
import re
from pathlib import Path

import pytest
import torch

root = Path(__file__).resolve().parents[2]
SEEDS = ("A", "B", "C", "D")


def example(row: str) -> str:
    return (root / "examples" / "emitted" / f"{row}.py").read_text()


def namespace(text: str) -> dict:
    space = {"__name__": "emitted"}
    exec(compile(text, "emitted", "exec"), space)
    return space


def nvrtc():
    pattern = os.path.join(os.path.dirname(torch.__file__), "..", "nvidia", "*", "lib", "libnvrtc.so.1*")
    found = [os.environ.get("TRANSFUSE_NVRTC", "")] + sorted(glob.glob(pattern), key=len)
    for path in found:
        if path and os.path.isfile(path):
            return ctypes.CDLL(path)
    pytest.skip("no NVRTC here")


def device_part(source: str) -> str:
    return re.split(r"\n(?=#include <|static bool aligned)", source, maxsplit=1)[0]


BUILDS = {
    "fp32": ["-DSTORED=float"],
    "wide": ["-DSTORED=float", "-DWIDE"],
    "strict": ["-DSTORED=float", "-DSTRICT"],
    "half": ["-DSTORED=Half", "-DHALF"],
}


def builds(text: str) -> list[str]:
    return ["fp32", *(key for key in BUILDS if f'"{key.upper()}"' in text)]


def compiled(device: str, arch: str, told: list[str]) -> tuple[str, str]:
    """What NVRTC makes of device code, and what it has to say."""
    library, program, size = nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), device.encode(), b"emitted.cu", 0, None, None)
    flags = [f"-arch={arch}".encode(), b"-std=c++17", *(flag.encode() for flag in told)]
    right = library.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags)) == 0
    what = "PTX" if right else "ProgramLog"
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, text)
    return (text.value.decode(), "") if right else ("", text.value.decode() or "failed")
