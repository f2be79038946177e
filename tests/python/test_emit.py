"""Emitted files: what they say, what a static checker would say of them, that they are the model; no GPU needed."""

import ast
import builtins
import copy
import re
import subprocess
import symtable
import sys
from types import SimpleNamespace

import pytest
import torch
import torch.utils._pytree as pytree
from emitted import SEEDS, builds, device_part, example, file_of, namespace, root

from transfuse import emit
from transfuse.cli import main
from transfuse.problem import ProblemError


def plain(text: str) -> str:
    """Without comments, as pattern checkers look at code."""
    return "\n".join(line.split("#")[0].split("//")[0] for line in text.splitlines())


# What a pattern-based checker of kernel submissions refuses, in our words.
FORBIDDEN = {
    "an exception handler": r"\btry\s*:|\bexcept\b",
    "a bare statement": r"\bpass\b",
    "a layer spelled in full": r"torch\.nn\.(?!Module\b|Parameter|init\b|parameter\b)",
    "a computing function": r"\btorch\.(mm|bmm|matmul|einsum|conv\w*|\w+_pool\dd|relu|elu|selu|gelu|softplus|softmax|log_softmax|tanh|"
    r"sigmoid|silu|mish|hardtanh|batch_norm|group_norm|layer_norm|instance_norm|linear|logsumexp|clamp|dropout)\s*\(",
    "functional": r"nn\.functional|\bF\.\w+\(",
    "a stream of its own": r"cuda\.Stream\(|with torch\.cuda\.stream|wait_stream|record_stream",
    "threads": r"threading|multiprocessing|concurrent\.futures",
    "a tensor subclass": r"_make_subclass|\((?:torch\.)?Tensor\):",
    "a cast to 16 bits": r"__float2half|\(\s*__half\s*\)|static_cast<\s*(?:__)?half|\.half\(|\.to\(\s*(?:dtype=)?torch\.(?:float16|half)",
    "a clock replaced": r"(?:elapsed_time|synchronize|perf_counter|Event(?:\.record)?)\s*=[^=]",
}


@pytest.mark.parametrize("row", SEEDS)
def test_a_checker_has_nothing_to_say(row):
    code = plain(example(row))
    for what, pattern in FORBIDDEN.items():
        assert not re.search(pattern, code), what
    assert "__global__" in code and "load_inline" in code
    imports = {n.names[0].name.split(".")[0] if isinstance(n, ast.Import) else n.module.split(".")[0]
               for n in ast.walk(ast.parse(example(row))) if isinstance(n, (ast.Import, ast.ImportFrom))}  # fmt: skip
    assert imports <= {"torch", *sys.stdlib_module_names}


@pytest.mark.parametrize("row", SEEDS)
def test_every_name_a_file_uses_is_its_own(row):
    assert names_from_elsewhere(example(row)) == set()


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
    assert file_of(row) == example(row), (
        f"run `make emitted`: examples/emitted/{row}.py is not what the generators give now"
    )


@pytest.mark.parametrize("row", SEEDS)
def test_same_constructor_and_weights(row):
    theirs, ours = {}, namespace(example(row))
    exec((root / "bench" / "models" / f"{row}.py").read_text(), theirs)
    arguments = theirs["get_init_inputs"]()
    torch.manual_seed(3)
    reference = theirs["Model"](*arguments).state_dict()
    torch.manual_seed(3)
    model = ours["ModelNew"](*arguments)
    mine = model.state_dict()
    assert list(mine) == list(reference) and all(torch.equal(mine[k], reference[k]) for k in reference)
    with pytest.raises(RuntimeError, match="written for CUDA tensors, got one on cpu"):
        model(torch.rand(1, *[4] * (next(model.parameters()).dim() - 1)))
    with pytest.raises(ValueError, match="were written for"):
        theirs_other = [a + 1 if isinstance(a, int) and i == 0 else a for i, a in enumerate(arguments)]
        ours["ModelNew"](*theirs_other)


@pytest.mark.parametrize("row", ("A", "B"))
@pytest.mark.parametrize("shape", ((2, 64, 5, 6), (1, 64, 1, 9)))
def test_backward_of_a_collapsed_model_is_its_derivation(row, shape):
    ours, theirs = namespace(example(row)), {}
    exec((root / "bench" / "models" / f"{row}.py").read_text(), theirs)
    torch.manual_seed(1)
    model = theirs["Model"](*theirs["get_init_inputs"]()).double()
    parameters = {name.replace(".", "_"): p for name, p in model.named_parameters()}
    names = re.search(r"    (.*) = \[t\.double\(\) for t in parameters\]", example(row))[1].split(", ")
    x = torch.rand(shape, dtype=torch.float64, requires_grad=True)
    leaves, y = [x, *(parameters[name] for name in names)], model(x)
    given = torch.rand_like(y)
    _, *mine = ours["Differentiable"].backward(SimpleNamespace(saved_tensors=leaves), given)
    for got, truth in zip(mine, torch.autograd.grad(y, leaves, given), strict=True):
        torch.testing.assert_close(got, truth, rtol=1e-12, atol=1e-14)


