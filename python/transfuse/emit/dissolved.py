"""A struct that one function has one of: its members are variables of that function, its functions stand where they are called."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from transfuse.emit.chunks import Chunk

STRUCT = re.compile(r"(?P<said>(?://[^\n]*\n)*)template <int WG> struct (?P<name>\w+) \{\n(?P<body>.*)\n\};\s*", re.S)
METHOD = re.compile(
    r"(?P<said>(?:    //[^\n]*\n)*)    (?:template <(?P<told>bool \w+)> )?DEVICE (?P<type>\w+) (?P<name>\w+)\((?P<taken>[^\n]*)\) \{\n"
    r"(?P<body>(?: {8}[^\n]*\n)*)    \}\n"
)
MADE = re.compile(r"    DEVICE (?P<name>\w+)\((?P<taken>[^\n]*)\) : (?P<begun>[^\n]*) \{\}\n")
MEMBER = re.compile(
    r"    (?P<type>(?:const )?\w+[&*]?) (?P<names>\w+(?:\[\w+\])*(?:, \w+)*)(?P<value> = [^;\n]*)?;(?P<said>[^\n]*)\n"
)
GIVEN = re.compile(r"[^(), ](?:[^(),]|\((?:[^()]|\([^()]*\))*\))*")  # what a call gives, one by one


@dataclass
class Method:
    said: str
    told: str | None  # in <…>
    type: str
    name: str
    taken: str
    body: str


def dissolved(source: list[Chunk]) -> list[Chunk]:
    """The source without its struct, where all of its text is of this kind; else as it is."""
    for struct in source:
        match = STRUCT.fullmatch(struct.text)
        if not match:
            continue
        users = [c for c in source if c is not struct and re.search(rf"\b{match['name']}\b", c.text)]
        text = _within(match, users[0].text) if len(users) == 1 else None
        if text:
            source = [replace(c, text=text) if c is users[0] else c for c in source if c is not struct]
    return source


def _within(struct: re.Match, user: str) -> str | None:
    object_ = re.search(rf"\n    {struct['name']}<WG> (\w+)\(([^\n;]*)\);", user)
    body = struct["body"] + "\n"
    made = MADE.search(body)
    if not object_ or not made or made["name"] != struct["name"]:
        return None
    given = dict(zip(_names(made["taken"]), object_[2].split(", ")))
    begun = {
        n: _renamed(v, given) for n, v in re.findall(r"(\w+)\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)", made["begun"])
    }
    methods = [Method(**m.groupdict()) for m in METHOD.finditer(body)]
    members = METHOD.sub("", body.replace(made[0], ""))
    if MEMBER.sub("", members).strip():
        return None
    lines = [line for m in MEMBER.finditer(members) for line in _declared(m, begun)]
    text = user
    for method in methods:
        call = re.search(rf"\n( *){object_[1]}\.{method.name}\(([^\n;]*)\);", text)
        if call and text.count(f"{object_[1]}.{method.name}(") == 1 and method.type == "void":
            inside = _renamed(method.body, dict(zip(_names(method.taken), GIVEN.findall(call[2]))))
            text = text.replace(call[0], "\n" + re.sub(r"^ {8}", call[1], inside, flags=re.M).rstrip("\n"))
        else:
            lines.append(_lambda(method))
    text = text.replace(object_[0], "\n" + "\n".join([*_comment(struct["said"]), *lines]))
    for method in methods:
        if method.told:
            text = re.sub(rf"\b{method.name}<(\w+)>\(", rf"{method.name}(\1, ", text)
    return None if re.search(rf"\b{object_[1]}\.|\breturn;", text) else text


def _lambda(method: Method) -> str:
    """What was told in <…> is a parameter like others: the text stands where it is called, and knows it there."""
    taken = f"{method.told}, {method.taken}" if method.told else method.taken
    inlined = "__attribute__((always_inline)) " if method.told else ""
    return f"{method.said}    const auto {method.name} = [&]({taken}) {inlined}{{\n{method.body}    }};"


def _comment(said: str) -> list[str]:
    return [f"    {line}" for line in said.splitlines()]


def _declared(member: re.Match, begun: dict[str, str]) -> list[str]:
    """Variables for members that do not begin as something of the same name."""
    values = [(n, begun.get(n)) for n in member["names"].split(", ")]
    values = [(n, v) for n, v in values if n != v]
    if not values:
        return []
    said = ", ".join(n if v is None else f"{n} = {v}" for n, v in values)
    const = "const " if all(v is not None for _, v in values) and not member["type"].startswith("const") else ""
    return [f"    {const}{member['type']} {said}{member['value'] or ''};{member['said']}"]


def _names(parameters: str) -> list[str]:
    """Of parameters; one without a name, which nobody reads, has none."""
    found = [re.search(r"[ &*](\w+)\)?(?:\[\w+\])*$", p) for p in parameters.split(", ")] if parameters else []
    return [match[1] if match else "" for match in found]


def _renamed(text: str, names: dict[str, str]) -> str:
    names = {a: b for a, b in names.items() if a and a != b}
    return re.sub(rf"(?<![.\w])(?:{'|'.join(names)})\b", lambda m: names[m[0]], text) if names else text
