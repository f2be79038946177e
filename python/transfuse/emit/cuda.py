"""A file for CUDA: header, device code, launches, runtime, regions in PyTorch's operators, ModelNew."""

from __future__ import annotations

from transfuse.emit import launches, runtime, runtime_cuda
from transfuse.emit.captured import Way
from transfuse.emit.device import device_code
from transfuse.emit.header import header
from transfuse.emit.model_class import Method, function, model_class, regions_table, served, shapes_of
from transfuse.emit.programs import Programs
from transfuse.emit.source import Reference
from transfuse.problem import Problem

IMPORTS = """import contextlib
import ctypes
import functools
import hashlib
import math
import os
import struct
import warnings

import torch
import torch.nn as nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.cpp_extension import load_inline
"""

ELSEWHERE = '''
def elsewhere(device):
    """Why the kernels do not run there; None where they do."""
    if device.type != "cuda":
        return f"the kernels are for CUDA, the tensors are on {device}"
    if not (architecture(device.index) @HOLDS@):
        return f"the kernels are for compute capability @NEEDED@, this device has {architecture(device.index) / 10}"
    return None
'''


def write(found: Problem, ref: Reference, methods: list[Method], of: list[tuple[Way, Method]], request):
    programs = Programs(request.arch, list(request.precisions), request.gradients)
    entries = {}  # (region's name, what it is called with) → the same, and plans by kind
    for way, method in of:
        for part in method.parts:
            region = next(r for r in way.cut.regions if r.name == part.region.name)
            for given, kinds in programs.of(way, region, part.name):
                entries[part.name, given] = part.name, given, kinds
    entries = [*entries.values()]
    parts = [part for method in methods for part in method.parts]
    notes = _notes(programs, of, request)
    regions = [function(part) for part in parts]
    text = "\n".join(regions) + "\n".join(line for m in methods for line in m.lines)
    arch, portable = programs.arch, programs.portable
    elsewhere = ELSEWHERE.replace("@HOLDS@", ">= 80" if portable else f"== {arch}")
    elsewhere = elsewhere.replace("@NEEDED@", "8.0 or higher" if portable else f"{arch / 10}")
    sections = [
        header(found.path.name, parts, notes, "cuda"),
        IMPORTS + (ref.imports + "\n" if ref.imports else ""),
        f'FILE = "{found.path.name}"',
        "# Device code, as it was generated: kernels of one source each, which are compiled when a call first needs them.\n"
        + device_code(programs.kernels),
        f'HOST = r"""{runtime_cuda.HOST}"""',
        runtime_cuda.PYTHON,
        elsewhere,
        launches.plans(programs),
        launches.calls(entries),
        _gradients(programs, entries),
        "# The model's regions in PyTorch's operators: what is asked how PyTorch multiplies, and differentiated twice.",
        *regions,
        regions_table(parts),
        (runtime.BATCH_NORM if "batch_norm(" in text else "") + (runtime.UPDATE if "update(" in text else ""),
        runtime.ARITHMETIC,
        served(found, ref, of),
        runtime.COMMON,
        ref.helpers,
        model_class(ref, methods),
    ]
    return "\n\n\n".join(s.strip("\n") for s in sections if s.strip()) + "\n", notes


def _gradients(programs: Programs, entries) -> str:
    """What forward keeps for plans of gradients, and how these take the gradients of results."""
    named = {name: plan for plan, name in programs.plans.items()}
    saved: dict[tuple, set] = {}
    strides = {}
    for name, given, kinds in entries:
        for (kind, *leaves), plans in kinds.items():
            for plan in (p for p in plans if p is not None and kind == "gradients"):
                _, flows = programs.kept[name, tuple(leaves)]
                reads = {i for i in named[plan].reads if i < len(given)}
                saved.setdefault((name, *leaves), set()).update(reads)
                strides[plan] = [s for _, _, s in named[plan].given[len(given) : len(given) + len(flows)]]
    lines = [
        "# Of each region, by the leaves whose gradients are wanted: leaves and results that these are computed from, and results that",
        "# have gradients.",
        "SAVED = {",
    ]
    for key, leaves in saved.items():
        shared, flows = programs.kept[key[0], key[1:]]
        lines.append(f"    {key!r}: ({sorted(leaves)}, {shared}, {flows}),".replace("'", '"'))
    lines += ["}", "# Of each plan for gradients: the strides in which it takes those of results.", "GRADIENTS = {"]
    lines += [f'    "{plan}": {told!r},' for plan, told in strides.items()]
    return "\n".join([*lines, "}"])


def _notes(programs: Programs, of, request) -> list[str]:
    shapes = shapes_of(of)
    arithmetic = [d for d in request.dtypes if d != "float32"]
    if "float32" in request.dtypes:
        arithmetic.insert(
            0, f"float32 ({' and '.join('TF32' if p == 'tf32' else 'full fp32' for p in programs.precisions)})"
        )
    where = "compute capability 8.0 or higher" if programs.portable else f"compute capability {programs.arch / 10}"
    said = [f"Kernels for inputs of {'; '.join(shapes)}, in {', '.join(arithmetic)}, on GPUs of {where}."]
    left = ["other sizes, dtypes and layouts, autocast, torch.compile, torch.func, other devices"]
    left += [
        {"tf32": "TF32", "strict": "full fp32"}[p]
        for p in ("tf32", "strict")
        if p not in programs.precisions and "float32" in request.dtypes
    ]
    left += ["second derivatives"]
    if request.gradients:
        left += ["gradients of some parameters, or for some results, alone", *dict.fromkeys(programs.left)]
    else:
        left.append("gradients")
    said.append(f"PyTorch's operators compute everything else, with one warning: {'; '.join(left)}.")
    if "float32" in request.dtypes and len(programs.precisions) > 1:
        said.append(
            "Which of TF32 and full fp32 a call has is PyTorch's choice for it, asked once on the device that runs it."
        )
    if not programs.checked:
        said.append("No compiler was there when this was written: no kernel was passed over for spilling registers.")
    return said
