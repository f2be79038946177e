"""Emitted files, run without a GPU: their kernels are compiled by the C++ compiler beside tests/cuda_host, where the threads of a
block are fibers and tensor cores, barriers and bulk copies are functions, and launched as the file's plans say."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

root = Path(__file__).resolve().parents[2]
SEEDS = ("A", "B", "C", "D")
needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
ROUNDED = 11  # a tensor map's element type: fp32, rounded to TF32 by the copy


def namespace(text: str) -> dict:
    """As a harness does it: the text is executed, there is no __file__."""
    space = {"__name__": "emitted"}
    exec(compile(text, "emitted", "exec"), space)
    if "Left" in space:
        space["Left"] = UserWarning  # warnings travel between test processes by the names of their classes
    return space


class Map(ctypes.Structure):
    """HostBoxes of tests/cuda_host/tensor_map.h, as TensorMap of src/cuda/device/machine/hopper.cuh has it."""

    _fields_ = [  # noqa: RUF012
        ("base", ctypes.c_char_p), ("element", ctypes.c_int), ("rounds", ctypes.c_int), ("extent", ctypes.c_int * 5),
        ("box", ctypes.c_int * 5), ("stride", ctypes.c_longlong * 4), ("swizzle", ctypes.c_int),
    ]  # fmt: skip


def _as_cpp(number: int, entry: str, text: str) -> str:
    text = text.replace('extern "C" __global__', "static", 1)
    text = text.replace(
        "extern __shared__ __align__(1024) unsigned char shared[];",
        "unsigned char* const shared = tf_share(tf_host_shared_bytes);",
    )
    begin = text.index(f"{entry}(") + len(entry) + 1
    parameters = [p for p in text[begin : text.index(") {", begin)].split(", ") if p]
    given = ", ".join(f"*({p.rpartition(' ')[0]}*)p[{i}]" for i, p in enumerate(parameters))
    grid = "    TF_CLUSTER_BARRIER();" in text
    fibers = str(grid or any(word in text for word in ("__syncthreads();", "_sync(", "__syncwarp"))).lower()
    words = "".join(f"#undef TF_{w}\n" for w in ("FUNCTION", "SEQUENCE", "BESIDE", "AFTER", "CLUSTER_BARRIER"))
    return (
        f"namespace k{number} {{\n{words}{text}\n"
        f'extern "C" void call{number}(void** p, int blocks, int threads, int shared) {{ tf_host_shared_bytes = shared; '
        f"run_grid(blocks, threads, {fibers}, {str(grid).lower()}, [&] {{ k{number}::{entry}({given}); }}); }}\n}}\n"
    )


class Emulated:
    """Runs the plans of a file; counts how often it ran each."""

    def __init__(self, space: dict, folder):
        self.space, self.ran = space, []
        kernels = space["KERNELS"]
        self.numbers = {name: i for i, name in enumerate(kernels)}
        source = '#include "shim.h"\n' + "".join(
            _as_cpp(self.numbers[name], entry, text) for name, (entry, text, _) in kernels.items()
        )
        (Path(folder) / "kernels.cpp").write_text(source)
        flags = "-std=c++17 -O0 -U_FORTIFY_SOURCE -w -fPIC -shared -ffp-contract=off".split()
        built = Path(folder) / "kernels.so"
        subprocess.run(
            ["c++", *flags, f"-I{root / 'tests' / 'cuda_host'}", Path(folder) / "kernels.cpp", "-o", built], check=True
        )
        self.library = ctypes.CDLL(str(built))

    def __call__(self, name: str, leaves):
        self.ran.append(name)
        workspace, outputs, launches = self.space["PLANS"][name]
        poison = torch.full((workspace + 1024,), 255, dtype=torch.uint8)
        at = (poison.data_ptr() + 255) // 256 * 256
        results = [
            torch.empty_strided(shape, strides, dtype=dtype).fill_(float("nan")) for dtype, shape, strides in outputs
        ]
        for kernel, numbers, arguments in launches:
            held = []
            for argument in arguments:
                if isinstance(argument, tuple):
                    kind, position, offset, *box = argument
                    base = at if kind == "work" else (leaves if kind == "leaf" else results)[position].data_ptr()
                    held.append(self._map(base + offset, box[0]) if box else ctypes.c_void_p(base + offset))
                else:
                    data = argument.to_bytes(4, "little", signed=True) if isinstance(argument, int) else argument
                    held.append(ctypes.create_string_buffer(data + bytes(16)))
            pointers = (ctypes.c_void_p * len(held))(*[ctypes.addressof(h) for h in held])
            getattr(self.library, f"call{self.numbers[kernel]}")(pointers, numbers[0], numbers[3], numbers[6])
        assert not torch.isnan(torch.cat([y.flatten().float() for y in results])).any(), f"{name}: not all was written"
        return results

    @staticmethod
    def _map(address: int, numbers: list):
        kind, swizzle = numbers[:2]
        extent, stride, box = numbers[2:7], numbers[7:11], numbers[11:]
        element = 4 if kind in (7, ROUNDED) else 2
        whole = ctypes.create_string_buffer(ctypes.sizeof(Map) + 64)
        at = (ctypes.addressof(whole) + 63) // 64 * 64
        made = Map.from_buffer(whole, at - ctypes.addressof(whole))
        made.element, made.rounds, made.swizzle = element, kind == ROUNDED, swizzle
        made.extent, made.stride, made.box = tuple(extent), tuple(stride), tuple(box)
        ctypes.c_void_p.from_buffer(whole, at - ctypes.addressof(whole)).value = address
        return made


def emulated(text: str, folder, tf32: bool = True) -> tuple[dict, Emulated]:
    """The file's names, and what runs its plans. tf32: how PyTorch is taken to multiply."""
    space = namespace(text)
    run = Emulated(space, folder)
    space |= {
        "run": run,
        "elsewhere": lambda device: None,
        "allows_tf32": lambda: tf32,
        "rounds": lambda *_: (True, True),
    }
    return space, run


def deviation(found: torch.Tensor, truth: torch.Tensor) -> float:
    """The root of the mean square, relative to the truth's."""
    return ((found.double() - truth).square().mean().sqrt() / truth.square().mean().sqrt()).item()
