"""Tables that the store roles of several kernels read: rows that come from the same place have the same name in all of them."""

from __future__ import annotations

import re

LOAD = re.compile(r"\bload_rows\((?P<r>r\d+), (?P<table>\w+)(?P<first> \+ \d+)? \+ (?P<row>\w+)\);")
ROLE = re.compile(r"\nstatic __device__ void store_role\(.*?\n\}(?=\n|\Z)", re.S)
DECLARED = re.compile(r"(?m)^ +float v1\[BATCH\]\[VECTOR\](?:, r\d+\[BATCH\])+;$")


def alike(texts: list[str]) -> list[str]:
    """Texts of kernels: those that read fewer rows name them as the one that reads most does, counted from the last, and leave the
    others' names to the compiler."""
    roles = [ROLE.search(text) for text in texts]
    loads = [list(LOAD.finditer(role[0])) if role else [] for role in roles]
    most = max(range(len(texts)), key=lambda i: len(loads[i]))
    named = _declared(roles[most])
    if not named:
        return texts
    out = []
    for text, role, own in zip(texts, roles, loads):
        new = _as(role[0], own, loads[most], named) if own and len(own) < len(loads[most]) and _declared(role) else None
        out.append(text.replace(role[0], new) if new else text)
    return out


def _declared(role: re.Match | None) -> str | None:
    found = DECLARED.findall(role[0]) if role else []
    return found[0] if len(found) == 1 else None


def _as(role: str, own: list[re.Match], theirs: list[re.Match], declared: str) -> str | None:
    names, places, left = {}, {}, list(theirs)
    for load in reversed(own):
        like = next((m for m in reversed(left) if m["table"] == load["table"]), None)
        if like is None:
            return None
        left = left[: left.index(like)]
        names[load["r"]] = like["r"]
        if like["first"] and not load["first"]:
            places[load[0]] = load[0].replace(f"{load['table']} + ", f"{load['table']} + 0 + ", 1)
    for load, by in places.items():
        role = role.replace(load, by)
    body = DECLARED.sub("@", role)
    return re.sub(r"(?<![.\w])r\d+\b", lambda m: names.get(m[0], m[0]), body).replace("@", declared)
