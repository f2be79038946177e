"""`transfuse emit`: a reference file becomes one Python file with inline CUDA that needs nothing but torch."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from transfuse import library, precision, problem
from transfuse.capture import capture
from transfuse.emit import cpu, file, gradients, runtime
from transfuse.emit.formula import Unstated
from transfuse.emit.source import Reference, reference, undefined
from transfuse.emit.launches import Program, Programs
from transfuse.emit.program import in_16_bits, state
from transfuse.emit.sizes import Sized, sized
from transfuse.emit.sizes import at as extent_at
from transfuse.problem import ProblemError
from transfuse.options import Options
from transfuse.regions import Cut, cut


@dataclass
class Part:
    """A region of the model in one mode: its programs for each arithmetic, and how PyTorch would compute it."""

    name: str
    sized: Sized
    programs: Programs
    summary: dict
    gradient: Part | None = None  # its gradients, where kernels of the file compute them
    derived: bool = True  # whether PyTorch is told the derivation's result, where a formula is left
    follows: bool = False  # whether its kernels say numbers that follow from sizes

    @property
    def outputs(self) -> int:
        return len(self.programs["fp32"][0][1].outputs)

    @property
    def rounds(self) -> bool:
        """Whether it has kernels on tensor cores, each for one arithmetic."""
        return any(program.dense for _, program in self.programs["fp32"])

    @property
    def tf32(self) -> bool:
        """Whether its kernels for fp32 round to TF32."""
        return any(program.tf32 for _, program in self.programs["fp32"])

    @property
    def network(self) -> bool:
        """More convolutions stay than a reader would follow: each kernel is put by itself, for one arithmetic, and what the
        kernels do not serve is left to PyTorch."""
        return self.programs["fp32"][0][1].dense > MOST

    @property
    def call(self) -> str:
        return runtime.COMPUTE

    @property
    def told(self) -> str:
        """What the call is told before the leaves."""
        return f'"{self.name}", '

    @property
    def plain(self) -> bool:
        """Whether forward looks up parameters as the model does: kernels on tensor cores take longer than that."""
        return self.rounds

    @property
    def falls(self) -> bool:
        """Whether sizes remain that no variant takes."""
        return all(condition or program.beyond for condition, program in self.programs["fp32"])


@dataclass
class Mode:
    """The model in train or eval mode: the captured graph with regions cut out."""

    training: bool
    capture: object
    cut: Cut
    parts: list[Part]

    @property
    def regions(self) -> tuple:
        return tuple(r.text for r in self.cut.regions), self.cut.graph_module.code


def inputs_of(reference_problem) -> list:
    """Tensors like get_inputs() gives, without filling gigabytes with random numbers where that can be avoided."""
    try:
        with torch.device("meta"):
            made = reference_problem.made("get_inputs")
        if all(isinstance(t, torch.Tensor) for t in made):
            return [torch.empty(t.shape, dtype=t.dtype) for t in made]
    except Exception:  # get_inputs() needs real tensors
        made = None
    return reference_problem.inputs()


def captured(reference_problem, training: bool) -> Mode:
    model, inputs = reference_problem.model().train(training), tuple(inputs_of(reference_problem))
    nested = [type(value).__name__ for value in inputs if isinstance(value, (dict, list, tuple))]
    if nested:
        raise ProblemError(
            f"{reference_problem.path}: get_inputs() holds a {nested[0]}; a file takes tensors and numbers"
        )
    try:
        found = capture(model, type(model), inputs, {}, True)
    except Exception as error:
        line = str(error).strip().splitlines()
        raise ProblemError(
            f"{reference_problem.path}: the model cannot be captured: {line[0] if line else type(error).__name__}"
        ) from error
    result = cut(found.graph_module, found.parameter_names, Options())
    if not result.regions:
        reasons = sorted({line.reason for line in result.lines if line.reason})
        raise ProblemError(
            f"{reference_problem.path}: nothing of the model can be taken ({'; '.join(reasons) or 'no convolution'})"
        )
    return Mode(training, found, result, [])


FEW = 4  # kernels of a program that has others beside it for sizes its own cannot take
MOST = 3  # kernels on tensor cores of a program that is no network


def stated(mode: Mode, prefix: str) -> None:
    calls = {n.target: n for n in mode.cut.graph_module.graph.nodes if n.op == "call_module"}
    for i, region in enumerate(mode.cut.regions):
        name = prefix if len(mode.cut.regions) == 1 else f"{prefix}_{i}"
        try:
            at = sized(region, calls[region.name])
            told = library.summary(at.text(at.example), "cuda")
            mode.parts.append(Part(name, at, variants(at, name), told))
        except (Unstated, ValueError) as error:
            raise ProblemError(
                f"no file can be written that serves all sizes: what a kernel is launched with is no formula of them ({error})"
            ) from error
    if len(mode.parts) == 1:
        mode.parts[0].gradient = gradients.differentiated(mode.parts[0])
    for part in mode.parts:
        with_example(part)


def with_example(part: Part) -> None:
    """Beside its kernels for all sizes those that `optimize` takes for the example's, where they are others: some rest on the sizes."""
    at, variants = part.sized, part.programs["fp32"]
    condition = " && ".join(["arch == 90", *(f"{s} == {size}" for s, size in at.example.items()), "aligned"])
    own = example_program(at, part.name, not part.programs.full)
    if own and own.tf32 and not part.tf32 and _multiplies_fully(at):  # which those for all sizes had no reason to ask
        own = example_program(at, part.name, False)
    if own is None or own.kinds == variants[0][1].kinds:
        return
    variants[:] = [(condition, own), *(variant for variant in variants if variant[0] != condition)]


