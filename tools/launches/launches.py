"""Whether a file launches what `optimize` does, on a machine without a GPU.

Writes the file, runs every plan of it by its own runtime, and has the engine run the same calls as the operators of `optimize` ask for
them, both beside a driver that writes down what it is asked for (driver.cpp). Compared are machine code, grids, blocks, clusters, shared
memory, every byte of every argument, every tensor map, workspace, and the results' types and strides. Nothing is computed."""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from transfuse import emit
from transfuse.emit import captured
from transfuse.native import library

ROOT = Path(__file__).resolve().parents[2]
# Where tensors are said to lie: workspace, leaves and results, so far apart.
WORK, LEAVES, RESULTS, APART = 1 << 40, 1 << 44, 1 << 45, 1 << 38


def build(folder: Path) -> tuple[Path, Path]:
    """The driver, and what runs the engine beside it."""
    here, lib = Path(__file__).parent, Path(os.environ.get("TRANSFUSE_LIBRARY_DIR", ROOT / "build" / "lib"))
    driver, engine = folder / "libcuda.so.1", folder / "liboptimized.so"
    shared = ["c++", "-std=c++20", "-O1", "-w", "-shared", "-fPIC"]
    subprocess.run([*shared, here / "driver.cpp", "-Wl,-soname,libcuda.so.1", "-o", driver], check=True)
    subprocess.run(
        [*shared, here / "optimized.cpp", f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}", f"-L{lib}", "-ltransfuse",
         f"-Wl,-rpath,{lib}", "-o", engine], check=True)  # fmt: skip
    return driver, engine


