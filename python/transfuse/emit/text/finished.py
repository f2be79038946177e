"""Kernels that have all in common but what they make of a sum: each gives the others' function that formula alone."""

from __future__ import annotations

import re

from transfuse.emit.text.signature import name_of

FUNCTION = re.compile(
    r"(?P<said>// What (?P<both>[^\n]*) have in common)[^\n]*\n"
    r"template <class Rest> DEVICE void (?P<name>\w+)\((?P<given>[^()]*), Rest rest\) \{\n"
    r"(?P<before>.*?)\n(?P<I> +)rest\((?P<told>[^\n]*)\);(?P<behind>\n.*?\n\})(?=\n)",
    re.S,
)
KERNEL = (
    r"__global__ void __launch_bounds__\([^)]*\) \w+\((?P<given>[^)]*)\) \{{\n"
    r"    {name}\((?P<told>[^\n]*), \[&\]\((?P<taken>[^\n]*)\) \{{\n"
)
REST = re.compile(
    r" +(?P<read>const float [^\n;]*;)\n(?P<loops>(?: +(?:UNROLL )?for [^\n]*\{\n| +const int [^\n;]*;\n)*) +if \((?P<if>[^\n]*)\) \{\n"
    r" +const float (?P<v>\w+) = (?P<value>[^\n;]*);\n +(?P<to>\w+)\[(?P<at>[^\n]*)\] = (?P=v);\n(?P<end>(?: +\}\n)+)    \}\);\n\}(?=\n|\Z)"
)


def finished(text: str) -> str:
    for function in list(FUNCTION.finditer(text)):
        heads = list(re.finditer(KERNEL.format(name=function["name"]), text))
        rests = [REST.match(text, head.end()) for head in heads]
        if len(heads) > 1 and all(rests) and text.count(f" {function['name']}(") == len(heads) + 1:
            text = _given(text, function, heads, rests) or text
    return text


def _given(text: str, function: re.Match, heads: list, rests: list) -> str | None:
    own = [name_of(p) for p in function["given"].split(", ")]
    seen = function["told"].split(", ")
    commons, kernels, further = [], [], []
    for head, rest in zip(heads, rests):
        taken = [re.search(r"(\w+)\)?(?:\[\w+\])*$", p)[1] for p in head["taken"].split(", ")]
        types = {name_of(p): p[: -len(name_of(p))] for p in head["given"].split(", ")}
        names = {**dict(zip(head["told"].split(", "), own)), **dict(zip(taken, seen))}
        store = f"if ({rest['if']}) {rest['to']}[{rest['at']}] = "
        common = f"{rest['loops']}{store}"
        sums = [w for w in re.findall(r"\w+(?:\[\w+\])+", rest["value"]) if w.split("[")[0] in taken]
        more = [w for w in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", common)) if w in types and w not in names]
        lanes = [w for w in taken if re.search(rf"\b{w}\b", rest["read"])]
        if len(sums) != 1 or len(lanes) != 1 or f"int {lanes[0]}" not in head["taken"].split(", "):
            return None
        further.append([types[w] for w in more])
        kept = {w: "result" if "*" in types[w] else w for w in more}
        renamed = lambda t, by=names | kept: re.sub(r"(?<![.\w])[A-Za-z_]\w*", lambda m: by.get(m[0], m[0]), t)  # noqa: E731
        commons.append((renamed(common), renamed(sums[0]), renamed(lanes[0])))
        kernels.append((head, rest, more, [f"{types[w]}{kept[w]}" for w in more], lanes[0], sums[0]))
    if any(c != commons[0] for c in commons) or any(f != further[0] for f in further):
        return None
    (common, of, lane), indent = commons[0], function["I"]
    deeper = len(re.match(r" *", kernels[0][1]["loops"])[0])
    lines = [" " * max(0, len(indent) - deeper) + line for line in common.split("\n")]
    lines[-1] = f"{indent}{'    ' * common.count('{')}{lines[-1].strip()} finish({of});"
    lines += [f"{indent}{'    ' * d}}}" for d in reversed(range(common.count("{")))]
    said = (
        f"{function['said']}; `rest` says of a channel what each makes of its sums.\n"
        f"template <class Rest> DEVICE void {function['name']}({function['given']}, {', '.join(kernels[0][3])}, Rest rest) {{\n"
        f"{function['before']}\n{indent}const auto finish = rest({lane});\n" + "\n".join(lines) + function["behind"]
    )
    out = text.replace(function[0], said)
    for head, rest, more, _, own_lane, sum_ in kernels:
        call = (
            head[0].split("\n")[0]
            + f"\n    {function['name']}({head['told']}, {', '.join(more)}, [&](int {own_lane}) {{\n"
        )
        value = rest["value"].replace(sum_, "sum")
        body = f"        {rest['read']}\n        return [=](float sum) {{ return {value}; }};\n    }});\n}}"
        out = out.replace(head[0] + rest[0], call + body)
    return out