def example_program(at: Sized, name: str, tf32: bool) -> Program | None:
    """What `optimize` takes for the example's sizes, if TF32 is allowed or not; None where a file cannot say what it reads."""
    try:
        return state(at, "tf32 own" if tf32 else "own", True, "f32", f"{name}_example_", tuple(at.example))
    except (Unstated, ValueError, library.CompileError):
        return None


def variants(at: Sized, name: str) -> Programs:
    """Programs for all sizes; where there are none, because other sizes ask for other kernels, for all batches at the example's
    other sizes, or for the example's sizes alone. What a program does not serve is computed in PyTorch's operators."""
    names = tuple(s.name for s in at.symbols)
    for fixed in dict.fromkeys(((), names[1:], names)):
        try:
            return programs_of(at, name, fixed)
        except (Unstated, ValueError, library.CompileError) as error:
            reason = error
    raise reason


def programs_of(at: Sized, name: str, fixed: tuple[str, ...]) -> Programs:
    """Of each arithmetic the programs, and under which condition each is taken. Programs with tensor-core kernels are for one
    GPU: elsewhere, and at sizes they cannot take, the portable path is gone. Where rows of the example's length can share the
    zeros between them, "wide" is for all other lengths; a network, whose text is long, has one program for all of them."""
    inner = at.symbols[-1] if at.symbols else None
    known = inner is None or inner.behind is not None or inner.name in fixed  # rows have one length at every size
    rows = " rows" if known else ""
    fast = state(at, f"tf32{rows}", True, "f32", f"{name}_", fixed)
    example = example_program(at, name, True) if fast.tf32 else None
    full = fast.tf32 and ((example is not None and not example.tf32) or _multiplies_fully(at))  # as `optimize` does
    if full:
        fast = state(at, rows, True, "f32", f"{name}_", fixed)
    rounded = "tf32" if fast.tf32 else ""
    conditions = _taken(at, fast.grains, fixed)
    if not fast.dense:
        when = " && ".join([*conditions, "aligned"])
        fast, half = in_16_bits(fast, at, rows, f"{name}_", fixed)
        alone = {"half": lambda: [(when, half)]} if half else {}
        if len(fast.kernels) > FEW or fixed:  # as many again for all other sizes would be too much to read
            return Programs({"fp32": [(when, fast)]}, {}, alone, full)
        general = state(at, "general unaligned", False, "f32", f"{name}_general_")
        return Programs({"fp32": [(when, fast), ("", general)]}, {}, alone, full)
    when = " && ".join(["arch == 90", *conditions, "aligned"])
    later = {"half": lambda: [(when, state(at, rows, True, "f16", f"{name}_", fixed))]}
    if rounded:
        later["strict"] = lambda: [(when, state(at, rows, True, "f32", f"{name}_", fixed))]
    alone = {}
    if not known and fast.dense <= MOST:
        own = " && ".join(["arch == 90", *_taken(at, fast.grains, (inner.name,)), "aligned"])
        if _rows_share_padding(at, "rows", "f16"):
            rows16 = lambda prefix: (own, state(at, "rows", True, "f16", prefix, (inner.name,)))  # noqa: E731
            alone = {
                "half": lambda: [rows16(f"{name}_rows_"), *later["half"]()],
                "half rows": lambda: [rows16(f"{name}_")],
            }
        if _rows_share_padding(at, f"{rounded} rows", "f32"):
            own_rows = state(at, f"{rounded} rows", True, "f32", f"{name}_", (inner.name,))
            return Programs({"fp32": [(own, own_rows)], "wide": [(when, fast)]}, later, alone, full)
    return Programs({"fp32": [(when, fast)]}, later, alone, full)