def test_a_mode_whose_statistics_are_the_running_ones_is_written_with_the_other():
    """C in eval mode: what its kernels cannot take, and what backward differentiates."""
    ours, theirs = namespace(example("C")), {}
    exec((root / "bench" / "models" / "C.py").read_text(), theirs)
    torch.manual_seed(1)
    model = theirs["Model"](*theirs["get_init_inputs"]()).double().eval()
    model.batch_norm.running_mean.uniform_()
    model.batch_norm.running_var.uniform_(0.5, 2)
    state = {name.replace(".", "_"): t for name, t in [*model.named_parameters(), *model.named_buffers()]}
    before = copy.deepcopy(model.state_dict())
    x = torch.rand(2, 64, 3, 2, 5, dtype=torch.float64)
    expected, *_, written, _ = ours["PROGRAMS"]["eval"]
    found = written(torch.ops.aten.convolution, x, *(state[name] for name, _ in expected[1:]))
    assert len(found) == 1 and all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    torch.testing.assert_close(found[0], model(x), rtol=1e-12, atol=1e-14)


def test_backward_of_a_dense_model_is_pytorchs_own():
    ours = namespace(example("C"))
    x = torch.rand(2, 64, 3, 2, 4, dtype=torch.float64, requires_grad=True)
    weight, bias = torch.rand(64, 128, 5, 5, 5, dtype=torch.float64), torch.rand(128, dtype=torch.float64)
    scale, shift = torch.rand(2, 128, dtype=torch.float64)
    z = torch.nn.functional.conv_transpose3d(x, weight, bias) * 2.0
    y = torch.nn.functional.batch_norm(z, None, None, scale, shift, True).mean((2, 3, 4), keepdim=True)
    found = ours["as_written"](torch.ops.aten.convolution, x, weight, bias, scale, shift)
    assert torch.allclose(found[0], y)
    assert torch.allclose(found[1], z.mean((0, 2, 3, 4))) and torch.allclose(found[2], z.var((0, 2, 3, 4)))


def test_strict_fp32_takes_kernels_that_do_not_round():
    """C in eval mode has no tensor-core kernel: PyTorch's operators stand in for those of train mode alone."""
    assert 'strict = name in ["train"] and not half and need >= 0 and not in_tf32(rest[0], leaves)' in example("C")


def test_rows_of_the_examples_length_share_padding():
    """C's rows have kernels of their own, as optimize has them; other lengths take the portable path."""
    source = example("C")
    assert builds(source) == ["fp32"] and "width != 32 || !aligned" in source


@pytest.mark.parametrize("row", SEEDS)
def test_host_code_defines_everything_once(row):
    source = namespace(example(row))["SOURCE"]
    host = source[len(device_part(source)) :]
    found = re.findall(r"^(?:template <[^>]*>\s)?(?:static |void |extern \"C\" )[^=;\n]*?(\w+)\(", host, re.M)
    assert "launch" in found and len(found) == len(set(found))


