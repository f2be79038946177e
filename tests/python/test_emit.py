"""Files that stand alone: what they contain, whom they take, what they leave to PyTorch's operators and how they say so."""

import ast
import builtins
import copy
import re
import subprocess
import sys
import symtable
import warnings

import pytest
import torch
from emitted import SEEDS, namespace, root
from torch.utils import _pytree as pytree

from transfuse import emit
from transfuse.cli import main
from transfuse.problem import ProblemError


def example(row: str) -> str:
    return (root / "examples" / "emitted" / f"{row}.py").read_text()


def plain(text: str) -> str:
    """Without comments, as pattern checkers look at code."""
    return "\n".join(line.split("#")[0].split("//")[0] for line in text.splitlines())


# What a pattern-based checker of kernel submissions refuses, in our words.
FORBIDDEN = {
    "an exception handler": r"\btry\s*:|\bexcept\b",
    "a bare statement": r"\bpass\b",
    "threads": r"import\s+threading|threading\.Thread|multiprocessing\.|concurrent\.futures",
    "a tensor subclass": r"_make_subclass|class\s+\w+.*\((?:torch\.)?Tensor\)",
    "a stream of its own": r"cuda\.Stream\(|with\s+torch\.cuda\.stream|wait_stream|record_stream",
    "a clock replaced": r"(?:elapsed_time|synchronize|perf_counter|Event(?:\.record)?)\s*=[^=]",
}


@pytest.mark.parametrize("row", SEEDS)
def test_a_checker_finds_no_error(row):
    code = plain(example(row))
    for what, pattern in FORBIDDEN.items():
        assert not re.search(pattern, code), what
    assert "__global__" in code and "load_inline" in code
    imports = {n.names[0].name.split(".")[0] if isinstance(n, ast.Import) else n.module.split(".")[0]
               for n in ast.walk(ast.parse(example(row))) if isinstance(n, (ast.Import, ast.ImportFrom))}  # fmt: skip
    assert imports <= {"torch", *sys.stdlib_module_names}


def names_from_elsewhere(text: str) -> set[str]:
    module = symtable.symtable(text, "file", "exec")
    own = {s.get_name() for s in module.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}

    def used(table):
        yield from (s.get_name() for s in table.get_symbols() if s.is_global() and s.is_referenced())
        for inner in table.get_children():
            yield from used(inner)

    return {name for name in used(module)} - own - set(dir(builtins))


@pytest.mark.parametrize("row", SEEDS)
def test_emitting_again_gives_the_committed_text(row):
    assert names_from_elsewhere(example(row)) == set()
    assert emit.emit(root / "bench" / "models" / f"{row}.py").text == example(row), (
        f"run `make emitted`: examples/emitted/{row}.py is not what the generators give now"
    )


@pytest.mark.parametrize("row", SEEDS)
def test_same_constructor_and_weights(row):
    theirs, ours = namespace((root / "bench" / "models" / f"{row}.py").read_text()), namespace(example(row))
    arguments = theirs["get_init_inputs"]()
    torch.manual_seed(3)
    reference = theirs["Model"](*arguments).state_dict()
    torch.manual_seed(3)
    mine = ours["ModelNew"](*arguments).state_dict()
    assert list(mine) == list(reference) and all(torch.equal(mine[k], reference[k]) for k in reference)
    others = [a + 1 if isinstance(a, int) and i == 0 else a for i, a in enumerate(arguments)]
    with pytest.raises(ValueError, match="were written for"):
        ours["ModelNew"](*others)


PLAIN = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(4, 4, 2)
    def forward(self, x):
        return self.up(x)
