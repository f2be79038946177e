"""What a file has for the sizes of its example: the kernels that `optimize` takes there, where they are others than those for all sizes."""

import copy
import shutil

import pytest
import torch
from emitted import namespace
from test_emit_apart import MODEL
from test_emit_emulated import deviation, emulated

from transfuse import emit
from transfuse.emit.file import _close
from transfuse.emit.launches import Launch, Program


def emitted(folder, up: str, done: str, sizes: tuple) -> tuple[str, dict]:
    path = folder / "model.py"
    path.write_text(MODEL.format(up=up, behind=done, sizes=sizes))
    return emit.emit(path), namespace(path.read_text())


def error(space: dict, theirs: dict, shape: tuple) -> float:
    torch.manual_seed(0)
    reference = theirs["Model"]()
    torch.manual_seed(0)
    model, x = space["ModelNew"](), torch.rand(shape)
    with torch.no_grad():
        return deviation(model(x), copy.deepcopy(reference).double()(x.double()))


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: -1, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
def test_channel_by_channel_rows_of_a_thread_are_chosen_for_the_example(tmp_path):
    """Four rows of outputs a thread there, one at sizes that are not known."""
    example = (2, 8, 24, 32)
    text, theirs = emitted(tmp_path, "ConvTranspose2d(8, 8, 4, 2, 1, groups=8)", "torch.sigmoid(self.up(x))", example)
    assert "if (arch == 90 && batch == 2 && height == 24 && width == 32 && aligned(leaf, 3)) {" in text
    assert " forward_example_grouped(" in text and " forward_grouped(" in text
    space = emulated(text, tmp_path, 90)
    for shape in (example, (3, 8, 24, 32), (1, 8, 7, 16)):
        assert error(space, theirs, shape) <= 1e-6
    assert all(need >= 0 for _, _, _, need, *_ in space["_calls"].values())


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
def test_an_example_for_which_tf32_saves_nothing_is_multiplied_in_full(tmp_path):
    example = (2, 32, 8, 32)
    text, theirs = emitted(tmp_path, "ConvTranspose2d(32, 64, 3, 2, 1)", "torch.relu(self.up(x))", example)
    assert "# For fp32 on sm_90a" in text or "# For fp32 and 16 bits on sm_90a" in text
    assert "in_tf32" not in text and "strict = " not in text
    space = emulated(text, tmp_path, 90)
    for shape in (example, (1, 32, 5, 32)):
        assert error(space, theirs, shape) <= 1e-5
    assert all(need >= 0 for _, _, _, need, *_ in space["_calls"].values())


def test_launches_are_of_a_kind_whatever_their_sizes():
    program = lambda note: Program([], [Launch(None, "", 256, 0, 1, False, note)], [], [], "", [], {})  # noqa: E731
    assert program("sums of 462 blocks[2,3]").kinds == program("sums of 396 blocks[16,3,1]").kinds
    assert program("4x1 outputs a thread").kinds != program("4x4 outputs a thread").kinds


def test_a_comment_at_the_end_of_a_string_stays_in_it():
    text = 'ROLES = r"""\nint a;\n\n// What b is.\n""" + SHARED + r"""\nint c;\n"""\n\nimport struct\n\nimport torch\n\n\ndef f():\n    x\n'
    closed = _close(text)
    assert 'int a;\n// What b is.\n""" + SHARED' in closed and "import struct\nimport torch\n\ndef f():" in closed
