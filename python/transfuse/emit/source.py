"""A reference file's source, taken apart into what a new file needs of it."""

from __future__ import annotations

import ast
import builtins
import copy
import re
import textwrap
from dataclasses import dataclass

from torch import nn

from transfuse.problem import ProblemError


@dataclass
class Reference:
    """A reference file's source, in the pieces that a new file needs."""

    imports: str
    helpers: str  # what the class uses
    bases: str  # of the class
    init: str  # all of the class but forward, the constructor first of its functions
    signature: str  # of forward, with self
    names: list[str]  # of forward's parameters
    star: str | None
    written: str  # forward as written


DEFAULT_INIT = "def __init__(self, *args, **kwargs):\n    super().__init__(*args, **kwargs)"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# What every file imports under these names.
GIVEN = (
    "import torch",
    "import torch.nn",
    "import torch.nn.functional",
    "import torch.nn as nn",
    "from torch import nn",
)


def reference(path, module) -> Reference:
    source = path.read_text()
    tree = ast.parse(source)
    model = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"), None)
    if model is None:
        raise ProblemError(f"{path}: Model must be a class of this file")
    forward = next((n for n in model.body if isinstance(n, FUNCTIONS) and n.name == "forward"), None)
    if forward is None:
        raise ProblemError(f"{path}: Model has no forward")
    init = re.sub(r"\bModel\b", "ModelNew", _class_body(source, model))
    bases = "nn.Module" if module.Model.__bases__ == (nn.Module,) else ", ".join(map(ast.unparse, model.bases))
    arguments = _bare(forward.args)
    signature = f"def forward({ast.unparse(arguments)}):"
    helpers = _helpers(source, tree, _free(f"{init}\n{signature} pass\n({bases})"))
    fix = lambda text: re.sub(r"\btorch\.nn\.", "nn.", text)  # noqa: E731
    pieces = [fix(text) for text in (bases, helpers, init)]
    return Reference(
        _imports(tree, "\n".join([*pieces, signature])), pieces[1], pieces[0], pieces[2], signature,
        [a.arg for a in arguments.posonlyargs + arguments.args][1:], arguments.vararg.arg if arguments.vararg else None,
        _text(source, forward),
    )  # fmt: skip


def _class_body(source: str, model: ast.ClassDef) -> str:
    """All of the class but forward and its docstring: attributes, the constructor, then what else it has."""
    parts = [n for n in _said(model.body) if not (isinstance(n, FUNCTIONS) and n.name == "forward")]
    attributes = [_text(source, n) for n in parts if not isinstance(n, FUNCTIONS)]
    methods = {n.name: n for n in parts if isinstance(n, FUNCTIONS)}
    init = _text(source, methods.pop("__init__")) if "__init__" in methods else DEFAULT_INIT
    kept = [_text(source, n) for n in parts if isinstance(n, FUNCTIONS) and n.name in methods]
    return "\n\n".join([*(["\n".join(attributes)] if attributes else []), init, *kept])


def _said(body: list) -> list:
    """Statements that do something: no docstring."""
    first = body[0]
    told = isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str)
    return [n for n in body[told:] if not isinstance(n, ast.Pass)]


def _bare(arguments: ast.arguments) -> ast.arguments:
    """Without annotations, whose names a file may not have."""
    arguments = copy.deepcopy(arguments)
    for node in ast.walk(arguments):
        if isinstance(node, ast.arg):
            node.annotation = None
    return arguments


def _imports(tree, text: str) -> str:
    """The imports whose names a text uses, but for those that every file has."""
    found = []
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)) and getattr(node, "module", None) != "__future__":
            said = ast.unparse(node)
            bound = [a.asname or a.name.split(".")[0] for a in node.names]
            if said not in GIVEN and any(name == "*" or re.search(rf"\b{name}\b", text) for name in bound):
                found.append(said)
    return "\n".join(found)


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
        outside = [
            d
            for n in ast.walk(scope)
            if isinstance(n, ast.arguments)
            for d in [*n.defaults, *n.kw_defaults, *[a.annotation for a in ast.walk(n) if isinstance(a, ast.arg)]]
            if d
        ]
        found |= {n.id for d in outside for n in ast.walk(d) if isinstance(n, ast.Name)}
    return found