def _multiplies_fully(at: Sized) -> bool:
    """Whether PyTorch multiplies the example in full fp32 although TF32 is allowed, as far as a GPU is here to be asked: `optimize` does
    what it does."""
    types = re.findall(r"= (?:input|param) (\w+)\[", at.region.text)
    if not torch.cuda.is_available() or not precision.allows_tf32() or {*types} != {"f32"}:
        return False
    shapes = [[extent_at(extent, at.example) for extent in shape] for shape in at.shapes]
    sizes = [extent_at(number, at.example) for number in at.numbers]
    try:
        return not precision.rounds(at.region.eager, [torch.rand(shape, device="cuda") for shape in shapes], sizes)
    except torch.OutOfMemoryError:
        return False


def _taken(at: Sized, grains: dict[str, int], fixed: tuple[str, ...]) -> list[str]:
    """Which sizes kernels take: those that are fixed as they are, of the others multiples of what the example's are."""
    conditions = [f"{s} == {at.example[s]}" for s in fixed]
    return conditions + [f"{s} % {g} == 0" for s, g in grains.items() if g > 1 and s not in fixed]


def _rows_share_padding(at: Sized, options: str, dtype: str) -> bool:
    """Whether rows of the example's length can share the zeros between them."""
    graph = at.text(at.example, dtype)
    return any("shared padding" in launch["note"] for launch in library.stated(graph, graph, options)["launches"])


def emit(path, device: str = "cuda", dtype: str = "float32") -> str:
    """The text of the new file. dtype: what a program on tensor cores has its kernels for, float32, or 16 bits."""
    found = problem.load(path)
    ref: Reference = reference(found.path, found.module)
    train, evaluation = captured(found, True), captured(found, False)
    same = train.regions == evaluation.regions
    modes = [train] if same else [train, evaluation]
    for mode in modes:
        name = "forward" if same else "train" if mode.training else "eval"
        if device == "cpu":
            cpu.stated(mode, name)
        else:
            stated(mode, name)
    text = cpu.write(found, ref, modes) if device == "cpu" else file.write(found, ref, modes, dtype != "float32")
    if missing := undefined(text):
        raise ProblemError(f"{found.path}: {missing[0]} cannot be carried over into a file")
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return text.replace("@DIGEST@", digest)


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
