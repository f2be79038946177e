"""What the compiler says of a text before a file with it is written: its front end alone, which takes a second and no GPU."""

from __future__ import annotations

import functools

from transfuse import library

FLAGS = ("-arch=sm_90a", "-std=c++17", "-default-device", "--fdevice-syntax-only")


@functools.cache
def refused(text: str, *flags: str) -> str | None:
    """The first error in device code; None where there is none, or no compiler to ask."""
    if library.nvrtc_unavailable() is not None:
        return None
    try:
        library.ptx(text, *FLAGS, *flags)
    except library.CompileError as error:
        lines = str(error).splitlines()
        return next((line for line in lines[1:] if "error" in line), lines[0])
    return None
