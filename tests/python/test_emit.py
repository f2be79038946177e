"""Emitted files: what they say, what a static checker would say of them, that their device code compiles; no GPU needed."""

import ast
import builtins
import ctypes
import glob
import os
import re
import subprocess
import symtable
import sys
from pathlib import Path

import pytest
import torch
import torch.utils._pytree as pytree

from transfuse import emit, library, problem
from transfuse.cli import main
from transfuse.emit import device
from transfuse.emit.builds import merged, shared
from transfuse.emit.chunks import Chunk, overloads
from transfuse.emit.compiler import nvrtc as nvrtc_of_torch
from transfuse.emit.compiler import refused
from transfuse.emit.formula import Statement, Unstated
from transfuse.emit.passes import one_branch
from transfuse.emit.rolled import rolled
from transfuse.emit.sizes import Sized, Symbol
from transfuse.emit.text import specialised
from transfuse.emit.text.brief import brief
from transfuse.emit.text.sums import FUNCTION as FUNCTION_OF_SUMS
from transfuse.emit.text.jobs import jobs
from transfuse.emit.text.sums import BY_TERMS, by_terms
from transfuse.emit.text.values import constants
from transfuse.emit.text.whole import without_unread_members, without_unused_parameters
from transfuse.emit.unread import methods_called
from transfuse.problem import ProblemError

root = Path(__file__).resolve().parents[2]
SEEDS = ("A", "B", "C", "D")


@pytest.fixture(scope="module")
def seed_a() -> str:
    return emit.emit(root / "bench" / "models" / "A.py")


def example(row: str) -> str:
    return (root / "examples" / "emitted" / f"{row}.py").read_text()


def namespace(text: str) -> dict:
    space = {"__name__": "emitted"}
    exec(compile(text, "emitted", "exec"), space)
    return space


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


@pytest.mark.parametrize("row", ("A", "D"))
def test_emitting_again_gives_the_committed_text(row, seed_a):
    text = seed_a if row == "A" else emit.emit(root / "bench" / "models" / f"{row}.py")
    assert text == example(row), f"run `make emitted`: examples/emitted/{row}.py is not what the generators give now"


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
    mine = ours["differentiated"](ours["forward_as_derived"], leaves, [given])
    for got, truth in zip(mine, torch.autograd.grad(y, leaves, given), strict=True):
        torch.testing.assert_close(got, truth, rtol=1e-12, atol=1e-14)


def test_other_sizes_of_a_collapsed_mode_are_computed_by_its_derivation():
    """C in eval mode: what its kernels cannot take, and what backward differentiates."""
    ours, theirs = namespace(example("C")), {}
    exec((root / "bench" / "models" / "C.py").read_text(), theirs)
    torch.manual_seed(1)
    model = theirs["Model"](*theirs["get_init_inputs"]()).double().eval()
    model.batch_norm.running_mean.uniform_()
    model.batch_norm.running_var.uniform_(0.5, 2)
    names = re.search(r"    (.*) = \[t\.double\(\) for t in parameters\]", example("C"))[1].split(", ")
    state = {name.replace(".", "_"): t for name, t in [*model.named_parameters(), *model.named_buffers()]}
    x = torch.rand(2, 64, 3, 2, 5, dtype=torch.float64)
    assert '"eval", leaves, expected, sizes_at, outputs, 1) or eval_as_derived(None, *leaves)' in example("C")
    found = ours["eval_as_derived"](None, x, *(state[name] for name in names))[0]
    torch.testing.assert_close(found, model(x), rtol=1e-12, atol=1e-14)


def test_backward_of_a_dense_model_is_pytorchs_own():
    ours = namespace(example("C"))
    x = torch.rand(2, 64, 3, 2, 4, dtype=torch.float64, requires_grad=True)
    weight, bias = torch.rand(64, 128, 5, 5, 5, dtype=torch.float64), torch.rand(128, dtype=torch.float64)
    scale, shift = torch.rand(2, 128, dtype=torch.float64)
    z = torch.nn.functional.conv_transpose3d(x, weight, bias) * 2.0
    y = torch.nn.functional.batch_norm(z, None, None, scale, shift, True).mean((2, 3, 4), keepdim=True)
    found = ours["train_as_written"](torch.ops.aten.convolution, x, weight, bias, scale, shift)
    assert torch.allclose(found[0], y)
    assert torch.allclose(found[1], z.mean((0, 2, 3, 4))) and torch.allclose(found[2], z.var((0, 2, 3, 4)))


