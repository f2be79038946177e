"""The class ModelNew: the reference's constructor, guarded, and a forward that calls the regions."""

from __future__ import annotations

import ast
import inspect
import json
import math
import re
import textwrap

from transfuse.emit import runtime
from transfuse.emit.model import Printer, attribute, user_inputs
from transfuse.emit.source import Reference
from transfuse.emit.text.layout import WIDTH
from transfuse.problem import ProblemError


def model_class(found, ref: Reference, modes, network: bool = False) -> str:
    """network: many kernels, whose parameters are looked up once (runtime.HELD)."""
    lines = [*_given(found, ref, modes[0]), *_forwards(ref, modes, network)]
    forward = f"{ref.signature}\n" + textwrap.indent("\n".join(lines), "    ")
    body = [textwrap.indent(_guarded(found, ref.init), "    "), textwrap.indent(forward, "    ")]
    return f"\nclass ModelNew({ref.bases}):\n" + "\n\n".join(body)


def _forwards(ref: Reference, modes, network: bool) -> list[str]:
    """The body of forward: of one mode, or of train mode and then of eval mode."""
    lines = _forward(ref, modes[0], network)
    if len(modes) > 1:
        lines = ["if self.training:", *("    " + line for line in lines), *_forward(ref, modes[1], network)]
    calls = sum(line.count(runtime.COMPUTE) for line in lines)
    if calls > 1:
        lines = [f"compute = {runtime.COMPUTE[1:-1]}", *(line.replace(runtime.COMPUTE, "compute") for line in lines)]
    if not network and not all(part.plain for mode in modes for part in mode.parts):
        lines = [_found_at_once(line) for line in lines]
    updates = [i for i, line in enumerate(lines) if line.lstrip().startswith("update(")]
    if len(updates) == 1:
        lines[updates[0] : updates[0] + 1] = _updated(lines[updates[0]])
    return lines


def _updated(line: str) -> list[str]:
    """The call of runtime.UPDATE, written out."""
    call = ast.parse(line.strip()).body[0].value
    text = runtime.UPDATED
    for word, argument in zip(("@RUNNING@", "@FOUND@", "@MOMENTUM@"), call.args):
        text = text.replace(word, ast.unparse(argument).replace("'", '"'))
    return textwrap.indent(text, " " * (len(line) - len(line.lstrip()))).split("\n")


def _guarded(found, init: str) -> str:
    """The constructor, refusing arguments other than those the kernels were written for."""
    given = found.module.get_init_inputs()
    signature = inspect.signature(found.module.Model.__init__)
    bound = signature.bind(None, **given) if isinstance(given, dict) else signature.bind(None, *given)
    bound.apply_defaults()
    first = next(n for n in ast.parse(init).body if getattr(n, "name", None) == "__init__").body[0]
    lines = init.splitlines()
    checks = []
    for name, value in list(bound.arguments.items())[1:]:
        if isinstance(value, list):
            value = tuple(value)
        if not _writable(value):
            continue
        mine = f"tuple({name})" if isinstance(value, tuple) else name
        checks.append((mine, value))
    if checks:
        indent = " " * first.col_offset
        wanted = ", ".join(repr(v) for _, v in checks)
        mine = ", ".join(m for m, _ in checks)
        comma = "," if len(checks) == 1 else ""
        said = f"{indent}given, expected = ({mine}{comma}), ({wanted}{comma})"
        apart = [f"{indent}given = ({mine}{comma})", f"{indent}expected = ({wanted}{comma})"]
        guard = [
            *([said] if len(said) < WIDTH - 4 else apart),
            f"{indent}if given != expected:",
            f'{indent}    raise ValueError(f"the kernels of this file were written for ModelNew{{expected}}, got ModelNew{{given}}")',
        ]
        lines[first.lineno - 1 : first.lineno - 1] = guard
    return "\n".join(lines)


def _writable(value) -> bool:
    """Whether repr() of a value is the value."""
    if isinstance(value, (tuple, list)):
        return all(map(_writable, value))
    return isinstance(value, (bool, int, str, type(None))) or (isinstance(value, float) and math.isfinite(value))


def _given(found, ref: Reference, mode) -> list[str]:
    """Refuses arguments of forward, beside its tensors, that are not the defaults the graph was captured with."""
    holders = [n for n in mode.cut.graph_module.graph.nodes if n.op == "placeholder"]
    defaults = inspect.signature(found.module.Model.forward).parameters
    others = {n: defaults[n].default for n in ref.names[len(holders) - len(mode.capture.sources) :] if n in defaults}
    return [
        line
        for name, value in others.items()
        if value is not inspect.Parameter.empty
        for line in (
            f"if {name} is not {value!r}:" if value is None or isinstance(value, bool) else f"if {name} != {value!r}:",
            f'    raise ValueError(f"forward of this file was written for {name}={value!r}, got {{{name}!r}}")',
        )
    ]


