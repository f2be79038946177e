"""The tool that compares generated kernels between commits says what a change is: tools/kernels/compare.py."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "kernels"))
import compare

KERNEL = "int f(int a) {\n    return a + b;  // the sum\n}\n"


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        (KERNEL.replace("the sum", "both"), "comments"),
        (KERNEL.replace("b", "c"), "names"),
        (KERNEL.replace("b", "a"), "code"),  # two names became one
        (KERNEL.replace("+", "-"), "code"),
        (KERNEL.replace("a + b", "a + b + 1"), "code"),
    ],
)
def test_kinds_of_changes(after, kind):
    assert compare.kind_of(KERNEL, after) == kind


def test_ptx_but_for_names():
    ptx = "// compiled\n.visible .entry {0}(\n.param .u64 {0}_param_0)\n{{\nadd.s32 %r1, %r2, {1};\n}}\n"
    assert compare.same_ptx(ptx.format("first", 1), ptx.format("second", 1))
    assert not compare.same_ptx(ptx.format("first", 1), ptx.format("first", 2))
    assert not compare.same_ptx("does not compile", "does not compile")


def written(folder: Path, launches: str, **texts: str) -> Path:
    (folder / "texts").mkdir(parents=True)
    for name, text in texts.items():
        (folder / "texts" / f"{name}.cu").write_text(text)
    (folder / "launches-90.txt").write_text(launches)
    return folder


LAUNCHES = "[A f32]\n{} tf_loop0 1,1,1 x 32,1,1 cluster 1 shared 0 arguments {}\nworkspace {} kept 0\n"


@pytest.mark.parametrize(
    ("second", "harmless", "words"),
    [
        (("one", "12", 0), True, "no text changed"),
        (("two", "12", 0), True, "1 in comments"),
        (("one", "34", 0), False, "tf_loop0 has other arguments (A f32)"),
        (("one", "12", 8), False, "workspace 0 kept 0 -> workspace 8 kept 0"),
        (("new", "12", 0), False, "-    return a + b"),
    ],
)
def test_what_is_said_of_two_commits(tmp_path, capsys, second, harmless, words):
    texts = {"one": KERNEL, "two": KERNEL.replace("the sum", "both"), "new": KERNEL.replace("+", "-")}
    before = written(tmp_path / "before", LAUNCHES.format("one", "12", 0), **texts)
    after = written(tmp_path / "after", LAUNCHES.format(*second), **texts)
    found = compare.Comparison(before, after, 90)
    found.judge(compare.Compilations("false", sys.executable, 1, tmp_path), most=0)
    found.tell(set())
    assert found.harmless() == harmless
    assert words in capsys.readouterr().out
