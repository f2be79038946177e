"""The tap loop for a reader: what the generator writes out product by product becomes a loop over tables.

Compilers unroll it again: the inner loop has as many turns in every part, those beyond a part's products are cut away.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from transfuse.emit.selected import selected
from transfuse.emit.text.layout import ENDLESS, plain, printed, wide
from transfuse.emit.text.statements import Node, Parser
from transfuse.emit.text.tokens import Token, tokens

NAMES = {"product": ["block", "tile", "pixel", "again"], "promote": ["block", "block"]}


@dataclass
class Run:
    """Statements in a row that differ in numbers alone."""

    key: tuple
    nodes: list[Node]
    numbers: list[list[int]]


def rolled(text: str) -> str:
    """A function whose statements repeat."""
    top = Parser(tokens(text)).body()
    chains = "promote(" in text  # strict arithmetic: short chains of products, each with a beginning of its own
    for node in top:
        if node.kind == "definition":
            node.children[0].children = selected(_roll(node.children[0].children, chains))
            node.children[0].flat = False
    with wide(ENDLESS):
        return _by_template("\n".join(printed(top)).replace(" + 0 + ", " + ").replace("[0 + ", "["))


def _by_template(text: str) -> str:
    """A function whose phases are chosen by a number the compiler knows."""
    if not re.search(r"\bVARIANT\b", text):
        return text
    text = text.replace("template <int WG>", "template <int WG, int VARIANT>", 1)
    return text if re.search(r"\bat\.", text) else text.replace("const Place& at, ", "", 1)


def _roll(nodes: list[Node], chains: bool) -> list[Node]:
    nodes = [_inside(node, chains) for node in nodes]
    runs = _runs([_asked(node, chains) for node in nodes])
    counts: dict[tuple, int] = {}
    for run in runs:
        counts[run.key] = counts.get(run.key, 0) + 1
    anchors = [
        run.key for run in runs if counts[run.key] > 1 and run.nodes[0].kind == "leaf" and run.key[1] != "product"
    ]
    for anchor in anchors:
        begins = [i for i, run in enumerate(runs) if run.key == anchor]
        parts = [runs[b:e] for b, e in zip(begins, [*begins[1:], len(runs)])]
        body = (_chained(parts) if chains else None) or _parts(parts)
        if body is not None:
            return [node for run in runs[: begins[0]] for node in run.nodes] + body
    if any(len(run.nodes) > 2 for run in runs):
        return _parts([runs]) or nodes
    return nodes


def _inside(node: Node, chains: bool) -> Node:
    if node.kind == "block":
        node.children = _roll(node.children, chains)
    elif node.kind in ("if", "loop"):
        node.children = [_inside(n, chains) for n in node.children]
        node.orelse = [_inside(n, chains) for n in node.orelse]
    return node


def _asked(node: Node, chains: bool) -> Node:
    """A product in one form: with every offset, and the question whether it adds to what its accumulators hold."""
    if node.kind == "block" and len(node.children) == 1 and node.children[0].kind == "leaf":
        node = node.children[0]
    if node.kind == "if" and not node.orelse and len(node.children) == 1 and node.children[0].kind == "leaf":
        node = Node("leaf", tokens(f"if ({plain(node.items)}) {plain(node.children[0].items)}"))
    text = plain(node.items) if node.kind == "leaf" else ""
    if "product(" not in text:
        if "stage * K_STEPS)" in text:
            node = Node("leaf", tokens(text.replace("stage * K_STEPS)", "stage * K_STEPS + 0)")))
        return node
    text = text.replace("ll,", ",").replace("tiles,", "tiles + 0,").replace("pixels,", "pixels + 0,")
    if not chains and "stage + part" not in text:
        text = text.replace(", 1);", ", 1 || stage > 0);").replace(", stage > 0);", ", 0 || stage > 0);")
    return Node("leaf", tokens(text))


def _key(node: Node) -> tuple:
    mine = tuple("#" if t.kind == "number" else t.text for t in node.items)
    return (node.kind, *mine, *(_key(c) for c in node.children), "else", *(_key(c) for c in node.orelse))


def _numbers(node: Node) -> list[int]:
    own = [int(t.text.rstrip("uUlL"), 0) for t in node.items if t.kind == "number" and t.text.rstrip("uUlL").isdigit()]
    return own + [n for c in [*node.children, *node.orelse] for n in _numbers(c)]


def _runs(nodes: list[Node]) -> list[Run]:
    runs: list[Run] = []
    for node in nodes:
        key = _key(node)
        if runs and runs[-1].key == key and node.kind == "leaf":
            runs[-1].nodes.append(node)
            runs[-1].numbers.append(_numbers(node))
        else:
            runs.append(Run(key, [node], [_numbers(node)]))
    return runs


def _parts(parts: list[list[Run]]) -> list[Node] | None:
    """Parts alike as a loop over them; None where they are not."""
    union = _union(parts)
    tables: dict[str, list[int]] = {}
    body: list[str] = []
    for _, of in union:
        lines = _stated(of, len(parts), tables)
        if lines is None:
            return None
        body += lines
    declared = (
        [f"static constexpr int {', '.join(f'{n}[] = {{{_listed(v)}}}' for n, v in tables.items())};"] if tables else []
    )
    body = _guards_joined(body)
    if len(parts) > 1:
        body = [f"#pragma unroll\nfor (int part = 0; part < {len(parts)}; part++) {{", *body, "}"]
    return Parser(tokens("\n".join([*declared, *body]))).body()


def _union(parts: list[list[Run]]) -> list[tuple[tuple, dict[int, Run]]]:
    """Runs of all parts in one order, those alike beside each other."""
    union: list[tuple[tuple, dict[int, Run]]] = [(run.key, {0: run}) for run in parts[0]]
    for k, part in enumerate(parts[1:], 1):
        merged: list[tuple[tuple, dict[int, Run]]] = []
        match = difflib.SequenceMatcher(None, [key for key, _ in union], [run.key for run in part], autojunk=False)
        for tag, a, b, c, d in match.get_opcodes():
            if tag == "equal":
                merged += [(key, {**of, k: run}) for (key, of), run in zip(union[a:b], part[c:d])]
            else:
                merged += union[a:b]
                merged += [(run.key, {k: run}) for run in part[c:d]]
        union = merged
    return union


LINK = ("products_begin", "product", "products_commit", "products_wait", "promote")


def _word(run: Run) -> str:
    return run.nodes[0].items[0].text if run.nodes[0].kind == "leaf" and run.nodes[0].items else ""


def _links(part: list[Run]) -> tuple[list[Run], list[list[Run]], list[Run]] | None:
    """A part's runs: what comes first, its chains of products with the sums they are added to, what comes last."""
    first = next((i for i, run in enumerate(part) if _word(run) == LINK[0]), len(part))
    chains, at = [], first
    while at < len(part) and tuple(map(_word, part[at : at + len(LINK)])) == LINK:
        chains.append(part[at : at + len(LINK)])
        at += len(LINK)
    rest = part[at:]
    return None if any(_word(run) in LINK for run in rest) else (part[:first], chains, rest)


