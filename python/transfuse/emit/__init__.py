"""`transfuse emit`: a reference file becomes one Python file with inline CUDA, or C++, that needs nothing but torch."""

from __future__ import annotations

import itertools
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from transfuse import problem
from transfuse.emit import captured, cpu, cuda, model_class
from transfuse.emit.captured import Way
from transfuse.emit.model_class import Method, Part
from transfuse.emit.source import Reference, clashes, reference, undefined
from transfuse.native import library
from transfuse.problem import Problem, ProblemError

DTYPES = ("float32", "float16", "bfloat16")
PRECISIONS = ("tf32", "strict")


@dataclass(frozen=True)
class Request:
    """What a file is asked for."""

    device: str = "cuda"
    dtypes: tuple[str, ...] = ("float32",)
    precisions: tuple[str, ...] = PRECISIONS
    sizes: tuple[str, ...] = ()  # beside the example's
    arch: int = 90
    gradients: bool = True


@dataclass
class File:
    text: str
    notes: list[str]  # what it is for and what it leaves to PyTorch's operators, as its header says it


@dataclass
class Taken:
    """A reference file taken apart, and the model in every mode, dtype and size."""

    problem: Problem
    reference: Reference
    methods: list[Method]
    ways: list[tuple[Way, Method]]


def taken(path, request: Request) -> Taken:
    found = problem.load(path)
    ref = reference(found)
    sizes = captured.sizes_of(found, captured.inputs_of(found), list(request.sizes))
    ways = [
        way
        for dtype in request.dtypes
        for training in (True, False)
        for way in captured.ways(found, training, getattr(torch, dtype), sizes)
    ]
    for way in ways:
        captured.record(way)
    return Taken(found, ref, *_methods(ref, ways, request.device))


def emit(path, request: Request | None = None) -> File:
    request = request or Request()
    model = taken(path, request)
    writer = cpu if request.device == "cpu" else cuda
    text, notes = writer.write(model.problem, model.reference, model.methods, model.ways, request)
    if missing := undefined(text):
        raise ProblemError(f"{path}: {missing[0]} cannot be carried over into a file")
    if twice := clashes(model.reference.helpers, text):
        raise ProblemError(f"{path}: {twice[0]!r} is a name that files use themselves: give it another one there")
    return File(text, notes)


def _methods(ref, ways: list[Way], device: str) -> tuple[list[Method], list[tuple[Way, Method]]]:
    """Ways that are computed by the same functions share a method."""
    methods: list[Method] = []
    of: list[tuple[Way, Method]] = []
    example = next(way for way in ways if not way.training)
    modes = ways[0].alike != example.alike
    for way in ways:
        same = next((m for m in methods if m.way.alike == way.alike), None)
        if same is None:
            name = ("train" if way.training else "evaluate") if modes else "forward"
            taken = {m.name for m in methods}
            name = next(n for i in itertools.count(1) if f"by_{(n := name + (f'_{i}' if i > 1 else ''))}" not in taken)
            several = len(way.cut.regions) > 1
            parts = [
                Part(f"{name}_{i}" if several else name, region, library.summary(region.example, device))
                for i, region in enumerate(way.cut.regions)
            ]
            same = Method(f"by_{name}", way, parts, model_class.method(ref, way, name, parts))
            methods.append(same)
        of.append((way, same))
    return methods, of


def write(text: str, path) -> None:
    """All of it or nothing."""
    path, name = Path(path), None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w") as out:
            out.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError as error:
        if name is not None:
            os.unlink(name)
        raise ProblemError(f"{path} cannot be written: {error.strerror}") from error