# Compilation ---------------------------------------------------------------------------------------------------------


def nvrtc():
    pattern = os.path.join(os.path.dirname(torch.__file__), "..", "nvidia", "*", "lib", "libnvrtc.so.1*")
    found = [os.environ.get("TRANSFUSE_NVRTC", "")] + sorted(glob.glob(pattern), key=len)
    for path in found:
        if path and os.path.isfile(path):
            return ctypes.CDLL(path)
    pytest.skip("no NVRTC here")


def device_part(source: str) -> str:
    return re.split(r"\n(?=#include <|static bool aligned)", source, maxsplit=1)[0]


BUILDS = {
    "fp32": ["-DSTORED=float"],
    "wide": ["-DSTORED=float", "-DWIDE"],
    "strict": ["-DSTORED=float", "-DSTRICT"],
    "half": ["-DSTORED=Half", "-DHALF"],
}


def builds(text: str) -> list[str]:
    return ["fp32", *(key for key in BUILDS if f'"{key.upper()}"' in text)]


def compiled(device: str, arch: str, told: list[str]) -> tuple[str, str]:
    """What NVRTC makes of device code, and what it has to say."""
    library, program, size = nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), device.encode(), b"emitted.cu", 0, None, None)
    flags = [f"-arch={arch}".encode(), b"-std=c++17", *(flag.encode() for flag in told)]
    right = library.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags)) == 0
    what = "PTX" if right else "ProgramLog"
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, text)
    return (text.value.decode(), "") if right else ("", text.value.decode() or "failed")


@pytest.mark.parametrize("row", SEEDS)
def test_device_code_compiles(row):
    device = device_part(namespace(example(row))["SOURCE"])
    for build in builds(example(row)):
        assert compiled(device, "sm_90a", BUILDS[build])[1] == ""
    assert compiled(device, "sm_80", BUILDS["fp32"])[1] == ""


@pytest.mark.parametrize("row", ("A", "B"))
def test_collapsed_models_compile_for_other_gpus_and_dtypes(row):
    device = device_part(namespace(example(row))["SOURCE"])
    for arch, stored in (("sm_90a", "Half"), ("sm_80", "Bfloat")):
        assert compiled(device, arch, [f"-DSTORED={stored}"])[1] == ""


def test_statistics_compile_for_16_bits():
    """f10's covariance copies words ahead, which elements of 16 bits are not: they are converted on the way."""
    device = device_part(namespace(emit.emit(root / "bench" / "models" / "f10.py"))["SOURCE"])
    for arch, stored in (("sm_90a", "Half"), ("sm_80", "Bfloat")):
        assert compiled(device, arch, [f"-DSTORED={stored}"])[1] == ""


def test_strict_fp32_takes_kernels_that_do_not_round():
    """C in eval mode has no tensor-core kernel: PyTorch's operators stand in for those of train mode alone."""
    assert 'if need in (-2, -3) or (name in ["train"] and not torch.backends.cudnn.allow_tf32' in example("C")


def instructions(ptx: str, kernel: str) -> dict[str, int]:
    """How often each instruction stands in a kernel and the functions it calls."""
    parts = re.split(r"\n(?=(?:\.visible |\.weak )?\.(?:entry|func) )", ptx)
    mine = [p for p in parts if p.startswith(".func") or (".entry" in p.split("(")[0] and kernel in p.split("(")[0])]
    found = re.findall(r"^\s*(?:@!?%p\d+ )?([a-z][\w.:]*)\s", "\n".join(mine), re.M)
    return {word: found.count(word) for word in set(found)}


def work(ptx: str, kernel: str) -> dict[str, int]:
    """Instructions that multiply, move, convert or wait: the rest is which way is gone, and addresses."""
    kinds = ("wgmma.", "mbarrier.", "cp.", "bar.", "cvt.", "setmaxnreg.", "fence.", "ld.shared", "st.", "shfl.")
    return {
        word: n for word, n in instructions(ptx, kernel).items() if word.startswith(kinds) and word != "cvt.u32.u64"
    }


