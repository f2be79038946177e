"""The command: reference files, graphs, and bad input."""

import subprocess
import sys
import warnings

import pytest
import torch
import zoo

from transfuse import cli, problem

WITHOUT_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")

MODEL = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, channels, 3, stride=2)
    def forward(self, x):
        return self.up(x).mean((2, 3))
def get_init_inputs():
    return [4]
def get_inputs():
    return [torch.rand(2, 3, 5, 5)]
"""
GRAPH = """graph g {
  %x = input f32[2,3,4,4]
  %w = param f32[3,4,3,3]
  %y = conv_transpose(%x, %w) stride=[2,2]
  %m = mean(%y) dims=[2,3]
  return %m
}
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


def test_explain(model, capsys):
    assert cli.main(["explain", model]) == 0
    out = capsys.readouterr().out
    assert "collapse" in out and "conv_transpose" in out


def test_explain_plans_for_cuda_without_a_gpu(model, capsys):
    assert cli.main(["explain", model, "--device", "cpu"]) == 0
    here = capsys.readouterr().out
    assert cli.main(["explain", model, "--device", "cuda"]) == 0
    there = capsys.readouterr().out
    assert "collapse" in there and "pass" in there and here != there  # other passes, or other times of the same


def test_check(model, capsys):
    assert cli.main(["check", model, "--seeds", "2", "--backward"]) == 0
    out = capsys.readouterr().out
    assert out.count("right") == 4 and "2 operators taken, 0 left" in out


def test_check_says_why_nothing_was_taken(tmp_path, capsys):
    path = tmp_path / "branches.py"
    path.write_text(
        MODEL.replace("def forward(self, x):", "def forward(self, x):\n        x = x if x.sum() > 0 else -x")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cli.main(["check", str(path), "--seeds", "1"]) == 0
    assert "depends on the values of a tensor" in capsys.readouterr().out


def test_a_wrong_result_is_called_wrong(model, capsys, monkeypatch):
    import transfuse

    real = transfuse.optimize
    monkeypatch.setattr(transfuse, "optimize", lambda m, *a, **k: real(m.apply(_spoil), *a, **k))
    assert cli.main(["check", model, "--seeds", "1"]) == 1
    assert "error" in capsys.readouterr().out


def _spoil(module):
    if hasattr(module, "bias") and module.bias is not None:
        module.bias.data.add_(1e-3)


@pytest.mark.parametrize("command", ["explain", "check"])
def test_graphs_go_to_the_native_command(command, tmp_path, capfd):
    path = tmp_path / "g.tf"
    path.write_text(GRAPH)
    assert cli.main([command, str(path)]) == 0
    assert capfd.readouterr().out.strip()


def test_collect_env(capfd):
    assert cli.main(["collect-env"]) == 0
    out = capfd.readouterr().out
    assert "torch:" in out and "transfuse:" in out


@pytest.mark.parametrize(
    "text,words",
    [
        (None, "there is no file"),
        ("x = 1", "has no Model"),
        ("def broken(:", "cannot be loaded"),
        (MODEL.replace("return [4]", "return [4, 5]"), "get_init_inputs()) fails"),
    ],
)
def test_bad_files_get_one_sentence(text, words, tmp_path, capsys):
    path = tmp_path / "bad.py"
    if text is not None:
        path.write_text(text)
    assert cli.main(["check", str(path)]) == 2
    err = capsys.readouterr().err
    assert words in err and len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["check", "--seeds", "0"],
        ["check", "--seeds", "-1"],
        ["emit", "--seeds", "0"],
        ["bench", "--rounds", "0"],
        ["bench", "--precision", "fp12"],
        pytest.param(["check", "--device", "cuda"], marks=WITHOUT_GPU),
        pytest.param(["bench", "--device", "cuda"], marks=WITHOUT_GPU),
        pytest.param(["emit", "--check", "-o", "new.py"], marks=WITHOUT_GPU),
    ],
    ids=" ".join,
)
def test_options_that_cannot_be_get_one_sentence(words, model, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    try:
        code = cli.main([words[0], model, *words[1:]])
        said = capsys.readouterr().err
    except SystemExit as end:  # argparse says its usage first
        said = str(end.code) if isinstance(end.code, str) else capsys.readouterr().err
        code = 1 if isinstance(end.code, str) else end.code
    assert code in (1, 2) and "Traceback" not in said
    last = said.strip().splitlines()[-1]
    assert any(word in last for word in ("from 1 on", "no CUDA device", "unknown precision"))


@pytest.mark.parametrize("command", ["check", "explain", "emit"])
def test_a_model_that_does_not_run_gets_one_sentence(command, tmp_path, capsys):
    path = tmp_path / "bad.py"
    path.write_text(MODEL.replace("rand(2, 3", "rand(2, 7"))
    assert path.read_text() != MODEL
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cli.main([command, str(path)]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1 and "to have 3 channels" in said[0]


@pytest.mark.parametrize("words", [["bench", "--compare"], ["report"]])
@pytest.mark.parametrize("text", [None, "no JSON", "{}"])
def test_results_that_are_none_get_one_sentence(words, text, tmp_path):
    path = tmp_path / "run.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit, match="is not a result of transfuse bench"):
        cli.main([*words, str(path), *([str(path)] if words[0] == "bench" else [])])


def test_a_page_that_cannot_be_written_gets_one_sentence(tmp_path):
    path = tmp_path / "run.json"
    path.write_text('{"rows": []}')
    with pytest.raises(SystemExit, match="cannot be written"):
        cli.main(["report", str(path), "-o", str(path / "page.html")])


def test_unknown_command(capsys):
    assert cli.main(["fly"]) == 2
    assert "unknown command" in capsys.readouterr().err
    assert cli.main(["--help"]) == 0


def test_module_entry_point():
    done = subprocess.run([sys.executable, "-m", "transfuse", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("transfuse ")


@pytest.mark.parametrize("name", [*zoo.ROWS, *zoo.WHOLE])
def test_every_model_file_loads(name):
    reference = problem.load(zoo.FOLDER / f"{name}.py")
    assert reference.module.get_init_inputs() is not None
