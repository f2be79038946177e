"""A reference file's source, taken apart into what a new file needs of it."""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import math
import re
import textwrap
from dataclasses import dataclass

from transfuse.problem import Problem, ProblemError

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFAULT_INIT = "def __init__(self, *args, **kwargs):\n    super().__init__(*args, **kwargs)"
# What every file imports under these names.
GIVEN = ("import torch", "import torch.nn", "import torch.nn as nn", "from torch import nn")


@dataclass
class Reference:
    imports: str
    helpers: str  # the classes, functions and constants that the class uses
    bases: str
    body: str  # of the class, all but forward; its constructor refuses other arguments than the example's
    signature: str  # of forward, without annotations
    inputs: list[str]  # of forward's parameters, without self
    named: list[str]  # those that are given by name alone
    star: str | None
    written: str  # forward as written, as a method `as_written`


def reference(problem: Problem) -> Reference:
    source = problem.path.read_text()
    tree = ast.parse(source)
    model = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"), None)
    if model is None:
        raise ProblemError(f"{problem.path}: Model must be a class of this file")
    forward = next((n for n in model.body if isinstance(n, FUNCTIONS) and n.name == "forward"), None)
    if forward is None:
        raise ProblemError(f"{problem.path}: Model has no forward")
    renamed = lambda text: re.sub(r"\bModel\b", "ModelNew", text)  # noqa: E731
    body = renamed(_class_body(source, model))
    arguments = _bare(forward.args)
    if arguments.kwarg:
        raise ProblemError(f"{problem.path}: forward takes **{arguments.kwarg.arg}, which a file cannot")
    written = _bare_function(forward)
    bases = ", ".join(map(ast.unparse, model.bases)) or "nn.Module"
    helpers = _helpers(source, tree, _free(f"{body}\n{written}\n({bases})"))
    names = [a.arg for a in arguments.posonlyargs + arguments.args][1:]
    said = "\n".join([bases, helpers, body, written])
    return Reference(
        imports=_imports(tree, said), helpers=helpers, bases=bases, body=_guarded(problem, body),
        signature=f"def forward({ast.unparse(arguments)}):", inputs=names,
        named=[a.arg for a in arguments.kwonlyargs], star=arguments.vararg.arg if arguments.vararg else None, written=renamed(written),
    )  # fmt: skip


def _bare_function(forward) -> str:
    """forward under another name, its annotations gone: a file may not have their names."""
    function = copy.deepcopy(forward)
    function.name, function.args, function.returns = "as_written", _bare(forward.args), None
    function.body = _said(function.body)
    return ast.unparse(function)


def _bare(arguments: ast.arguments) -> ast.arguments:
    arguments = copy.deepcopy(arguments)
    for node in ast.walk(arguments):
        if isinstance(node, ast.arg):
            node.annotation = None
    return arguments


def _said(body: list) -> list:
    """Statements that do something: no docstring."""
    first = body[0]
    told = isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str)
    return body[told:] or [ast.Expr(ast.Constant(...))]


def _class_body(source: str, model: ast.ClassDef) -> str:
    """All of the class but forward: attributes, the constructor, then what else it has."""
    parts = [n for n in _said(model.body) if not (isinstance(n, FUNCTIONS) and n.name == "forward")]
    attributes = [_text(source, n) for n in parts if not isinstance(n, (*FUNCTIONS, ast.Pass))]
    methods = {n.name: n for n in parts if isinstance(n, FUNCTIONS)}
    init = _text(source, methods.pop("__init__")) if "__init__" in methods else DEFAULT_INIT
    kept = [_text(source, n) for n in parts if isinstance(n, FUNCTIONS) and n.name in methods]
    return "\n\n".join([*(["\n".join(attributes)] if attributes else []), init, *kept])


