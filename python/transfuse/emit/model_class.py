"""Regions as functions in PyTorch's operators, and the class ModelNew."""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import dataclass

import torch

from transfuse.emit.captured import Way
from transfuse.emit.printed import Printer, as_written, attribute, returned
from transfuse.emit.source import Reference
from transfuse.problem import Problem, ProblemError
from transfuse.run.region import Region

MOST = 16  # elements of a constant tensor that a file holds


@dataclass
class Part:
    """A region of a way, under its name in the file."""

    name: str
    region: Region
    summary: dict

    @property
    def flows(self) -> list[int]:
        """The results that a gradient can flow to."""
        return [i for i, reached in enumerate(self.region.reach) if reached]

    @property
    def leaves(self) -> list[str]:
        """What its functions call their tensors."""
        holders = [n for n in self.region.eager.graph.nodes if n.op == "placeholder"]
        return [_plain(n.name) for n in holders[: self.region.leaf_count]]


@dataclass
class Method:
    """How ModelNew computes some ways: the name of a method, its lines, and its regions."""

    name: str
    way: Way
    parts: list[Part]
    lines: list[str]


def function(part: Part) -> str:
    """A region in PyTorch's operators."""
    holders = [n for n in part.region.eager.graph.nodes if n.op == "placeholder"]
    names = [_plain(n.name) for n in holders]
    lines = "\n".join(f"    {line}" for line in as_written(part.region.eager, names))
    return f"def {part.name}_as_written({', '.join(names)}):\n{lines}\n"


def _plain(name: str) -> str:
    for prefix in ("p_", "b_", "c_"):
        name = name.removeprefix(prefix)
    return f"{name}_" if name in ("torch", "math", "self") else name


def regions_table(parts: list[Part]) -> str:
    rows = [f'    "{p.name}": ({p.name}_as_written, {p.region.outputs}, {p.flows}),' for p in parts]
    said = "# Of each region: itself in PyTorch's operators, how many results it has, and those that have gradients."
    return "\n".join([said, "REGIONS = {", *rows, "}"])


def method(ref: Reference, way: Way, name: str, parts: list[Part]) -> list[str]:
    """The body of the method that computes a way."""
    graph = way.cut.graph_module.graph
    holders = [n for n in graph.nodes if n.op == "placeholder"]
    texts = {}
    for node, (kind, target) in zip(holders, way.capture.sources):
        texts[node] = attribute(target)
        if kind == "constant" and node.users:
            value = way.capture.constants[target]
            if value.numel() > MOST:
                raise ProblemError(
                    f"the model uses a constant tensor of {value.numel()} elements; a file holds up to {MOST}"
                )
            texts[node] = f"{ref.inputs[0]}.new_tensor({value.tolist()!r}, dtype={value.dtype})"
    inputs = holders[len(way.capture.sources) :]
    texts.update(zip(inputs, _inputs(ref, len(inputs))))
    printer = Printer(texts)
    names = {part.region.name: part for part in parts}
    for node in graph.nodes:
        if node.op == "call_module":
            part = names[node.target]
            count = part.region.leaf_count
            leaves = ", ".join(printer.argument(a) for a in node.args[:count])
            sizes = [printer.argument(a) for a in node.args[count:]]
            told = f", ({', '.join(sizes)},)" if sizes else ""
            printer.lines.append(f'{part.name} = compute("{part.name}", [{leaves}]{told})')
            for user in node.users:
                printer.texts[user] = f"{part.name}[{user.args[1]}]"
        elif node.op == "call_function" and node not in printer.texts:
            printer.statement(node)
        elif node.op == "output":
            results = iter([printer.argument(a) for a in node.args[0]])
            printer.lines.append(f"return {returned(way.capture.out_spec, results)}")
    return printer.lines


def _inputs(ref: Reference, count: int) -> list[str]:
    if ref.star is None:
        if len(ref.inputs) < count:
            raise ProblemError("forward takes other inputs than its positional ones, which a file cannot")
        return ref.inputs[:count]
    return [*ref.inputs, *(f"{ref.star}[{i}]" for i in range(count - len(ref.inputs)))]


def model_class(ref: Reference, methods: list[Method]) -> str:
    given = [*ref.inputs, *([f"*{ref.star}"] if ref.star else [])]
    passed, asked = ", ".join([*given, *(f"{n}={n}" for n in ref.named)]), ", ".join([*given, *ref.named])
    forward = "\n".join(
        [
            ref.signature,
            f"    way = served(self, {asked})",
            *[
                line
                for m in methods
                for line in (f'    if way == "{m.name}":', f"        return self.{m.name}({', '.join(given)})")
            ],
            f"    return self.as_written({passed})",
        ]
    )
    own = [f"def {m.name}(self, {', '.join(given)}):\n" + "\n".join(f"    {line}" for line in m.lines) for m in methods]
    body = [ref.body, forward, *own, ref.written]
    return f"class ModelNew({ref.bases}):\n" + "\n\n".join(textwrap.indent(text, "    ") for text in body) + "\n"


def served(problem: Problem, ref: Reference, ways: list[tuple[Way, Method]]) -> str:
    """Python that binds SERVED: mode and inputs of a call → the method that computes it."""
    parameters = inspect.signature(problem.module.Model.forward).parameters
    lines = ["# By mode and inputs of a call: the method that computes it.", "SERVED = {"]
    for way, method_ in ways:
        for inputs in way.inputs:
            key = [_key(value) for value in inputs]
            for name in [*ref.inputs[len(inputs) :], *ref.named]:
                default = parameters[name].default
                if default is inspect.Parameter.empty:
                    raise ProblemError(f"{problem.path}: get_inputs() gives nothing for {name!r} of forward")
                key.append(_key(default))
            lines.append(f'    ({way.training}, {", ".join(key)}): "{method_.name}",')
    own = sorted({method_.name for way, method_ in ways if way.capture.own_gradient})
    lines = [*dict.fromkeys(lines), "}"]
    lines.append(f"OWN_GRADIENT = {own!r}  # methods that hold where no gradient is asked for")
    lines.append(f"HOOKS = {ways[0][0].hooks}  # that the constructor gives to parts of the model")
    return "\n".join(lines)


def shapes_of(ways: list[tuple[Way, Method]]) -> list[str]:
    """The sizes of a file in words, each once."""
    said = lambda inputs: ", ".join("x".join(map(str, v.shape)) for v in inputs if isinstance(v, torch.Tensor))  # noqa: E731
    return list(dict.fromkeys(said(inputs) for way, _ in ways for inputs in way.inputs))


def _key(value) -> str:
    if isinstance(value, torch.Tensor):
        return f"({value.dtype}, {tuple(value.shape)!r})"
    return repr(repr(value))
