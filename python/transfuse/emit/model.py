"""The Python side of an emitted file: constructor, forward and gradient, printed from the captured graph."""

from __future__ import annotations

import ast
import inspect
import operator
import re
import textwrap
from dataclasses import dataclass

import torch
from torch.fx import Node

from transfuse.problem import ProblemError
from transfuse.regions import batch_norm_statistics, update_statistics


def attribute(target: str) -> str:
    return "self" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in target.split("."))


CONVOLUTIONS = {f"aten.conv_transpose{n}d.{'default' if n == 1 else 'input'}": (True, n) for n in (1, 2, 3)}
CONVOLUTIONS |= {f"aten.conv{n}d.default": (False, n) for n in (1, 2, 3)} | {"aten.convolution.default": (False, None)}


@dataclass
class Reference:
    """A reference file's source, in the pieces that a new file needs."""

    imports: str
    helpers: str  # what the constructor uses
    init: str
    signature: str  # of forward, with self
    names: list[str]  # of forward's parameters
    star: str | None
    written: str  # forward as written; the rest of the class is in `init`


def lines_of(text: str) -> str:
    return text + "\n" if text else ""


def reference(path, module) -> Reference:
    source = path.read_text()
    tree = ast.parse(source)
    tops = {n.name: n for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    model = tops.get("Model")
    if model is None:
        raise ProblemError(f"{path}: Model must be a class of this file")
    methods = {n.name: n for n in model.body if isinstance(n, ast.FunctionDef)}
    if "forward" not in methods:
        raise ProblemError(f"{path}: Model has no forward")
    kept = [_text(source, n) for name, n in methods.items() if name not in ("forward", "__init__")]
    init = (
        _text(source, methods["__init__"]) if "__init__" in methods else "def __init__(self):\n    super().__init__()"
    )
    init = re.sub(r"\bModel\b", "ModelNew", "\n\n".join([init, *kept]))
    helpers = _helpers(source, tree, _free(init))
    imports = [_text(source, n) for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
    plain = [
        i
        for i in imports
        if not re.search(
            r"torch\.nn\.functional|import torch$|import torch\.nn as nn$|from torch import nn$|__future__", i
        )
    ]
    used = [i for i in plain if any(re.search(rf"\b{w}\b", init + helpers) for w in _bound(i))]
    forward = methods["forward"]
    arguments = forward.args
    names = [a.arg for a in arguments.posonlyargs + arguments.args][1:]
    fix = lambda text: re.sub(r"\btorch\.nn\.", "nn.", text)  # noqa: E731
    return Reference(
        "\n".join(used), fix(helpers), fix(init), f"def forward({ast.unparse(arguments)}):", names,
        arguments.vararg.arg if arguments.vararg else None, _text(source, forward),
    )  # fmt: skip


def _free(text: str) -> set[str]:
    """Names that a piece of code takes from its module."""
    found = set()
    for scope in ast.parse(text).body:
        own = {
            a.arg
            for n in ast.walk(scope)
            if isinstance(n, ast.arguments)
            for a in n.posonlyargs + n.args + n.kwonlyargs
        }
        own |= {n.id for n in ast.walk(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        found |= {n.id for n in ast.walk(scope) if isinstance(n, ast.Name)} - own
        defaults = [
            d for n in ast.walk(scope) if isinstance(n, ast.arguments) for d in [*n.defaults, *n.kw_defaults] if d
        ]
        found |= {n.id for d in defaults for n in ast.walk(d) if isinstance(n, ast.Name)}
    return found


def _bound(statement: str) -> list[str]:
    node = ast.parse(statement).body[0]
    return [a.asname or a.name.split(".")[0] for a in node.names]


def _text(source: str, node) -> str:
    lines = source.splitlines()[node.lineno - 1 : node.end_lineno]
    first = getattr(node, "body", [None])[0]
    if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str) and len(node.body) > 1:
        del lines[first.lineno - node.lineno : first.end_lineno - node.lineno + 1]
    return _unbroken(textwrap.dedent("\n".join(lines)))


WIDTH = 142


def _unbroken(text: str) -> str:
    """Lists that were broken to a line an item, on one line where there is room for them."""
    out, opened, inside = (
        [],
        [],
        0,
    )  # opened: the lines of a list that has not ended; inside: how many brackets are open
    for line in text.split("\n"):
        opened.append(line)
        code = re.sub(r"""("|')(?:\\.|(?!\1).)*\1""", "", line)
        inside += sum(c in "([{" for c in code) - sum(c in ")]}" for c in code)
        if inside <= 0:
            out += _beside(opened)
            opened, inside = [], 0
    result = "\n".join([*out, *opened])
    return result if ast.dump(ast.parse(result)) == ast.dump(ast.parse(text)) else text


def _beside(lines: list[str]) -> list[str]:
    whole = lines[0]
    for line in lines[1:]:
        closes = line.strip().startswith((")", "]", "}"))
        whole = whole.removesuffix(",") if closes else whole + " " * whole.endswith(",")
        whole += line.strip()
    plain = not any("#" in line or '"""' in line for line in lines)
    return [whole] if plain and len(whole) <= WIDTH else lines


def _helpers(source: str, tree, words: set[str]) -> str:
    """Classes, functions and constants of the file that the constructor reaches; modules lose their forward."""
    found: dict[str, str] = {}
    grew = True
    while grew:
        grew = False
        for node in tree.body:
            names = [node.name] if isinstance(node, (ast.ClassDef, ast.FunctionDef)) else []
            if isinstance(node, ast.Assign):
                names = [t.id for t in node.targets if isinstance(t, ast.Name)]
            for name in names:
                if name in words and name not in found and name not in ("Model", "get_inputs", "get_init_inputs"):
                    text = _text(source, node)
                    if isinstance(node, ast.ClassDef):
                        for method in node.body:
                            if isinstance(method, ast.FunctionDef) and method.name == "forward":
                                text = text.replace("\n" + textwrap.indent(_text(source, method), "    "), "")
                    found[name] = text
                    words |= _free(text)
                    grew = True
    order = [n.name if hasattr(n, "name") else None for n in tree.body]
    order += [t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)]
    return "\n\n\n".join(found[n].rstrip() for n in dict.fromkeys(order) if n in found)


SIGNS = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.floordiv: "//", operator.mod: "%"}


def _size(node: Node) -> bool:
    """Whether a node is a number made of sizes: it stands where it is used."""
    return node.target is torch.ops.aten.sym_size.int or node.target in SIGNS


class Printer:
    """Statements of a graph whose placeholders have Python texts."""

    def __init__(self, texts: dict[Node, str]):
        self.texts = dict(texts)
        self.lines: list[str] = []

    def argument(self, value) -> str:
        if isinstance(value, Node):
            return self.texts[value]
        if isinstance(value, (list, tuple)):
            items = ", ".join(self.argument(v) for v in value)
            return f"[{items}]" if isinstance(value, list) or not value else f"({items},)"
        if isinstance(value, torch.dtype) or isinstance(value, torch.device):
            return f"torch.device({str(value)!r})" if isinstance(value, torch.device) else str(value)
        return repr(value)

    def call(self, node: Node) -> str:
        arguments = [self.argument(a) for a in node.args] + [f"{k}={self.argument(v)}" for k, v in node.kwargs.items()]
        if node.target is operator.getitem:
            return f"{arguments[0]}[{arguments[1]}]"
        if str(node.target) in CONVOLUTIONS:
            return self.convolution(node)
        if node.target is torch.ops.aten.sym_size.int:
            return f"{arguments[0]}.shape[{arguments[1]}]"
        if isinstance(node.target, torch._ops.OpOverload):
            name = str(node.target).removesuffix(".default")
            return f"torch.ops.{name}({', '.join(arguments)})"
        if node.target is batch_norm_statistics:
            return f"batch_norm({', '.join(arguments[:4])})"
        if node.target in SIGNS:
            return f"({arguments[0]} {SIGNS[node.target]} {arguments[1]})"
        if getattr(node.target, "__module__", "") in ("_operator", "operator", "math"):
            return f"{'math.' if node.target.__module__ == 'math' else 'operator.'}{node.target.__name__}({', '.join(arguments)})"
        raise ProblemError(f"{node.target} cannot be written into a file")

    def convolution(self, node: Node) -> str:
        given = {
            a.name: node.args[i] if i < len(node.args) else node.kwargs.get(a.name, a.default_value)
            for i, a in enumerate(node.target._schema.arguments)
        }
        transposed, axes = CONVOLUTIONS[str(node.target)]
        if axes is None:
            return f"convolve({', '.join(self.argument(a) for a in node.args)})"
        whole = lambda value: list(value) * axes if len(value) == 1 else list(value)  # noqa: E731
        extra = whole(given["output_padding"]) if transposed else [0] * axes
        lists = [whole(given[name]) for name in ("stride", "padding", "dilation")]
        values = [given["weight"], given["bias"], *lists, transposed, extra, given["groups"]]
        x, told = self.argument(given["input"]), ", ".join(self.argument(v) for v in values)
        one = node.meta.get("rank") == axes + 1  # image, without a batch
        return f"convolve({x}.unsqueeze(0), {told}).squeeze(0)" if one else f"convolve({x}, {told})"

    def statement(self, node: Node) -> None:
        if node.target is update_statistics:
            buffers, momentum, values = (self.argument(a) for a in node.args)
            self.lines.append(f"update({buffers}, {values}, {momentum})")
        elif str(node.target) == "aten.add_.Tensor":
            self.lines.append(f"{self.argument(node.args[0])}.add_({self.argument(node.args[1])})")
            self.texts[node] = self.argument(node.args[0])
        elif node.target is operator.getitem or _size(node):
            self.texts[node] = self.call(node)
        else:
            self.lines.append(f"{node.name} = {self.call(node)}")
            self.texts[node] = node.name


def as_written(eager, names: list[str]) -> list[str]:
    """The region in PyTorch's own operators; `convolve` computes convolutions as torch.ops.aten.convolution does."""
    nodes = list(eager.graph.nodes)
    printer = Printer(dict(zip([n for n in nodes if n.op == "placeholder"], names)))
    for node in nodes:
        if node.op == "call_function":
            printer.statement(node)
    results = ", ".join(printer.argument(r) for r in nodes[-1].args[0])
    return [*printer.lines, f"return [{results}]"]


def user_inputs(ref: Reference, count: int) -> list[str]:
    if ref.star is None:
        if len(ref.names) < count:
            raise ProblemError("forward takes other inputs than tensors, which a file cannot")
        return ref.names[:count]
    plain = ref.names
    return [*plain, *(f"{ref.star}[{i}]" for i in range(count - len(plain)))]


def defaults(module) -> inspect.Signature:
    return inspect.signature(module.Model.__init__)
