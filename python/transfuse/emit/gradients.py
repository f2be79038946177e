"""The gradients of a region as a program of their own, and the Python of a file that calls it."""

from __future__ import annotations

import copy
from dataclasses import replace

import sympy

from transfuse import library
from transfuse.emit import widths
from transfuse.emit.formula import Unstated
from transfuse.emit.launches import Program, Programs, written
from transfuse.emit.program import state


def differentiated(part):
    """Of a collapsed region with one result: its gradients, whose leaves are the region's and the result's gradient. None where
    the generators have no kernels for them that serve all sizes."""
    at = part.sized
    if (
        part.rounds
        or part.outputs != 1
        or at.region.differentiable != 1
        or at.region.reach[0] != [*range(len(at.names))]
    ):
        return None
    region = copy.copy(at.region)
    region.differentiable = len(at.names)
    wanted = ",".join(str(i) for i in range(len(at.names)))
    own = replace(at, region=region)
    name = "backward" if part.name == "forward" else f"{part.name}_backward"
    try:
        program = state(own, f"gradient=0:{wanted}", True, "f32", f"{name}_")
        result = [_extent(text, at.symbols) for text in part.programs["fp32"][0][1].outputs[0][1]]
    except (Unstated, ValueError, library.CompileError):
        return None
    if program.dense:
        return None
    program = widths.as_in(program, part.programs["fp32"][0][1])
    when = " && ".join([*(f"{s} % {g} == 0" for s, g in program.grains.items() if g > 1), "aligned"])
    own = replace(own, shapes=[*at.shapes, result], names=[*at.names, "gradient"])
    program = replace(program, optional=optional(program, at.region.inputs))
    return replace(part, name=name, sized=own, programs=Programs({"fp32": [(when, program)]}), gradient=None)


def _extent(text: str, symbols) -> object:
    """An extent of the result that a caller can be told: a number, or a size."""
    if text.isdigit():
        return int(text)
    if text in {s.name for s in symbols}:
        return sympy.Symbol(text, integer=True, positive=True)
    raise Unstated(f"the result's extent {text} is no size of the inputs")


def optional(program: Program, inputs: list[int]) -> list[int]:
    """Gradients of inputs that need not be computed: the launches that write them write nothing else."""
    found = []
    for k in inputs:
        writers = [w for launch in program.launches if f"out[{k}]" in (w := written(launch))]
        if writers and all(w == [f"out[{k}]"] for w in writers):
            found.append(k)
    return found


def python(forward: str, backward: str) -> str:
    """PyTorch's way to the gradients. forward: the function of the region in its operators; backward: the name of the program."""
    return f'''def {backward}_as_derived(_, *given):
    """What the kernels of "{backward}" compute, in PyTorch's operators: for other sizes, and where it is differentiated again."""
    again, (*leaves, gradient) = torch.is_grad_enabled(), given
    with torch.enable_grad():
        leaves = [t.view_as(t) for t in leaves]  # whatever one of them was computed from
        wanted = [t for t in leaves if t.requires_grad]
        found = iter(torch.autograd.grad({forward}(_, *leaves), wanted, gradient, create_graph=again, allow_unused=True))
    return [next(found) if t.requires_grad else None for t in leaves]'''


FUNCTION = '''
class Differentiable(torch.autograd.Function):
    """Results and gradients by kernels, second derivatives by PyTorch (super().apply: no look for functorch's transforms)."""
    @staticmethod
    def forward(ctx, name, *leaves):
        ctx.save_for_backward(*leaves)
        return tuple(run(name, *leaves))

    @staticmethod
    def backward(ctx, gradient):
        leaves = ctx.saved_tensors
        if torch.is_grad_enabled():
            found = @BACKWARD@_as_derived(None, *leaves, gradient)
        else:
            found = run("@BACKWARD@", *leaves, gradient@WITHOUT@)
        return None, *[g if t.requires_grad else None for g, t in zip(found, leaves)]
'''


def function(name: str, program: Program) -> str:
    """What autograd is given."""
    without = ", ".join(f"{k}" for k in program.optional)
    skipped = f", without=[i for i in ({without},) if not leaves[i].requires_grad]" if program.optional else ""
    return FUNCTION.replace("@BACKWARD@", name).replace("@WITHOUT@", skipped)
