"""The emitted files of the seed models, and what NVRTC says of their device code."""

import re
from functools import cache
from pathlib import Path

import pytest

from transfuse import emit, library

root = Path(__file__).resolve().parents[2]
SEEDS = ("A", "B", "C", "D")


def example(row: str) -> str:
    return (root / "examples" / "emitted" / f"{row}.py").read_text()


def namespace(text: str) -> dict:
    space = {"__name__": "emitted"}
    exec(compile(text, "emitted", "exec"), space)
    return space


def device_part(source: str) -> str:
    return re.split(r"\n(?=#include <|static bool aligned)", source, maxsplit=1)[0]


BUILDS = {
    "fp32": ["-DSTORED=float"],
    "wide": ["-DSTORED=float", "-DANY_WIDTH"],
    "strict": ["-DSTORED=float", "-DSTRICT"],
    "half": ["-DSTORED=Half", "-DHALF"],
}


def builds(text: str) -> list[str]:
    return ["fp32", *(key for key, told in BUILDS.items() if f'"{told[-1].removeprefix("-D")}"' in text)]


def compiled(device: str, arch: str, told: list[str]) -> tuple[str, str]:
    """What NVRTC makes of device code, and what it has to say."""
    if reason := library.nvrtc_unavailable():
        pytest.skip(reason)
    try:
        return library.ptx(device, f"-arch={arch}", "-std=c++17", *told), ""
    except library.CompileError as error:
        return "", str(error)


@cache
def file_of(row: str, dtype: str = "float32") -> str:
    """A benchmark row's file: it takes half a minute to write, and several tests read it."""
    return emit.emit(root / "bench" / "models" / f"{row}.py", dtype=dtype)
