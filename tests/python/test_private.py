"""PyTorch's private names stand in one file."""

import re
from pathlib import Path

import pytest

import transfuse

PRIVATE = re.compile(
    r"\btorch(\.[A-Za-z]\w*)*\._[A-Za-z][\w.]*"  # torch._C, torch.fx._symbolic_trace
    r"|\bimport torch\S*\._"
    r"|\bfrom torch\S* import [^#\n]*\b_[A-Za-z]\w*"
)
# Operators and objects of PyTorch's public modules whose names begin so.
# (Dynamo and Inductor have no others for what a backend is to use.)
ALLOWED = ("torch.ops.", "torch.__", "torch.Tensor.", "torch.inference_mode.__", "torch._dynamo", "torch._inductor")


here = Path(transfuse.__file__).parent
FILES = [file for file in sorted(here.rglob("*.py")) if file.relative_to(here).parts[0] not in ("bench", "emit")]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(here)))
def test_private_names_stand_in_one_file(file):
    if file.name == "torch_private.py":
        return
    found = [match.group() for match in PRIVATE.finditer(file.read_text())]
    assert [name for name in found if not name.startswith(ALLOWED)] == []