def test_what_is_read_is_what_runs():
    """The text printed for a reader compiles to the instructions of the generator's own text, without the stores of rows that end
    within a vector: at sizes the file's kernels take there are none."""
    mode = emit.captured(problem.load(root / "bench" / "models" / "D.py"), True)
    call = next(n for n in mode.cut.graph_module.graph.nodes if n.op == "call_module")
    region = emit.sized(mode.cut.regions[0], call)
    graph = region.text(region.example)
    stated = library.stated(graph, graph, "tf32")
    theirs = next(s["text"] for s in stated["sources"] if s["entry"] == "transfuse_dense")
    source = device_part(namespace(example("D"))["SOURCE"])
    ours = work(compiled(source, "sm_90a", BUILDS["fp32"])[0], "forward_dense")
    assert sum(n for word, n in ours.items() if word.startswith("wgmma.mma")) >= 15
    generated = work(compiled(theirs, "sm_90a", [])[0], "transfuse_dense")
    assert generated.pop("st.global.f32", 0) > 0 and "st.global.f32" not in ours
    assert ours == generated


# Bad input -----------------------------------------------------------------------------------------------------------

CASES = {
    "no Model": ("x = 1", "has no Model"),
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


def test_whole_networks_are_left_to_optimize():
    with pytest.raises(ProblemError, match="more than 3 convolutions that stay"):
        emit.emit(root / "bench" / "models" / "dcgan.py")


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
    ours["forward_by_kernels"] = lambda *leaves: ours["forward_as_written"](torch.ops.aten.convolution, *leaves)
    with torch.no_grad():
        found, truth = model(*inputs), reference(*inputs)
    assert pytree.tree_structure(found) == pytree.tree_structure(truth)
    torch.testing.assert_close(found, truth)


def test_an_output_that_cannot_be_written(seed_a, tmp_path):
    with pytest.raises(ProblemError, match="cannot be written"):
        emit.write(seed_a, tmp_path / "no" / "such" / "folder.py")
    assert list(tmp_path.iterdir()) == []


def test_the_check_script_hides_transfuse():
    script = root / "python" / "transfuse" / "emit" / "check.py"
    text = (
        script.read_text().split("import copy")[0]
        + "\ntry:\n    import transfuse\nexcept ImportError:\n    print('hidden')\n"
    )
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True).stdout.strip() == "hidden"


# Device text ---------------------------------------------------------------------------------------------------------

FUNCTION = """static int f(int x, int t) {
    const int unused = x * 2;
    int sum = 0;
    if (WIDE && x > 0) { sum += x; } else sum -= x;
#pragma unroll
    for (int i = 0; i < TURNS; i++) sum += i * 4 + x * ONE;
    for (int k = 0; k < SETS; k++) { if (x < k) continue; sum += k; }
    return SPLIT ? sum : ((long long*)&sum)[t] + (ONE - 1) * x;
}"""


def test_a_loop_of_one_turn_leaves_other_variables_of_its_name_alone():
    text = "void f() { for (int m = 0; m < 1; m++) { g(m); for (int m = 4; m < 32; m *= 2) h(m); const int k = 1, m = k; g(m); } }"
    found = re.sub(r"\s+", " ", specialised(text, {}))
    assert "g(0);" in found and "for (int m = 4; m < 32; m *= 2) h(m);" in found and "m = k; g(m);" in found


def test_cases_of_a_switch_stay_what_they_are():
    text = "void f(int p) { switch (p) { case 0: { if (A) g(0); break; } case 1: { g(1); break; } } h(p); }"
    found = re.sub(r"\s+", " ", specialised(text, {"A": 0}))
    assert "switch (p) { case 0: break; case 1: { g(1); break; } } h(p); }" in found


def test_what_constants_decide_is_gone():
    known = constants(
        "constexpr int ONE = 1, TURNS = ONE, SETS = 3;\nconstexpr bool WIDE = false, SPLIT = !WIDE && ONE > 1;"
    )
    assert known["SPLIT"] == 0 and known["TURNS"] == 1
    assert specialised(FUNCTION, known).split("\n") == [
        "static int f(int x, int t) {",
        "    int sum = 0;",
        "    sum -= x;",
        "    sum += x;",
        "    for (int k = 0; k < SETS; k++) {",
        "        if (x < k) continue;",
        "        sum += k;",
        "    }",
        "    return ((long long*)&sum)[t];",
        "}",
    ]


@pytest.mark.parametrize(
    ("written", "read"),
    (
        ("int a = ((b + (c * d)) + (e * 4));", "int a = b + c * d + e * 4;"),
        ("int a = b - (c + d), e = (b - c) * d;", "int a = b - (c + d), e = (b - c) * d;"),
        ("float* p = q + ((float)n + (i * 2));", "float* p = q + ((float)n + i * 2);"),
        ("int a = b * (c * d) + (*p * n);", "int a = b * (c * d) + (*p * n);"),
    ),
)
def test_parentheses_that_say_nothing_are_gone(written, read):
    assert specialised(written, {}) == read


