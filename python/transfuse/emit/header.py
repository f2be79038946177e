"""The header of a file: the model as written, what was derived, the plan, and why it may be this fast."""

from __future__ import annotations

import re
import textwrap

from transfuse.emit.source import Reference
from transfuse.emit.text.layout import WIDTH


# Rules that move dimensions and no numbers: they are counted, not told.
SHAPES = (
    "drop_trivial_axes",
    "keep_dims",
    "pool_before_reshape",
    "reduce_reshaped",
    "reshape_of_reshape",
    "sink_reshape",
)


def header(found, ref: Reference, modes, device: str = "cuda") -> str:
    lines = [
        f"{found.path.name} with its kernels: ModelNew computes what Model does, whose layers it makes (below). As written:"
    ]
    lines += ["    " + line for line in ref.written.splitlines()]
    said: set[str] = set()  # in the mode before
    for mode in modes:
        for part in mode.parts:
            told = part.summary
            before, after = told["before"], told["after"]
            title = "" if len(modes) == 1 else f" ({'train' if mode.training else 'eval'} mode)"
            steps = _steps(told["steps"])
            own = [step for step in steps if step not in said]
            flops = sum(p["cost"]["flops"] for p in told["plan"]["passes"])
            moved = sum(p["cost"]["bytes"] for p in told["plan"]["passes"])
            passes = [
                f"{p['kind']}: {_flops(p['cost']['flops'])}, {_bytes(p['cost']['bytes'])}"
                + (f"; {p['why']}" if p["why"] else "")
                for p in told["plan"]["passes"]
                if p["cost"]["flops"] > 0  # else weights change places
            ]
            lines += [
                f"Derivation{title}, each rule exact{', beside those above' if len(own) < len(steps) else ''}:",
                *_beside(_shortened(own, 14 if len(modes) == 1 else 9)),
                f"  in all {_cost(before)} became {_cost(after)}.",
                *_planned(f"Plan: {'; '.join(passes)}", _justified(device, flops, moved, before), len(said) > 0),
            ]
            said |= {*steps}
    return "\n".join(f"# {line}".rstrip() for line in lines)


def _planned(plan: str, justified: str, again: bool) -> list[str]:
    """The plan and why it may be fast; again: what the machine does at best has been said."""
    times = re.search(r"takes (\S+ ms) at least .*, (\S+ ms) as written", justified)
    if again and times:
        return textwrap.wrap(f"{plan}; {times[1]} there at least, {times[2]} as written.", 146)
    return [*textwrap.wrap(f"{plan}.", 146), *textwrap.wrap(justified, 146)]


def _beside(steps: list[str]) -> list[str]:
    """Rules that follow one another, two or three on a line where there is room."""
    lines: list[str] = []
    for step in steps:
        if lines and len(lines[-1]) + len(step) <= WIDTH - 2:  # behind "# "
            lines[-1] += f"; {step.strip()}"
        else:
            lines.append(step)
    return lines


def _justified(device: str, flops: float, moved: float, before: dict) -> str:
    if device == "cpu":
        return f"Why it may be this fast: {_flops(flops)} are done where the operators as written do {_flops(before['flops'])}."
    floor = max(flops / 400e12, moved / 4.0e12) * 1e3
    written = max(before["flops"] / 400e12, before["bytes"] / 4.0e12) * 1e3
    return (
        f"Why it may be this fast: an H200 (400 TFLOP/s TF32, 4.0 TB/s measured) takes {floor:.3g} ms at least for the plan at these"
        f" sizes, {written:.3g} ms as written."
    )


def _steps(steps) -> list[str]:
    """Each said once; what one rule does to several values in turn on one line."""
    out, last = [], ""
    for step in steps:
        text = f"  {step['rule']}: {step['what']}" if step["what"] else f"  {step['rule']}"
        alike, _, what = text.rpartition(" ")
        if text == last or (
            alike.strip() and what.isalpha() and last.startswith(f"{alike} ") and last.endswith(f" {what}")
        ):
            continue
        if alike.strip() and what.isalpha() and last.startswith(f"{alike} ") and len(last) + len(what) < 140:
            out[-1] = text = f"{last}, {what}"
        elif len(text) < 400:
            out.append(text[:150])
        last = text
    return out


def _shortened(steps: list[str], most: int) -> list[str]:
    told = [step for step in steps if step.split(":")[0].strip() not in SHAPES]
    told = told if len(told) <= most else told[: most - 1]
    return told if len(told) == len(steps) else [*told, f"  … and {len(steps) - len(told)} more"]


def _cost(cost: dict) -> str:
    return f"{_flops(cost['flops'])} and {_bytes(cost['bytes'])}"


def _flops(value: float) -> str:
    for unit, size in (("Gflop", 1e9), ("Mflop", 1e6), ("kflop", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} flop"


def _bytes(value: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"


def gradients(regions: list[str], own: bool) -> str:
    """What backward does, as the header says it. own: by kernels."""
    if own:
        return "\n# Gradients: kernels of their own; where a gradient is differentiated again PyTorch's operators compute it."
    kinds = {"derivation's result": "_as_derived(", "model as written": "as_written("}
    told = " or the ".join(kind for kind, mark in kinds.items() if any(mark in text for text in regions))
    return (
        f"\n# Gradients: PyTorch's operators differentiate the {told}, which has kernels of its own in forward alone."
    )


def served(arithmetics: list[str], portable: bool, tf32: bool) -> str:
    """What the kernels are for, and what becomes of everything else. tf32: those for fp32 round to it."""
    own = {"fp32": "fp32 (TF32)" if tf32 else "fp32", "half": "16 bits", "strict": "strict fp32"}
    left = [] if "half" in arithmetics else ["16 bits are converted"]
    by_pytorch = "take PyTorch's operators"
    if "fp32" not in arithmetics or (tf32 and "strict" not in arithmetics):
        left.append(f"{'strict fp32' if 'fp32' in arithmetics else 'fp32'} takes PyTorch's operators")
        by_pytorch = "too" if portable else "as well"
    left.append(
        f"other sizes {by_pytorch}, other GPUs the portable kernel"
        if portable
        else f"other GPUs and sizes {by_pytorch}"
    )
    return f"# For {' and '.join(own[a] for a in own if a in arithmetics)} on sm_90a; {', '.join(left)}.\n"