class Engine:
    def __init__(self, folder: Path):
        driver, engine = build(folder)
        self.folder, self.met = folder, itertools.count()
        # By this name it is found when the engine, or a file, looks for a driver.
        self.driver = ctypes.CDLL(str(driver), mode=ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(str(engine))
        self.driver.launched.restype = ctypes.c_char_p
        self.library.optimized.restype = self.library.compiled.restype = ctypes.c_char_p
        far = ctypes.c_uint64
        self.library.optimized.argtypes = [
            ctypes.c_int64,
            *[ctypes.c_char_p] * 3,
            ctypes.c_int64,
            *[ctypes.c_char_p] * 3,
            far,
            far,
            far,
        ]

    def launched(self) -> list[str]:
        return self.driver.launched().decode().splitlines()

    def optimized(self, handle, leaves, given, sizes, mode, keep, outputs, wanted) -> tuple[str, list[str]]:
        numbers = lambda values: " ".join(map(str, values)).encode()  # noqa: E731
        views = lambda told, first: "\n".join(  # noqa: E731
            f"{LEAVES + (first + i) * APART} {dtype} {len(shape)} {' '.join(map(str, [*shape, *strides]))}"
            for i, (dtype, shape, strides) in enumerate(told)
        ).encode()
        told = self.library.optimized(
            handle, views(leaves, 0), views(given, len(leaves)), numbers(sizes), mode, numbers(keep), numbers(outputs),
            numbers(wanted), WORK, RESULTS, APART,
        ).decode()  # fmt: skip
        if told.startswith("failed: "):
            raise RuntimeError(told)
        return told, self.launched()

    def of_file(self, space: dict, name: str) -> tuple[str, list[str]]:
        """What a plan of a file launches, by its own runtime."""
        plan = space["Prepared"](name, 0)
        places = [WORK, *(LEAVES + i * APART for i in range(plan.leaves))]
        places += [RESULTS + i * APART for i in range(len(plan.outputs))]
        space["checked"](plan.run(plan.plan, plan.pack(*places), None))
        workspace, outputs, _ = space["PLANS"][name]
        told = [f"{library.DTYPES[d]}{_list(shape)}{_list(strides)}" for d, shape, strides in outputs]
        return " ".join([str(workspace), *told]), self.launched()

    def compiled(self, space: dict):
        """In the place of a file's own compiler: the engine's, for the same sources and options, which keeps what it made."""

        def compiled(kernels, _device):
            paths = {}
            for kernel in dict.fromkeys(kernels):
                entry, text, options = space["KERNELS"][kernel]
                path = paths[kernel] = str(self.folder / f"{next(self.met)}.cubin")
                said = self.library.compiled(*[t.encode() for t in (entry, text, " ".join(options), path)]).decode()
                if said:
                    raise RuntimeError(said)
            return paths

        return compiled


def _list(numbers) -> str:
    return f"[{','.join(map(str, numbers))}]"


def _typed(tensors) -> list[tuple]:
    return [(library.DTYPES[t.dtype], tuple(t.shape), tuple(t.stride())) for t in tensors]


def calls_of(engine: Engine, way, region, wanted: tuple, tf32: bool):
    """What `optimize` launches at each size of a region: for results, and for the gradients of the leaves that are wanted."""
    mode = (library.TF32 | library.TF32_BACKWARD if tf32 else 0) | (0 if wanted else library.INFERENCE)
    with library.alone(region.text) as handle, tempfile.TemporaryDirectory() as folder:
        os.environ["TRANSFUSE_CACHE_DIR"] = folder  # what programs of other calls met does not matter
        if tf32 and region.linear:
            mode |= library.products(handle(""), region.strict)
        for call in way.calls[region.name]:
            leaves, keep, shared = _typed(call.leaves), [], []
            if wanted:
                keep, shared, _ = region.program.kept(
                    tuple([i in wanted for i in range(len(leaves))]), call.leaves, call.sizes
                )
            forward = engine.optimized(handle(""), leaves, [], call.sizes, mode, keep, [], [])
            yield leaves, "training" if wanted else "inference", forward
            if wanted:
                flows, made = keep[1 : 1 + keep[0]], _results(forward[0])
                given = [made[i] for i in [*flows, *range(region.outputs, len(made)), *shared]]
                yield (
                    leaves,
                    "gradients",
                    engine.optimized(handle(""), leaves, given, call.sizes, mode, keep, flows, wanted),
                )


def _results(told: str) -> list[tuple]:
    """Types, extents and strides."""
    numbers = lambda text: tuple([int(n) for n in text.split(",") if n])  # noqa: E731
    return [(d, numbers(shape), numbers(strides)) for d, shape, strides in re.findall(r"(\w+)\[(.*?)\]\[(.*?)\]", told)]


def compare(path, request: emit.Request, engine: Engine, text: str) -> tuple[int, int, list[str]]:
    """How many plans and launches of a file were compared, and what is different."""
    space = {"__name__": "emitted"}
    exec(compile(text, str(path), "exec"), space)
    space["architecture"], space["compiled"] = (lambda device: 90), engine.compiled(space)
    own = {
        (name, *[(library.DTYPES[d], shape, strides) for d, shape, strides in given]): kinds
        for name, given, kinds in space["CALLS"]
    }
    taken = emit.taken(path, request)
    met, compared, launches, wrong = {}, set(), 0, []
    for way, method in taken.ways:
        names = {part.region.name: part.name for part in method.parts}
        floats = way.dtype == torch.float32
        for region in way.cut.regions:
            told = names[region.name], *[(*_typed(call.leaves), *call.sizes) for call in way.calls[region.name]]
            if told in compared:
                continue
            compared.add(told)
            for precision in request.precisions if floats else ("strict",):
                for wanted in [
                    (),
                    *(captured.wants(way, region) if request.gradients and not way.capture.own_gradient else []),
                ]:
                    for leaves, kind, (told, lines) in calls_of(
                        engine, way, region, wanted, floats and precision == "tf32"
                    ):
                        words = f"{'train' if way.training else 'eval'}, {names[region.name]}, {precision}: {kind} {_list(wanted)}"
                        plan = own.get((names[region.name], *leaves), {}).get((kind, *wanted), (None, None))[
                            precision == "strict"
                        ]
                        if plan is None:
                            wrong.append(f"{words}: the file has no plan")
                            continue
                        if plan not in met:
                            met[plan] = engine.of_file(space, plan)
                        if met[plan][0] != told:
                            wrong.append(f"{words}: {plan} has {met[plan][0]}, optimize {told}")
                        for i, (a, b) in enumerate(itertools.zip_longest(met[plan][1], lines)):
                            launches += 1
                            if a != b:
                                wrong.append(f"{words}: launch {i} of {plan}\n  file     {a}\n  optimize {b}")
    wrong += [f"no call has {plan}" for plan in space["PLANS"] if plan not in met]
    return len(met), launches, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("references", nargs="+", metavar="REFERENCE")
    parser.add_argument("--out", type=Path, help="a folder to leave files in")
    parser.add_argument("--file", type=Path, help="compares this file of the one reference, which was written before")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--precision", default="tf32,strict")
    parser.add_argument("--sizes", action="append", default=[])
    options = parser.parse_args()
    several = lambda words: tuple(words.split(","))  # noqa: E731
    request = emit.Request(
        dtypes=several(options.dtype), precisions=several(options.precision), sizes=tuple(options.sizes)
    )
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(Path(folder))
        for reference in map(Path, options.references):
            began = time.process_time()
            text = options.file.read_text() if options.file else emit.emit(reference, request).text
            took = time.process_time() - began
            if options.out:
                emit.write(text, options.out / reference.name)
            plans, launches, wrong = compare(reference, request, engine, text)
            different += bool(wrong)
            print("".join(f"{line}\n" for line in wrong), end="")
            told = f"{len(wrong)} differ" if wrong else "as optimize's"
            lines, compared = text.count("\n"), time.process_time() - began - took
            print(
                f"{reference.stem:<10} {plans} plans, {launches} launches: {told}; {lines} lines; "
                f"processor seconds: {took:.1f} to write, {compared:.1f} to compare", flush=True)  # fmt: skip
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