def test_products_written_out_become_a_loop_with_the_same_products():
    lines = ["static void multiply(int stage) {"]
    expected = []
    for slab, taps in enumerate(((0, 1, 5), (6, 7), (9, 12, 13))):
        lines += ["    wait();"]
        for i, tap in enumerate(taps):
            lines.append(
                f"    product(acc[{tap % 2}], tiles + {i * 64}ll, pixels + {tap}ll, {'1' if tap else 'stage > 0'});"
            )
            expected.append((tap % 2, i * 64, tap, tap > 0))
        lines += ["    commit();", *(["    last();"] if slab == 2 else [])]
    text = rolled("\n".join([*lines, "}"]))
    assert text.count("product(") == 1 and "for (int part = 0; part < 3; part++)" in text
    # Read as Python: the loops give what was written out.
    tables = {n: eval(f"[{v}]") for n, v in re.findall(r"(\w+)\[\] = \{([^}]*)\}", text)}
    call = re.search(r"product\(acc\[(.*)\], tiles \+ (.*), pixels \+ (.*), (.*) \|\| stage > 0\);", text).groups()
    found = []
    for part in range(3):
        for j in range(3):
            at = {**tables, "part": part, "j": j}
            if j < tables["begin"][part + 1] - tables["begin"][part]:
                found.append(tuple(eval(c, at) for c in call))
    assert found == expected and "if (part == 2) last();" in text


def test_plain_kernels_are_said_briefly():
    text = """__global__ void f(const double* p0, const float* p1, float* p2, int count0) {
    __shared__ int tf_first[8];
    if (threadIdx.x == 0) {
        tf_first[0] = 0; tf_first[1] = 1; tf_first[2] = 4; tf_first[3] = 5;
        tf_first[4] = 6; tf_first[5] = 7; tf_first[6] = 8; tf_first[7] = 9;
    }
    const int block1 = blockIdx.x;
    if (block1 < 2) {
        const int t1 = 0 * 256 + threadIdx.x;
        if (t1 < count0) {
            const double v3 = (double)((double)p0[t1] * 2.0) + (double)(float)p1[t1];
            p2[t1] = v3;
        }
    } else {
        const int block3 = block1 - 2, t2 = (int)block3 * 256 + threadIdx.x;
        double a7 = 0.0;
        for (int r1 = 0; r1 < 5; ++r1) {
            a7 += (double)(p0[t2 + r1]);
        }
        p2[t2] = a7;
    }
}"""
    assert brief(text).split("\n")[1:] == [
        "    static const int tf_first[] = {0, 1, 4, 5, 6, 7, 8, 9};",
        "    const int block = blockIdx.x;",
        "    if (block < 2) {",
        "        const int t1 = threadIdx.x;",
        "        if (t1 < count) p2[t1] = (p0[t1] * 2.0) + (double)p1[t1];",
        "    } else {",
        "        const int t2 = (block - 2) * 256 + threadIdx.x;",
        "        double a = 0.0;",
        "        for (int r = 0; r < 5; ++r) a += p0[t2 + r];",
        "        p2[t2] = a;",
        "    }",
        "}",
    ]


def test_sums_are_told_their_terms():
    loop = "    double a = 0.0;\n#pragma unroll 4\n    for (int t = slice; t < n; t += 32) a += p[t];\n"
    call = "    a = tf_sum_slices(a, tf_shared, slice, lane, 16, 8);"
    found = by_terms(f"{FUNCTION_OF_SUMS}\n{loop}{call}")
    assert (
        "    const double a = tf_sum_slices<8>(n, tf_shared, [&](int t) { return p[t]; });" in found
        and "R sum" not in found
    )
    other = f"{FUNCTION_OF_SUMS}\n{loop}{call}\n    b = tf_sum_slices(b, tf_shared, slice, lane, 16, 8);"
    assert by_terms(other) == other


