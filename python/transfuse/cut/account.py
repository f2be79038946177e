"""An account of a graph that was cut: what was taken, what was left and why, and how regions are run."""

from __future__ import annotations

from dataclasses import dataclass, field

from transfuse.cut.regions import Cut
from transfuse.native import library


@dataclass
class RegionReport:
    name: str
    ops: list[str]
    text: str
    machine: str
    decisions: list[str]
    failure: str | None
    backward_failure: str | None
    plans: int

    def summary(self) -> dict:
        """Steps, passes, flops and bytes for the sizes of the capture."""
        return library.summary(self.text, self.machine)


@dataclass
class GraphReport:
    title: str
    lines: list
    regions: list[RegionReport]
    notes: list[str] = field(default_factory=list)


@dataclass
class Report:
    model: str
    graphs: list[GraphReport] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def taken(self) -> int:
        return sum(line.taken is not None for g in self.graphs for line in g.lines)

    @property
    def left(self) -> int:
        return sum(line.left for g in self.graphs for line in g.lines)

    def __str__(self) -> str:
        out = [f"{self.model}: {self.taken} operators taken, {self.left} left to PyTorch"]
        out += [f"  {reason}" for reason in self.failures]
        if not self.graphs and not self.failures:
            out.append("  nothing captured yet: call the model, or give optimize() example inputs")
        for graph in self.graphs:
            out += ["", graph.title]
            width = max([len(line.op) for line in graph.lines] + [8])
            where = max([len(line.module) for line in graph.lines] + [6])
            for line in graph.lines:
                what = line.taken or (line.reason if line.idle else f"PyTorch: {line.reason}")
                what += f" ({line.compared})" if line.compared else ""
                out.append(f"  {line.op:<{width}}  {line.module or '(model)':<{where}}  {what}")
            out += [f"  {note}" for note in graph.notes]
            for region in graph.regions:
                out += ["", f"  {region.name}: {len(region.ops)} operators, {region.plans} plans made"]
                out += [f"    {decision}" for decision in region.decisions]
                if region.failure:
                    out.append(f"    PyTorch runs it: {region.failure}")
                if region.backward_failure:
                    out.append(f"    PyTorch computes its gradient: {region.backward_failure}")
                try:
                    told = region.summary()
                except library.CompileError as error:
                    out.append(f"    no plan: {error}")
                    continue
                before, after = told["before"], told["after"]
                out.append(
                    f"    as written {_si(before['flops'])}flop {_si(before['bytes'])}B, rewritten {_si(after['flops'])}flop "
                    f"{_si(after['bytes'])}B, {len(told['plan']['passes'])} passes"
                )
                out += [f"    {step['rule']}: {step['what']}" for step in told["steps"]]
                out += [f"    pass {p['kind']}: {p['steps']} steps {p['why']}".rstrip() for p in told["plan"]["passes"]]
        return "\n".join(out)


def _si(value: float) -> str:
    for unit in ("", "K", "M", "G", "T"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} P"


def _call(key: tuple) -> str:
    mode, inputs, *_ = key
    shape = "×".join(str(s) for shape in inputs[:1] for s in shape)
    return f"{shape} {'forward' if mode & library.INFERENCE else 'with gradients'}"


def _decision(key: tuple, choice) -> str:
    winner = "ours" if choice.takes_ours else "PyTorch's"
    if not choice.pytorch:
        return f"{_call(key)}: {winner} is used, nothing was timed"
    why = ", which needs less memory" if choice.needs_more_memory else ", with little memory" if choice.lean else ""
    ours, theirs = (
        f"{1e3 * seconds:.3g} ms" + (f" {_si(size)}B" if size else "")
        for seconds, size in ((choice.ours, choice.ours_bytes), (choice.pytorch, choice.pytorch_bytes))
    )
    return f"{_call(key)}: {winner} is used{why} (ours {ours}, PyTorch {theirs})"


def _precision(key: tuple, mode: int) -> str:
    """TF32 is allowed: which products PyTorch rounds, and ours with it."""
    forward = "TF32" if mode & library.TF32 else "full fp32"
    backward = "TF32" if mode & library.TF32_BACKWARD else "full fp32"
    some = (
        ", but for some convolutions" if mode & (library.TF32 | library.TF32_BACKWARD) and library.excepts(mode) else ""
    )
    if key[0] & library.INFERENCE:
        return f"{_call(key)}: PyTorch multiplies in {forward} here{some}, ours too"
    return f"{_call(key)}: PyTorch multiplies in {forward} forward and {backward} backward here{some}, ours too"


def _kept(tensors: list) -> str:
    """What forward left for backward beside the leaves, the largest first."""
    told = [
        f"{dtype}{shape} {_si(size)}B".replace(", ", ",") for dtype, shape, size in sorted(tensors, key=lambda t: -t[2])
    ]
    return (
        f"kept for backward: {_si(sum(size for *_, size in tensors))}B in {len(told)} tensors: {', '.join(told[:12])}"
    )


def graph_report(cut: Cut, title: str) -> GraphReport:
    regions = []
    for region in cut.regions:
        decisions = [_decision(key, choice) for key, choice in region.choices.items()]
        decisions += [_precision(key, mode) for key, mode in region.modes.items()]
        decisions += [_kept(region.kept)] if region.kept else []
        regions.append(
            RegionReport(
                region.name, region.ops, region.example, "cuda" if region.on_cuda else "cpu", decisions, region.failure,
                region.gradient.failure, library.describe(region.handle)["plans"],
            )
        )  # fmt: skip
    return GraphReport(title, cut.lines, regions, cut.notes)