def get_inputs(): return [torch.rand(2, 4, 8, 8)]
def get_init_inputs(): return []
"""
CASES = {
    "no Model": ("x = 1", "has no Model"),
    "a file that ends the process": ("raise SystemExit(3)", "cannot be loaded: SystemExit: 3"),
    "a constructor that says much": (
        PLAIN.replace("super().__init__()", "raise ValueError('first\\nsecond')"), "fails: ValueError: first\n"),
    "inputs that fail": (PLAIN.replace("[torch.rand(2, 4, 8, 8)]", "[1 / 0]"), "get_inputs() fails: ZeroDivisionError"),
    "inputs that are no list": (PLAIN.replace("[torch.rand(2, 4, 8, 8)]", "torch.rand(2, 4, 8, 8)"), "must return a list, got Tensor"),
    "inputs in a dictionary": (PLAIN.replace("[torch.rand(2, 4, 8, 8)]", "[{'x': torch.rand(2, 4, 8, 8)}]"), "holds a dict"),
    "arguments that are no list": (PLAIN.replace("return []", "return 5"), "get_init_inputs() must return a list, got int"),
    "nothing to take": (
        "import torch, torch.nn as nn\nclass Model(nn.Module):\n    def forward(self, x):\n        return torch.sort(x)[0]\n"
        "def get_inputs(): return [torch.rand(3, 4)]\ndef get_init_inputs(): return []", "nothing of the model can be taken"),
    "a name of ours": (
        PLAIN.replace("class Model", "def compute(x): return x\nclass Model").replace("self.up(x)", "compute(self.up(x))"),
        "'compute' is a name that files use themselves"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_files_get_a_sentence_and_write_nothing(case, tmp_path, capsys):
    text, expected = CASES[case]
    (tmp_path / "problem.py").write_text(text)
    assert main(["emit", str(tmp_path / "problem.py"), "-o", str(tmp_path / "new.py")]) == 2
    said = capsys.readouterr().err
    assert expected in said and said.count("\n") == 1
    assert not (tmp_path / "new.py").exists()


FEATURES = """
import torch, torch.nn as nn
class Block(nn.Module):
    def __init__(self, channels, bias=True):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, channels, 4, 2, 1, groups=channels, bias=bias)
        self.register_buffer("shift", torch.linspace(0, 1, channels).view(1, channels, 1, 1))
    def forward(self, x):
        return torch.relu(self.up(x) + self.shift)
class Model(nn.Module):
    def __init__(self, channels=16, *, gain=1.5):
        super().__init__()
        self.block, self.gain = Block(channels), gain
    def forward(self, x, skip, scale: float = 2.0):
        y = self.block(x)
        return {"y": y.flatten(2) * self.gain, "rest": (torch.sort(skip, 1)[0] * scale, [y.mean((2, 3))])}