def test_what_a_block_does_is_one_call():
    text = jobs(f"""{BY_TERMS}

__global__ void tail(const double* p0, double* p1, float* p2) {{
    __shared__ double tf_shared[256];
    for (int block = blockIdx.x; block < 5; block += gridDim.x) {{
        if (block < 1) {{
            const int t1 = block * 256 + threadIdx.x;
            if (t1 < 64) p2[t1] = -p0[t1];
        }} else {{
            const int block2 = block - 1, lane = threadIdx.x % 8, slice = threadIdx.x / 8, o3 = block2 * 8 + lane;
            const int o4 = min(o3, 31), i5 = o4 / 16, i6 = o4 - i5 * 16;
            const double a = tf_sum_slices<8>(9, tf_shared, [&](int t2) {{ return p0[i5 * 9 + t2 * i6]; }});
            if (slice == 0 && o3 < 32) p1[i5 * 16 + i6] = a;
            __syncthreads();
        }}
    }}
}}
""")
    assert "if (block < 1) tf_each(block, 64, [&](int i) { p2[i] = -p0[i]; });" in text
    assert (
        "else tf_sums<8>(block - 1, 32, 9, tf_shared, [&](int o, int t) { return p0[o / 16 * 9 + t * (o % 16)]; }"
        in text
    )
    assert "[&](int o, double sum) { p1[o] = sum; });" in text and "tf_sum_slices" not in text


def test_builds_in_one_text():
    texts = {
        "fp32": "constexpr int N = 4;\nconstexpr int M = -2;\nfloat* y;\nint a;\nint b;\nf(1);",
        "strict": "constexpr int N = 8;\nconstexpr int M = -2;\nfloat* y;\nint a;\nint c;\nf(1);",
        "half": "constexpr int N = 4;\nconstexpr int M = -3;\nSTORED* y;\nint b;\nf(2);",
    }
    text = merged(texts)
    assert "constexpr int N = PICK(4, 8, 4), M = -PICK(2, 2, 3);" in text and "f(PICK(1, 1, 2));" in text
    for key, flags in (("fp32", []), ("strict", ["-DSTRICT"]), ("half", ["-DHALF"])):
        run = subprocess.run(
            ["c++", "-E", "-P", "-x", "c++", "-DSTORED=float", *flags, "-"], input=text, capture_output=True, text=True
        )
        assert re.sub(r"\s", "", run.stdout) == re.sub(
            r"\s", "", texts[key].replace("STORED", "float").replace(";\nconstexpr int M", ", M")
        )


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
    lines = example(row).count("\n")
    assert lines < (600 if row != "C" else 1300), "C has two modes, one of them with kernels for statistics"


def test_constants_of_several_kernels_are_no_overloads():
    """f5 has three convolutions, each with constants of its own; functions for several types stand side by side."""
    constants_of = [(k, [Chunk(f"constexpr int N = {n};", {"N"})]) for k, n in (("a", 1), ("b", 2))]
    functions = [
        (k, [Chunk(f"int f({t} x) {{ return x; }}", {"f"}, function=True)]) for k, t in (("a", "int"), ("b", "float"))
    ]
    assert not overloads(constants_of, "N") and overloads(functions, "f")


def test_one_function_said_two_ways_is_no_overload():
    """exp is shorter behind a product: kernels of both kinds keep their own, though one has a comment before it."""
    shorter = "// Two instructions.\nfloat f(float x) { return g(x * 1.4f); }"
    texts = {"a": shorter, "b": "float f(float x) { return h(x); }"}
    unnamed = {"a": "int f(int slab) { return slab; }", "b": "int f(int) { return 0; }"}
    for both in (texts, unnamed):
        assert not overloads([(k, [Chunk(text, {"f"}, function=True)]) for k, text in both.items()], "f")


def test_conditions_of_the_compiler_are_no_functions():
    text = "template <int STEP> void f(int (&p)[4], int lane) {\n    if constexpr (STEP < 32) { p[0] = lane; f<STEP * 2>(p, lane); }\n}"
    assert without_unused_parameters([[text]]) == [[text]]


def test_one_function_for_whole_and_cut_tiles_is_given_what_it_reads():
    body = "            sums[b] += mean[image] - first_channel;"
    text = f"""struct Sums {{
    DEVICE void tile(float (&acc)[BLOCKS][ACCUMULATORS]) {{
        const int first_channel = channel, image = 3;
        constexpr int BATCH = 2, VECTOR = RESULTS;
        if (is_whole(ends)) {{
{body}
        }} else {{
{body}
        }}
    }}
}};"""
    assert "count<true>(acc, b, first_channel, image, mask, parts);" in one_branch(text)
    assert "int b, int first_channel, int image, const Mask" in one_branch(text)


