"""The launches of a file: of each plan its workspace, its results and what it launches, as the runtime reads them."""

from __future__ import annotations

from transfuse.emit.programs import Programs

DTYPES = {"f32": "torch.float32", "f64": "torch.float64", "f16": "torch.float16", "bf16": "torch.bfloat16"}
# Of a tensor map: the driver's numbers for element types.
ELEMENTS = {"f16": 6, "f32": 7, "bf16": 9}
ROUNDED = 11  # fp32, rounded to TF32 on the way
WIDTH = 140


def plans(programs: Programs) -> str:
    lines = [
        "# Of each plan: bytes of workspace, results (dtype, shape, strides), and launches: kernel, blocks, threads, bytes of dynamic",
        "# shared memory, arguments. leaf(i, offset), out(i, offset), work(offset) are addresses; plain numbers are 32 bits wide.",
        "PLANS = {",
    ]
    for plan, name in programs.plans.items():
        lines += [
            f'    "{name}": (',
            f"        {plan.workspace}, [{', '.join(map(_typed, plan.outputs))}],",
            "        [",
        ]
        for launch in plan.launches:
            lines.append(f"            # {launch.note}")
            more = "".join(
                [", cluster=" + str(launch.cluster)] * (launch.cluster > 1) + [", early=True"] * launch.early
            )
            head = f'launch("{launch.kernel}", {_three(launch.grid)}, {_three(launch.block)}, {launch.shared}'
            lines += _wrapped(f"            {head}, [", list(map(_argument, launch.arguments)), f"]{more}),")
        lines += ["        ],", "    ),"]
    return "\n".join([*lines, "}"])


def calls(entries: list[tuple]) -> str:
    """Of each region and size: what it is called with, and its plans. entries: (name, given, kinds)."""
    lines = [
        "# Of each call of a region: its tensors (dtype, shape, strides), and the plans of each kind, with TF32 and in full fp32.",
        "# Kinds: calls without gradients, calls that keep what those of some tensors need, and these gradients.",
        "CALLS = [",
    ]
    for name, given, kinds in entries:
        lines.append(f'    ("{name}", [{", ".join(map(_typed, given))}], {{')
        for kind, (tf32, strict) in kinds.items():
            lines.append(f"        {kind!r}: ({tf32!r}, {strict!r}),".replace("'", '"'))
        lines.append("    }),")
    return "\n".join([*lines, "]"])


def _typed(entry: tuple) -> str:
    dtype, shape, strides = entry
    return f"({DTYPES[dtype]}, {shape!r}, {strides!r})"


def _three(numbers: tuple) -> str:
    return str(numbers[0]) if numbers[1] == numbers[2] == 1 else repr(numbers)


def _argument(argument: tuple) -> str:
    kind, *rest = argument
    if kind == "i32":
        return str(rest[0])
    if kind == "i64":
        return f"wide({rest[0]})"
    if kind == "bytes":
        return f'raw("{rest[0]}")'
    position, offset, *box = rest
    if kind == "workspace":
        place = f"work({offset})"
    else:
        place = f"{'leaf' if kind == 'leaf' else 'out'}({position}{f', {offset}' if offset else ''})"
    if not box:
        return place
    box = dict(box[0])
    element = ROUNDED if box["tf32"] else ELEMENTS[box["dtype"]]
    return f"boxes({place}, {element}, {box['swizzle']}, {box['extent']}, {box['stride']}, {box['box']})"


def _wrapped(begin: str, items: list[str], end: str) -> list[str]:
    """A list on as many lines as it needs."""
    lines, line = [], begin
    for i, item in enumerate(items):
        piece = item + (", " if i + 1 < len(items) else "")
        if len(line) + len(piece) > WIDTH and line.strip() != begin.strip():
            lines.append(line.rstrip())
            line = " " * 16
        line += piece
    return [*lines, line + end]