@pytest.mark.parametrize("row", SEEDS)
def test_files_are_short(row):
    assert example(row).count("\n") < 600


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
    "arguments that are no list": (PLAIN.replace("return []", "return 5"), "get_init_inputs() must return a list, got int"),
    "a constructor that fails": (
        "import torch.nn as nn\nclass Model(nn.Module):\n    def __init__(self):\n        raise KeyError('k')\n"
        "    def forward(self, x):\n        return x\n"
        "def get_inputs(): return []\ndef get_init_inputs(): return []", "fails: KeyError"),
    "nothing to take": (
        "import torch, torch.nn as nn\nclass Model(nn.Module):\n    def forward(self, x):\n        return torch.sort(x)[0]\n"
        "def get_inputs(): return [torch.rand(3, 4)]\ndef get_init_inputs(): return []", "nothing of the model can be taken"),
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
def get_inputs(): return [torch.rand(4, 16, 32, 32), torch.rand(4, 7)]
def get_init_inputs(): return []
"""


def test_a_file_takes_what_models_are_made_of(tmp_path):
    """Helper modules, buffers, defaults, several inputs, sizes in reshapes, operators that stay, results in dictionaries."""
    (tmp_path / "problem.py").write_text(FEATURES)
    text = emit.emit(tmp_path / "problem.py")
    ours, theirs = namespace(text), namespace(FEATURES)
    model, reference = ours["ModelNew"](), theirs["Model"]()
    model.load_state_dict(reference.state_dict())
    assert names_from_elsewhere(text) == set()
    assert "# Gradients: PyTorch's operators differentiate the model as written" in text
    inputs = [torch.rand(2, 16, 5, 9), torch.rand(2, 7)]
    with pytest.raises(ValueError, match=r"written for scale=2\.0, got 3\.0"):
        model(*inputs, scale=3.0)
    ours["run"] = lambda _, *leaves: ours["forward_as_written"](torch.ops.aten.convolution, *leaves)
    with torch.no_grad():
        found, truth = model(*inputs), reference(*inputs)
    assert pytree.tree_structure(found) == pytree.tree_structure(truth)
    torch.testing.assert_close(found, truth)


def test_layers_of_a_file_may_be_replaced_or_parametrized():
    """A layer's tensors are found without nn.Module's own search."""
    ours, theirs = namespace(example("A")), namespace((root / "bench" / "models" / "A.py").read_text())
    ours["run"] = lambda name, *leaves: ours["PROGRAMS"][name][2](None, *leaves)
    arguments = theirs["get_init_inputs"]()
    model, reference = ours["ModelNew"](*arguments), theirs["Model"](*arguments)
    for owner in (model, reference):
        torch.manual_seed(1)
        owner.conv_transpose = torch.nn.ConvTranspose2d(64, 128, 3, 2, 1, 1)
    x = torch.rand(2, 64, 5, 6)
    with torch.no_grad():
        torch.testing.assert_close(model(x), reference(x), rtol=1e-5, atol=1e-6)
        for owner in (model, reference):
            torch.nn.utils.parametrizations.weight_norm(owner.conv_transpose)
            owner.conv_transpose.parametrizations.weight.original0 *= 2
        torch.testing.assert_close(model(x), reference(x), rtol=1e-5, atol=1e-6)


def test_leaves_of_several_dtypes_are_refused():
    """As PyTorch refuses them: 16 bits are converted for TF32 kernels where all leaves have them."""
    text = example("C")
    assert "{torch.float16}" in text
    space = namespace(text.replace("if not leaves[0].is_cuda:", "if False:"))
    leaves = [torch.rand(2, 64, 3, 4, 5), torch.rand(64, 128, 5, 5, 5), *(torch.rand(128) for _ in range(3))]
    for odd in (0, 1, 4):
        given = [t.half() if i == odd else t for i, t in enumerate(leaves)]
        with pytest.raises(ValueError, match="must be fp32 or 16 bits like all leaves"):
            space["run"]("train", *given)


def test_an_output_that_cannot_be_written(tmp_path):
    with pytest.raises(ProblemError, match="cannot be written"):
        emit.write(example("A"), tmp_path / "no" / "such" / "folder.py")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "folder").mkdir()
    with pytest.raises(ProblemError, match="cannot be written: Is a directory"):
        emit.write(example("A"), tmp_path / "folder")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_the_check_script_hides_transfuse():
    script = root / "python" / "transfuse" / "emit" / "check.py"
    text = (
        script.read_text().split("import copy")[0]
        + "\ntry:\n    import transfuse\nexcept ImportError:\n    print('hidden')\n"
    )
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True).stdout.strip() == "hidden"


def test_a_leaf_that_was_computed_from_another_is_differentiated_apart():
    """Also where the gradients will be differentiated again: neither leaf's gradient holds the other's."""
    ours, theirs = namespace(example("D")), namespace((root / "bench" / "models" / "D.py").read_text())
    ours["run"] = lambda name, *leaves: ours["PROGRAMS"][name][2](torch.ops.aten.convolution, *leaves)
    found = []
    for of in (ours["ModelNew"], theirs["Model"]):
        torch.manual_seed(0)
        model = of(*theirs["get_init_inputs"]()).double()
        weight = model.conv_transpose.weight
        x = torch.rand(1, 64, 3, 4, dtype=torch.float64) * weight.mean() * 1000
        (once,) = torch.autograd.grad(model(x).square().sum(), weight, create_graph=True)
        found.append((once, *torch.autograd.grad(once.square().sum(), weight)))
    torch.testing.assert_close(*found)