def test_functions_that_do_nothing_go_with_their_calls():
    struct = "struct Sums {\n    __device__ __forceinline__ void finish() {}\n};"
    call = "void role() {\n    Sums sums;\n    if constexpr (COUNTED) sums.finish();\n}"
    left = methods_called([Chunk(struct, {"Sums"}), Chunk(call, {"role"}, function=True)])
    assert not any("finish" in c.text for c in left)


def test_what_a_reference_reads_stays():
    struct = "struct Cursor {\n    Place at;\n    void settle() { at = place_of(0); }\n};"
    texts = [struct, "int row(Cursor& c) { return c.at.u[2]; }", "void f() { Cursor now(1); row(now); }"]
    assert without_unread_members([texts])[0][0] == struct


def test_every_variable_of_a_declaration_loses_what_its_constructor_does_not_read():
    struct = "struct Cursor {\n    int tile;\n    DEVICE Cursor(int s, int t) : tile(s) { }\n};"
    made = without_unused_parameters([[struct, "void f() { Cursor ahead(1, 2), now(3, 4); }"]])[0]
    assert "Cursor(int s)" in made[0] and "ahead(1), now(3)" in made[1]


def test_a_text_that_the_compiler_refuses_is_put_plainly(monkeypatch):
    if nvrtc_of_torch() is None:
        pytest.skip("no NVRTC here")
    kernel = "__global__ void f(float* y) {\n    const int unread = 3;\n    y[0] = 2.0f;\n}\n"
    brief_text = device.assembled({"fp32": [("f", kernel)]})[0]["fp32"]
    assert refused(brief_text, "-DSTORED=float") is None
    assert "undefined" in refused("__global__ void f(float* y) { y[0] = missing; }")
    monkeypatch.setattr(device, "_briefly", lambda builds: ({"fp32": "__global__ void f( {}"}, {"f": {0}}))
    code, unread = device.assembled({"fp32": [("f", kernel)]})
    assert refused(code["fp32"], "-DSTORED=float") is None and unread == {}


def test_lambdas_keep_their_braces():
    text = "__global__ void f(const float* p0) {\n    each([&](double n) { count += n; });\n}"
    assert brief(text).count("{ count += n; }") == 1


def test_vectors_of_16_bits_are_stored_as_such():
    """Where one build stores 4 bytes an element and another 2, no text says how many bytes a vector has."""
    store = "void store() { if constexpr (sizeof(whole) == 8) wide(); else plain(); }\n"
    source = lambda element: [  # noqa: E731
        Chunk(f"typedef {element} ELEMENT;", {"ELEMENT"}),
        Chunk("constexpr int VECTOR = 2;", {"VECTOR"}),
        Chunk(store, {"store"}, function=True),
    ]
    assert device._constants([source("float")])["sizeof whole"] == 8
    assert "sizeof whole" not in device._constants([source("float"), source("tf_half")])


def test_what_two_kernels_share_stands_once():
    function = "\n".join(["static int f(int x) {", *(f"    x += {i};" for i in range(9)), "    return x;", "}"])
    text = f"namespace a {{\n{function}\nint k;\n}}\nnamespace b {{\n{function}\nint l;\n}}"
    named, pieces = shared(text)
    assert named == {"F": function} and pieces.count("F") == 2
    assert "\n".join(named.get(p, p) for p in pieces) == text


STUBS = """
#include <cstdio>
#define UNROLL
{constants}
struct Held {{
    int slab, stage;
    void wait(long, int, int) {{ puts("wait"); }}
    void release(int) {{ printf("release %d %d\\n", slab, stage); }}
}};
struct Place {{ int variant; }};
struct Barriers {{ int weights_full[64]; operator int() {{ return 0; }} }};
static long shared_address(int*) {{ return 0; }}
static unsigned long long descriptor(unsigned at, unsigned, unsigned) {{ return at; }}
static void products_begin() {{ puts("begin"); }}
static void products_commit() {{ puts("commit"); }}
template <int LEFT> static void products_wait() {{ printf("wait %d\\n", LEFT); }}
typedef float Accumulators[BLOCKS][ACCUMULATORS];
static Accumulators acc, total;
static void product(float (&d)[ACCUMULATORS], unsigned long long a, unsigned long long b, int again) {{
    printf("product %d %llu %llu %d\\n", (int)(d - acc[0]), a, b, again);
}}
static void promote(float (&d)[ACCUMULATORS], float (&)[ACCUMULATORS]) {{ printf("promote %d\\n", (int)(d - acc[0])); }}
{multiply}
int main() {{
    for (int variant = 0; variant < 4; variant++)
        for (int stage = 0; stage < 2; stage++) {{
            Barriers b;
            Held held{{-1, -1}};
            int slab = 0, turn = 0;
            multiply<0>(acc, total, 5, 9, b, stage, 1, Place{{variant}}, 0, slab, turn, held);
            printf("%d %d %d\\n", slab, turn, held.stage);
        }}
}}
"""


