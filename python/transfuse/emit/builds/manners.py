"""What several builds say alike but write in their own manner, written in one: so they stay one text."""

from __future__ import annotations

import re

from transfuse.emit.text.tokens import until_settled


def written_alike(texts: dict[str, str]) -> dict[str, str]:
    return {key: _joined(text) for key, text in _listed(_packed(texts)).items()}


NEST = re.compile(r"(?m)^( *)((?:UNROLL )?for \([^\n{}]*\))\n\1 +((?!//)[^\n{}]*;)$")


SIZES = re.compile(r"(?m)^( *)(const long long [^\n;]*);\n\1const long long ")


def _joined(text: str) -> str:
    """A loop and the one statement it governs in one line, however long, and sizes that are declared one after another: lines are broken
    last."""
    return until_settled(SIZES, r"\1\2, ", until_settled(NEST, r"\1\2 \3", text))


PACKED = re.compile(
    r"(?m)^( *)tf_vector<STORED, (?P<lanes>\w+)> (?P<whole>\w+);\n"
    r"\1UNROLL for \(int j = 0; j < (?P=lanes); j\+\+\) (?P=whole)\.lane\[j\] = (?P<v>\w+)\[j\];\n"
    r"\1\*\(tf_vector<STORED, (?P=lanes)>\*\)(?P<at>\([^\n]*\)) = (?P=whole);$"
)
HALVES = (
    "DEVICE uint4 halves(const float* v) "
    "{ tf_vector<STORED, 8> w; UNROLL for (int j = 0; j < 8; j++) w.lane[j] = v[j]; return *(uint4*)&w; }"
)


def _packed(texts: dict[str, str]) -> dict[str, str]:
    """Weights of 16 bits by a function as well, where those for TF32 are rounded by one."""
    half = texts.get("half", "")
    found = PACKED.search(half)
    if not found or not all(" = rounded(" in text for key, text in texts.items() if key != "half"):
        return texts
    out = {**texts, "half": PACKED.sub(r"\1*(uint4*)\g<at> = halves(\g<v>);", half)}
    packs = re.compile(r"(?m)^__global__ [^\n]*\b\w*prepare\w*\(")
    return {key: packs.sub(lambda m: f"{HALVES}\n{m[0]}", text, count=1) for key, text in out.items()}


LISTS = re.compile(r"(?m)^(?:#define FOUR\(i\) [^\n]*\n)?#define EIGHT\(i\) [^\n]*$")


def _listed(texts: dict[str, str]) -> dict[str, str]:
    """Registers in lists of eight, and of four where one build needs them: in all of them."""
    found = [m[0] for text in texts.values() if (m := LISTS.search(text))]
    most = max(found, key=lambda lists: lists.count("\n"), default="")
    return {key: LISTS.sub(lambda _: most, text) for key, text in texts.items()}
