"""A program of a file: its kernels, and the launches with formulas of the sizes for everything they are given."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Parameter:
    """Of a kernel. `value`: host code that gives it; a pointer, a number, or the braces of a struct."""

    type: str
    name: str
    value: str
    constant: int | None = None


@dataclass
class Kernel:
    name: str
    text: str  # the whole source, entry renamed, signature as `parameters` say
    parameters: list[Parameter]


@dataclass
class Launch:
    kernel: Kernel
    grid: str
    block: int
    shared: int
    cluster: int
    early: bool
    note: str


@dataclass
class Program:
    kernels: list[Kernel]
    launches: list[Launch]
    extents: list[tuple[str, str]]  # named, and their formulas
    workspace: list[tuple[str, str]]  # begin of each region of it: name and formula
    bytes: str
    outputs: list[tuple[str, list[str]]]  # dtype and extents
    grains: dict[str, int]
    notes: list[str] = field(default_factory=list)
    entries: list[str] = field(default_factory=list)  # what the generators call the kernels
    largest: list[str] = field(default_factory=list)  # elements of the largest tensors: offsets have 32 bits
    flops: str = ""  # of the convolutions that are computed in TF32