def _chained(parts: list[list[Run]]) -> list[Node] | None:
    """Where parts have several chains of products, a loop over chains within the loop over parts."""
    split = [_links(part) for part in parts]
    if None in split or max(len(chains) for _, chains, _ in split) < 2:
        return None
    every = [chain for _, chains, _ in split for chain in chains]
    counts = [len(chains) for _, chains, _ in split]
    tables: dict[str, list[int]] = {}
    inner: list[str] = []
    for column in zip(*every):
        if (
            len({run.key for run in column}) > 1
            or (lines := _stated(dict(enumerate(column)), len(every), tables)) is None
        ):
            return None
        inner += [re.sub(r"\bpart\b", "link", line) for line in lines]
    around: list[list[str]] = []
    for side in (0, 2):
        union = _union([found[side] for found in split])
        stated = [_stated(of, len(parts), tables) for _, of in union]
        if None in stated:
            return None
        around.append(_guards_joined([line for lines in stated for line in lines]))
    most, even = max(counts), len(set(counts)) == 1
    if not even:
        tables["links"] = [sum(counts[:k]) for k in range(len(counts) + 1)]
    begin = f"part * {most}" if even else "links[part]"
    head = f"#pragma unroll\nfor (int link = {begin}; link < {begin} + {most}; link++)"
    body = [head + (" {" if even else " if (link < links[part + 1]) {"), *inner, "}"]
    lines = [f"#pragma unroll\nfor (int part = 0; part < {len(parts)}; part++) {{", *around[0], *body, *around[1], "}"]
    declared = f"static constexpr int {', '.join(f'{n}[] = {{{_listed(v)}}}' for n, v in tables.items())};"
    return Parser(tokens("\n".join([*([declared] if tables else []), *lines]))).body()


def _listed(values: list[int]) -> str:
    return ", ".join(map(str, values))