def _text(source: str, node) -> str:
    """A statement as written, moved to the left; printed anew where lines cannot be moved."""
    lines = source.splitlines()
    start = min([node.lineno, *[d.lineno for d in getattr(node, "decorator_list", ())]])
    lines = lines[start - 1 : node.end_lineno]
    broken = any(
        isinstance(n, (ast.Constant, ast.JoinedStr)) and n.lineno != n.end_lineno for n in ast.walk(node)
    )  # a string over several lines
    docstring = isinstance(node, (ast.ClassDef, *FUNCTIONS)) and _said(node.body)[0] is not node.body[0]
    joined = isinstance(node, (ast.ClassDef, *FUNCTIONS)) and node.body[0].lineno == node.lineno
    if broken or docstring or joined or any("\t" in line for line in lines):
        node = copy.deepcopy(node)
        for part in ast.walk(node):
            if isinstance(part, (ast.ClassDef, *FUNCTIONS)):
                part.body = _said(part.body)
        return ast.unparse(node)
    return textwrap.dedent("\n".join(lines)).rstrip()


def _guarded(problem: Problem, body: str) -> str:
    """The constructor, refusing arguments other than those the kernels were written for."""
    given = problem.made("get_init_inputs")
    signature = inspect.signature(problem.module.Model.__init__)
    try:
        bound = signature.bind(None, **given) if isinstance(given, dict) else signature.bind(None, *given)
    except TypeError as error:
        raise ProblemError(f"{problem.path}: Model(*get_init_inputs()) fails: {error}") from error
    bound.apply_defaults()
    checks = []
    for name, value in list(bound.arguments.items())[1:]:
        value = tuple(value) if isinstance(value, list) else value
        if _writable(value):
            checks.append((f"tuple({name})" if isinstance(value, tuple) else name, value))
    if not checks:
        return body
    init = next(n for n in ast.parse(body).body if getattr(n, "name", None) == "__init__")
    comma = "," * (len(checks) == 1)
    guard = [
        f"given = ({', '.join(mine for mine, _ in checks)}{comma})",
        f"expected = ({', '.join(repr(value) for _, value in checks)}{comma})",
        "if given != expected:",
        '    raise ValueError(f"the kernels of this file were written for ModelNew{expected}, got ModelNew{given}")',
    ]
    lines = body.splitlines()
    lines[init.body[0].lineno - 1 : init.body[0].lineno - 1] = [" " * init.body[0].col_offset + line for line in guard]
    return "\n".join(lines)


def _writable(value) -> bool:
    """Whether repr() of a value is the value."""
    if isinstance(value, (tuple, list)):
        return all(map(_writable, value))
    return isinstance(value, (bool, int, str, type(None))) or (isinstance(value, float) and math.isfinite(value))


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
        own = {n.id for n in ast.walk(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        outside = []
        for node in ast.walk(scope):
            if isinstance(node, ast.arguments):
                given = [*node.posonlyargs, *node.args, *node.kwonlyargs, node.vararg, node.kwarg]
                own |= {a.arg for a in given if a}
                outside += [*node.defaults, *node.kw_defaults, *(a.annotation for a in given if a)]
        found |= {n.id for n in ast.walk(scope) if isinstance(n, ast.Name)} - own
        found |= {n.id for d in outside if d for n in ast.walk(d) if isinstance(n, ast.Name)}
    return found


def clashes(helpers: str, text: str) -> list[str]:
    """Names that the reference's helpers and the rest of a file both bind."""
    bound = lambda text: set().union(*map(_bound, ast.parse(text).body)) if text else set()  # noqa: E731
    return sorted(bound(helpers) & bound(text.replace(helpers, "") if helpers else text))


def _bound(node) -> set[str]:
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
    """Classes, functions and constants of the file that the class reaches."""
    found: dict[int, str] = {}
    grew = True
    while grew:
        grew = False
        for i, node in enumerate(tree.body):
            names = _bound(node)
            if i not in found and names & words and not names & {"Model", "get_inputs", "get_init_inputs"}:
                found[i] = _text(source, node)
                words |= _free(found[i])
                grew = True
    texts = [found[i] for i in sorted(found)]
    return "".join(text + ("\n\n\n" if re.match(r"class|def|@", text) else "\n") for text in texts).rstrip()


def undefined(text: str) -> list[str]:
    """Names that a file uses and that nothing in it binds."""
    bound, used = set(dir(builtins)) | {"__file__", "__name__", "__class__"}, set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, (ast.ClassDef, *FUNCTIONS)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            if node.name == "*":
                return []
            bound.add(node.asname or node.name.split(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return sorted(used - bound)
