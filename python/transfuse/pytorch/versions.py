"""The versions of PyTorch that were tested."""

import torch

NEWEST = (2, 15)


def untested() -> str | None:
    """Why calls with gradients are PyTorch's here: a version that was not tested may hide from capture what has a gradient of its
    own, and such a gradient would be silently wrong."""
    version = torch.__version__
    if tuple(map(int, version.split(".")[:2])) <= NEWEST:
        return None
    return f"PyTorch {version} is newer than {'.'.join(map(str, NEWEST))}, the newest that was tested: where gradients are asked for"
