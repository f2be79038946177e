"""The header of a file: what was derived and why it may be fast, what the kernels are for, and what is left to PyTorch."""

from __future__ import annotations

import textwrap

from transfuse.emit.model_class import Part

WIDTH = 140
FLOPS, BANDWIDTH = 400e12, 4.0e12  # of an H200: TF32 products a second, bytes a second


def header(name: str, parts: list[Part], notes: list[str], device: str) -> str:
    lines = [
        f"{name} with its kernels, written by transfuse: ModelNew computes what Model does. It needs PyTorch alone.",
        "",
    ]
    said: set[str] = set()
    for part in parts:
        told = part.summary
        steps = _steps(told["steps"])
        own = [step for step in steps if step not in said]
        alike = ", beside those above" if len(own) < len(steps) else ""
        lines += [f"Derivation of {part.name}, each rule exact{alike}:", *_wrapped(own), *_plan(told, device), ""]
        said |= {*steps}
    for note in notes:
        lines += textwrap.wrap(note, WIDTH)
    return "\n".join(f"# {line}".rstrip() for line in lines)


def _wrapped(steps: list[str]) -> list[str]:
    return [
        line for step in steps for line in textwrap.wrap(step, WIDTH, initial_indent="  ", subsequent_indent="    ")
    ]


def _plan(told: dict, device: str) -> list[str]:
    before, after, passes = told["before"], told["after"], told["plan"]["passes"]
    flops, moved = (sum(p["cost"][k] for p in passes) for k in ("flops", "bytes"))
    words = [
        f"{p['kind']}: {_flops(p['cost']['flops'])}, {_bytes(p['cost']['bytes'])}"
        + (f" ({p['why']})" if p["why"] else "")
        for p in passes
    ]
    lines = textwrap.wrap(f"Plan: {'; '.join(words)}.", WIDTH, subsequent_indent="  ")
    why = f"{_cost(before)} as written became {_cost(after)}"
    if device == "cuda":
        floor, written = (
            max(f / FLOPS, b / BANDWIDTH) * 1e3 for f, b in ((flops, moved), (before["flops"], before["bytes"]))
        )
        why += (
            f"; an H200 (400 TFLOP/s, 4 TB/s) takes {floor:.3g} ms at least for the plan, {written:.3g} ms as written"
        )
    return [*lines, *textwrap.wrap(f"Why it may be this fast: {why}.", WIDTH, subsequent_indent="  ")]


def _steps(steps) -> list[str]:
    """What one rule does to several values in turn, on one line."""
    out: list[str] = []
    for step in steps:
        text = f"{step['rule']}: {step['what']}" if step["what"] else step["rule"]
        if len(text) < 400 and text not in out:
            out.append(text)
    return out


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