def undefined(text: str) -> list[str]:
    """Names that a file uses and that nothing in it binds."""
    bound, used = set(dir(builtins)) | {"__file__", "__name__", "__class__"}, []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            used += [node.id] if isinstance(node.ctx, ast.Load) else []
            bound |= {node.id} if not isinstance(node.ctx, ast.Load) else set()
        elif isinstance(node, (ast.ClassDef, *FUNCTIONS)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.split(".")[0])
            if node.name == "*":
                return []
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return sorted({name for name in used if name not in bound})


def _text(source: str, node) -> str:
    """A statement as written, less its docstring and its place in the file; printed anew where that would change it."""
    lines = source.splitlines()
    start = min([node.lineno, *[d.lineno for d in getattr(node, "decorator_list", ())]])
    if not _laid_out(node, lines[start - 1 : node.end_lineno]):
        node = copy.deepcopy(node)
        for part in ast.walk(node):
            if isinstance(part, (ast.ClassDef, *FUNCTIONS)):
                part.body = _said(part.body) or [ast.Pass()]
        return ast.unparse(node)
    drop: set[int] = set()
    if isinstance(node, (ast.ClassDef, *FUNCTIONS)) and (said := _said(node.body)) and said[0] is not node.body[0]:
        drop = set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return _unbroken(
        textwrap.dedent("\n".join(lines[i - 1] for i in range(start, node.end_lineno + 1) if i not in drop))
    )


def _laid_out(node, lines: list[str]) -> bool:
    """Whether its lines may be moved and others put between them: no tabs, no string over several lines, bodies below their heads."""
    if any("\t" in line for line in lines):
        return False
    for part in ast.walk(node):
        if isinstance(part, (ast.ClassDef, *FUNCTIONS)):
            starts = [n.lineno for n in part.body]
            if starts[0] == part.lineno or len({*starts}) < len(starts):
                return False
    told = {id(n.body[0].value) for n in ast.walk(node) if hasattr(n, "body") and isinstance(n.body, list) and n.body
            and isinstance(n.body[0], ast.Expr)}  # fmt: skip
    texts = [n for n in ast.walk(node) if isinstance(n, (ast.Constant, ast.JoinedStr)) and id(n) not in told]
    return not any(n.lineno != n.end_lineno for n in texts)


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


def _names(node) -> set[str]:
    """What a statement of the file binds."""
    if isinstance(node, (ast.ClassDef, *FUNCTIONS)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.Expr)) or ast.unparse(node).startswith("if __name__"):
        return set()
    stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    inner = {n.name for n in ast.walk(node) if isinstance(n, (ast.ClassDef, *FUNCTIONS))}
    imported = {a.asname or a.name.split(".")[0] for a in ast.walk(node) if isinstance(a, ast.alias)}
    return stored | inner | imported


def _helpers(source: str, tree, words: set[str]) -> str:
    """Classes, functions and constants of the file that the class reaches; modules lose their forward."""
    found: dict[int, str] = {}
    grew = True
    while grew:
        grew = False
        for i, node in enumerate(tree.body):
            names = _names(node)
            if i not in found and names & words and not names & {"Model", "get_inputs", "get_init_inputs"}:
                text = _text(source, node)
                if isinstance(node, ast.ClassDef):
                    for method in node.body:
                        if isinstance(method, ast.FunctionDef) and method.name == "forward":
                            text = text.replace("\n" + textwrap.indent(_text(source, method), "    "), "")
                found[i] = text
                words |= _free(text)
                grew = True
    return "\n\n\n".join(found[i].rstrip() for i in sorted(found))