def _forward(ref: Reference, mode, network: bool) -> list[str]:
    graph = mode.cut.graph_module.graph
    holders = [n for n in graph.nodes if n.op == "placeholder"]
    sources = mode.capture.sources
    texts = {}
    for node, (kind, target) in zip(holders, sources):
        texts[node] = attribute(target)
        if kind == "constant" and node.users:
            value = mode.capture.constants[target]
            if value.numel() > 16:
                raise ProblemError(
                    f"the model uses a constant tensor of {value.numel()} elements; a file holds up to 16"
                )
            texts[node] = f"{user_inputs(ref, 1)[0]}.new_tensor({value.tolist()!r})"
    inputs = holders[len(sources) :]
    texts.update(zip(inputs, user_inputs(ref, len(inputs))))
    printer = Printer(texts)
    if network:
        names = {node: name for node, (kind, name) in zip(holders, sources) if kind != "constant"}
        read = [n for n in dict.fromkeys(a for node in graph.nodes for a in node.all_input_nodes) if n in names]
        printer.texts.update((node, f"held[{i}]") for i, node in enumerate(read))
        listed = ", ".join(json.dumps(names[node]) for node in read)
        printer.lines.append(f"held = held_by(self, ({listed}{',' * (len(read) == 1)}))")
    parts = {part.sized.region.name: part for part in mode.parts}
    for node in graph.nodes:
        if node.op == "call_module":
            part = parts[node.target]
            arguments = ", ".join(printer.argument(a) for a in node.args[: part.sized.region.leaf_count])
            arguments = f"{part.told}{arguments}"
            name = "y" if len(parts) == 1 else f"y{node.target.rpartition('_')[2]}"
            if part.outputs == 1:
                printer.lines.append(f"{name} = {part.call}({arguments})[0]")
                for user in node.users:
                    printer.texts[user] = name
            else:
                printer.lines.append(f"{name} = {part.call}({arguments})")
                for user in node.users:
                    printer.texts[user] = f"{name}[{user.args[1]}]"
        elif node.op == "call_function" and node not in printer.texts:
            printer.statement(node)
        elif node.op == "output":
            results = [printer.argument(a) for a in node.args[0]]
            spec = mode.capture.out_spec
            if spec.num_leaves == 1 and spec.num_children == 0:
                last = printer.lines[-1] if printer.lines else ""
                if last.startswith(f"{results[0]} = "):
                    printer.lines[-1] = f"return {last.removeprefix(f'{results[0]} = ')}"
                else:
                    printer.lines.append(f"return {results[0]}")
            else:
                told = _returned(spec, iter(results))
                printer.lines.append(f"return {told[1:-1] if spec.type is tuple and len(results) > 1 else told}")
    return [_runs(line) for line in printer.lines]


def _runs(line: str) -> str:
    """Elements of `held` that follow one another are a slice of it."""

    def slices(match):
        numbers, parts = [int(n) for n in re.findall(r"\d+", match[0])], []
        for n in numbers:
            if parts and parts[-1][1] == n:
                parts[-1][1] = n + 1
            else:
                parts.append([n, n + 1])
        return ", ".join(f"held[{a}]" if b == a + 1 else f"*held[{a}:{b}]" for a, b in parts)

    return re.sub(r"\[\*(held\[\d+:\d+\])\]", r"\1", re.sub(r"held\[\d+\](?:, held\[\d+\])+", slices, line))


def _returned(spec, results) -> str:
    """What forward returns: tensors in tuples, lists and dictionaries."""
    if spec.is_leaf():
        return next(results)
    items = [_returned(child, results) for child in spec.children()]
    if spec.type is tuple:
        return f"({', '.join(items)}{',' * (len(items) == 1)})"
    if spec.type is list:
        return f"[{', '.join(items)}]"
    if spec.type is dict:
        return f"{{{', '.join(f'{key!r}: {item}' for key, item in zip(spec.context, items))}}}"
    raise ProblemError(
        f"forward returns a {spec.type.__name__}; a file can return tensors in tuples, lists and dictionaries"
    )


def _found_at_once(line: str) -> str:
    """Tensors of one layer that follow one another are looked up together (runtime.OF)."""

    def together(match):
        names = ", ".join(json.dumps(name) for name in re.findall(r"\.(\w+)(?:,|$)", match[0]))
        layer = "".join(f'._modules["{step}"]' for step in match[1].split(".")[1:])
        return f"*of(self{layer}, {names})"

    line = re.sub(r"\b(self(?:\.\w+)+)\.\w+(?:, \1\.\w+\b(?![.(]))+", together, line)
    return re.sub(r"\[\*(of\([^()]*\))\]", r"\1", line)