def get_inputs(): return [torch.rand(4, 16, 12, 12), torch.rand(4, 7)]
def get_init_inputs(): return []
"""


@pytest.fixture(scope="module")
def features(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("features") / "problem.py"
    path.write_text(FEATURES)
    return emit.emit(path, emit.Request(sizes=("1..2x16x5x9,1..2x7",))).text


def by_regions(text: str) -> dict:
    """The file's names, where PyTorch's operators stand for its kernels."""
    space = namespace(text)
    space["elsewhere"] = lambda device: None
    called = space["called"] = []
    space["compute"] = lambda name, leaves, sizes=(): called.append(name) or space["REGIONS"][name][0](*leaves, *sizes)
    return space


def test_a_file_takes_what_models_are_made_of(features):
    """Helper modules, buffers, defaults, several inputs, sizes in reshapes, operators that stay, results in dictionaries."""
    ours, theirs = by_regions(features), namespace(FEATURES)
    model, reference = ours["ModelNew"](), theirs["Model"]()
    model.load_state_dict(reference.state_dict())
    assert names_from_elsewhere(features) == set()
    for batch, of, region in ((1, (5, 9), "forward_2"), (2, (5, 9), "forward"), (4, (12, 12), "forward")):
        ours["called"].clear()
        inputs = [torch.rand(batch, 16, *of), torch.rand(batch, 7)]
        with torch.no_grad():
            found, truth = model(*inputs), reference(*inputs)
        assert ours["called"] == [region]  # a graph of one image is one of its own
        assert pytree.tree_structure(found) == pytree.tree_structure(truth)
        torch.testing.assert_close(found, truth)


def test_what_the_file_has_no_kernels_for_is_pytorchs_and_said_once(features):
    ours, theirs = by_regions(features), namespace(FEATURES)
    model, reference = ours["ModelNew"](), theirs["Model"]()
    model.load_state_dict(reference.state_dict())
    inputs = [torch.rand(4, 16, 12, 12), torch.rand(4, 7)]
    for given, named in (([t[:3] for t in inputs], {}), (inputs, {"scale": 3.0}), ([t.double() for t in inputs], {})):
        owners = [copy.deepcopy(m).to(given[0].dtype) for m in (model, reference)]
        with pytest.warns(ours["Left"], match="PyTorch's operators compute this.*is none of the sizes and dtypes"):
            found = owners[0](*given, **named)
        torch.testing.assert_close(found, owners[1](*given, **named))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            owners[0](*given, **named)
        ours["_left"].clear()
    assert ours["called"] == []
    with torch.autocast("cpu"), pytest.warns(ours["Left"], match="autocast is on"):
        model(*inputs)
    mapped = torch.func.vmap(lambda x, y: model(x, y)["y"])(torch.rand(2, 4, 16, 12, 12), torch.rand(2, 4, 7))
    assert mapped.shape == (2, 4, 16, 576) and ours["called"] == []
    with pytest.warns(UserWarning, match="the tensors are on cpu"):
        namespace(features)["ModelNew"]()(*inputs)


def test_options_decide_what_a_file_has_kernels_for(tmp_path, capsys):
    (tmp_path / "problem.py").write_text(PLAIN)
    new = tmp_path / "new.py"
    assert main(["emit", str(tmp_path / "problem.py"), "-o", str(new), "--dtype", "float32,bfloat16", "--precision", "strict",
                 "--sizes", "1..3x4x8x8", "--no-gradients"]) == 0  # fmt: skip
    said = capsys.readouterr().err
    assert "2x4x8x8; 3x4x8x8; 1x4x8x8" in said and "float32 (full fp32), bfloat16" in said
    assert "; TF32; second derivatives; gradients." in said and "some parameters" not in said
    space = namespace(new.read_text())
    given = {(given[0][0], given[0][1][0]) for _, given, _ in space["CALLS"]}
    assert given == {(d, n) for d in (torch.float32, torch.bfloat16) for n in (1, 2, 3)}
    assert all(set(kinds) == {("inference",)} and kinds["inference",][1] for _, _, kinds in space["CALLS"])
    assert all(f"# {line}" in new.read_text() for line in said.splitlines() if len(line) < 130)
    for words in (["--sizes", "0x4x8x8"], ["--sizes", "4x8x8"], ["--sizes", "2x4x8xn"]):
        assert main(["emit", str(tmp_path / "problem.py"), *words]) == 2
        assert "--sizes" in capsys.readouterr().err


BAD_OPTIONS = {
    "--arch 75": "expected a compute capability from 80",
    "--dtype float64": "expected float32, float16, bfloat16",
    "--precision tf32,": "expected tf32, strict, joined by commas, got ''",
    "--device cpu --precision tf32": "are for CUDA",
    "--check": "needs a file to check",
    "-o no/such/new.py": "there is no such folder",
}


@pytest.mark.parametrize("words", BAD_OPTIONS)
def test_bad_options_are_named_before_anything_is_written(words, tmp_path, capsys, monkeypatch):
    (tmp_path / "problem.py").write_text(PLAIN)
    monkeypatch.setattr("transfuse.emit.emit", lambda *_: 1 / 0)
    with pytest.raises(SystemExit, match="2"):
        main(["emit", str(tmp_path / "problem.py"), *words.split()])
    assert BAD_OPTIONS[words] in capsys.readouterr().err


def test_a_portable_program_is_for_every_gpu_since_ampere(tmp_path):
    (tmp_path / "problem.py").write_text(PLAIN.replace("self.up(x)", "self.up(x).mean((2, 3))"))
    file = emit.emit(tmp_path / "problem.py")
    assert "compute capability 8.0 or higher" in file.notes[0] and "architecture(device.index) >= 80" in file.text


def test_for_other_gpus_the_portable_machine_writes(tmp_path):
    wide = PLAIN.replace("4, 4, 2", "64, 64, 4, 2, 1").replace("2, 4, 8, 8", "2, 64, 16, 16")
    (tmp_path / "problem.py").write_text(wide)
    file = emit.emit(tmp_path / "problem.py", emit.Request(arch=80, precisions=("tf32",), gradients=False))
    assert "wgmma" not in file.text and "compute capability 8.0" in file.notes[0]


def test_an_error_of_the_writer_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "problem.py").write_text(PLAIN)
    monkeypatch.setattr("transfuse.emit.cuda.device_code", lambda kernels: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        emit.emit(tmp_path / "problem.py")


def test_an_output_that_cannot_be_written(tmp_path):
    with pytest.raises(ProblemError, match="cannot be written"):
        emit.write("text", tmp_path / "no" / "such" / "folder.py")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "folder").mkdir()
    with pytest.raises(ProblemError, match="cannot be written: Is a directory"):
        emit.write("text", tmp_path / "folder")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_the_check_script_hides_transfuse():
    script = root / "python" / "transfuse" / "emit" / "check.py"
    text = (
        script.read_text().split("import copy")[0]
        + "\ntry:\n    import transfuse\nexcept ImportError:\n    print('hidden')\n"
    )
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True).stdout.strip() == "hidden"