@pytest.mark.parametrize("row", ("f8", "f1"))
def test_strict_products_roll_into_the_same_products(row, tmp_path):
    """Short chains of products, of which some slabs of weights have two: compiled as plain C++ both texts do the same."""
    mode = emit.captured(problem.load(root / "bench" / "models" / f"{row}.py"), True)
    call = next(n for n in mode.cut.graph_module.graph.nodes if n.op == "call_module")
    region = emit.sized(mode.cut.regions[0], call)
    graph = region.text(region.example)
    text = next(s["text"] for s in library.stated(graph, graph)["sources"] if s["entry"] == "transfuse_dense")
    function = next(c.text for c in device.chunks(text) if "multiply" in c.names)
    known = constants("\n".join(c.text for c in device.chunks(text) if not c.kernel))
    said = []
    for multiply in (function, rolled(specialised(function, known))):
        numbers = "\n".join(f"constexpr int {k} = {v};" for k, v in known.items() if k.isupper() and isinstance(v, int))
        plainly = (
            multiply.replace("__device__ __forceinline__", "")
            .replace("Totals&", "Accumulators&")
            .replace("const Sizes&", "int")
        )
        plainly = plainly.replace("REAL (&acc)[BLOCKS][ACCUMULATORS]", "Accumulators& acc")
        (tmp_path / "m.cpp").write_text(STUBS.format(constants=numbers, multiply=plainly))
        subprocess.run(["c++", "-std=c++17", "-w", "-o", tmp_path / "m", tmp_path / "m.cpp"], check=True)
        said.append(subprocess.run([tmp_path / "m"], capture_output=True, text=True, check=True).stdout)
    assert said[0].count("product ") > 50 and said[1] == said[0]


# Formulas ------------------------------------------------------------------------------------------------------------


def test_formulas_are_found_and_hold():
    import random

    chance = random.Random(0)
    h = [chance.randint(3, 500) for _ in range(60)]
    w = [chance.randint(3, 500) for _ in range(60)]
    statement = Statement({"h": h, "w": w})
    cases = {
        "2 * h + 3": [2 * a + 3 for a in h],
        "h * w": [a * b for a, b in zip(h, w)],
        "ceil_div(h * w, 96)": [-(-a * b // 96) for a, b in zip(h, w)],
        "256 * ceil_div(h * w, 64)": [256 * -(-a * b // 64) for a, b in zip(h, w)],
        "17": [17] * 60,
    }
    for text, values in cases.items():
        assert statement.state(values).text == text
    with pytest.raises(Unstated):
        statement.state([chance.randint(0, 10**6) for _ in h])
    small = Statement({"h": [3, 40, 50, 7, 60, 9, 80], "w": [11, 20, 30, 5, 70, 90, 8]})
    assert small.state([512 * min(132, a * b) for a, b in zip(*(v for _, v in small.bases))]).text == (
        "512 * std::min<long long>(132, h * w)"
    )
    blocks, padded = [128 * min(132, a) for a in h], [2 * -(-a // 2) * b for a, b in zip(h, w)]
    assert statement.state(blocks).text == "128 * std::min<long long>(132, h)"
    assert statement.state(padded).text == "2 * w * ceil_div(h, 2)"


def test_where_other_sizes_ask_for_other_kernels_a_program_is_for_the_examples(monkeypatch):
    asked = []

    def programs_of(at, name, fixed):
        asked.append(fixed)
        if len(fixed) < 3:
            raise Unstated("other kernels")
        return "programs"

    monkeypatch.setattr(emit, "programs_of", programs_of)
    names = ("batch", "height", "width")
    at = Sized(None, [Symbol(name, 0, axis, 8, 1) for axis, name in enumerate(names)], [], [], [])
    assert emit.variants(at, "forward") == "programs" and asked == [(), names[1:], names]