def _stated(of: dict[int, Run], parts: int, tables: dict[str, list[int]]) -> list[str] | None:
    """A run of every part (or of some) as a loop; guards come in front as (condition, statement)."""
    counts = [len(of[k].nodes) if k in of else 0 for k in range(parts)]
    most = max(counts)
    first = next(iter(of.values())).nodes[0]
    word = first.items[0].text if first.items else ""
    series = [of[k].numbers for k in sorted(of)]
    flat = [numbers for part in series for numbers in part]
    if most == 1 and all(numbers == flat[0] for numbers in flat):
        text = "\n".join(printed([first]))
        absent = [k for k, c in enumerate(counts) if not c]
        if not absent:
            return [text]
        if len(of) == 1:
            return [f"if (part == {next(iter(of))}) {text}"]
        if len(absent) == 1:
            return [f"if (part != {absent[0]}) {text}"]
        taken, name = [int(c > 0) for c in counts], "taken"
        while tables.setdefault(name, taken) != taken:
            name += "_"
        return [f"if ({name}[part]) {text}"]
    if first.kind != "leaf":
        return None
    begin = [sum(counts[:k]) for k in range(parts + 1)]
    ragged, begins = any(c != most for c in counts), "begin"
    if ragged:
        while tables.setdefault(begins, begin) != begin:
            begins += "_"
    place = f"{begins}[part]" if most == 1 else f"{begins}[part] + j"
    index = "j" if parts == 1 else place if ragged else f"part * {most} + j" if most > 1 else "part"
    values: list[str] = []
    for position in range(len(flat[0])):
        row = [numbers[position] for numbers in flat]
        longest = [numbers[position] for numbers in max(series, key=len)] if most > 1 else row
        variable, step = "j" if most > 1 else "part", longest[1] - longest[0]
        regular = all(
            numbers[position] == longest[0] + step * (j if most > 1 else k)
            for k, part in enumerate(series)
            for j, numbers in enumerate(part)
        )
        names = NAMES.get(word, [])
        name = names[position] if position < len(names) else f"value{position}"
        if all(v == row[0] for v in row):
            values.append(str(row[0]))
        elif regular and step > 0 and (most > 1 or len(of) == parts):
            scaled = variable if step == 1 else f"{step} * {variable}"
            values.append(f"{longest[0]} + {scaled}" if longest[0] or word == "product" else scaled)
        elif name == "again" and counts[0] and row == sorted(row):  # from some product on
            first_ones = row.index(1)
            both = "part + j" if parts > 1 and most > 1 and first_ones == 1 else index
            values.append(f"{both} > 0" if first_ones == 1 else f"{both} >= {first_ones}")
        else:
            row, index_here, further = _period(row, parts, most, index) if not ragged else (row, index, "")
            if index_here == "j" and not further and (said := _counted(row, name)):
                values.append(said)
                continue
            while tables.setdefault(name, row) != row:
                name += "_"
            values.append(f"{name}[{index_here}]{further}")
    given = iter(values)
    items = [
        Token("word", next(given), t.space) if t.kind == "number" and t.text.rstrip("uUlL").isdigit() else t
        for t in first.items
    ]
    text = plain(items)
    for ugly, plainly in (
        ("1 || stage > 0", "1"),
        ("tiles + 0,", "tiles,"),
        ("pixels + 0,", "pixels,"),
        ("(0 || stage > 0)", "stage > 0"),
        (", 0 || stage", ", stage"),
    ):
        text = text.replace(ugly, plainly)
    if most == 1:
        return [f"if ({begins}[part + 1] > {begins}[part]) {text}" if ragged else text]
    guard = f"if (j < {begins}[part + 1] - {begins}[part]) " if ragged else ""
    return [f"#pragma unroll\nfor (int j = 0; j < {most}; j++) {guard}{text}"]


def _counted(row: list[int], name: str) -> str | None:
    """A table that needs none: the first is another, or numbers go round."""
    if name == "again" and row == [0] + [1] * (len(row) - 1):
        return "j > 0"
    most = max(row) + 1
    return f"j % {most}" if most > 1 and row == [i % most for i in range(len(row))] else None


def _period(row: list[int], parts: int, most: int, index: str) -> tuple[list[int], str, str]:
    """Of a table in which parts repeat, one period; where to look in it, and what is added in later ones."""
    for period in range(1, parts // 2 + 1):
        length = period * most
        step = row[length] - row[0]
        if parts % period == 0 and step >= 0 and all(b - a == step for a, b in zip(row, row[length:])):
            turn, within = ("part", "") if period == 1 else (f"part / {period}", f"part % {period}")
            at = " + ".join(
                [*([f"{within} * {most}" if most > 1 else within] if within else []), *(["j"] if most > 1 else [])]
            )
            scaled = f" + {step} * {turn if period == 1 else f'({turn})'}" if step else ""
            return row[:length], at or "0", scaled
    return row, index, ""


def _guards_joined(lines: list[str]) -> list[str]:
    """Neighbours under one condition share it."""
    out: list[tuple[str, list[str]]] = []
    for line in lines:
        condition = line[: line.index(")") + 1] if line.startswith(("if (part ", "if (taken")) else ""
        inner = line[len(condition) :].strip() if condition else line
        if out and condition and out[-1][0] == condition:
            out[-1][1].append(inner)
        else:
            out.append((condition, [inner]))
    joined = []
    for condition, inner in out:
        if condition and len(inner) > 1:
            joined += [f"{condition} {{", *inner, "}"]
        else:
            joined.append(f"{condition} {inner[0]}".strip())
    return joined
