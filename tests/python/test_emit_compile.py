"""The device code of emitted files compiles, and computes what the generators' own text does; no GPU needed."""

import re
import shutil
import subprocess

import pytest
from emitted import BUILDS, SEEDS, builds, compiled, device_part, example, namespace, root

from transfuse import emit, library, problem
from transfuse.emit import device
from transfuse.emit.compiler import refused
from transfuse.emit.launches import Told
from transfuse.emit.rolled import rolled
from transfuse.emit.text import specialised
from transfuse.emit.text.values import constants

NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")


@pytest.mark.parametrize("row", SEEDS)
def test_device_code_compiles(row):
    device = device_part(namespace(example(row))["SOURCE"])
    for build in builds(example(row)):
        assert compiled(device, "sm_90a", BUILDS[build])[1] == ""
    assert compiled(device, "sm_80", BUILDS["fp32"])[1] == ""


@pytest.mark.skipif(NVCC is None, reason="no nvcc here")
def test_host_code_of_several_builds_compiles(tmp_path):
    """Tensor maps and launches included, which the runtime compiler does not read."""
    (tmp_path / "file.cu").write_text(namespace(example("D"))["SOURCE"])
    for build in builds(example("D")):
        command = [
            NVCC,
            "-std=c++17",
            "-arch=sm_90a",
            "-ptx",
            *BUILDS[build],
            "-o",
            tmp_path / "file.ptx",
            tmp_path / "file.cu",
        ]
        subprocess.run(command, check=True)


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


def instructions(ptx: str, kernel: str) -> dict[str, int]:
    """How often each instruction stands in a kernel and the functions it calls."""
    parts = re.split(r"\n(?=(?:\.visible |\.weak )?\.(?:entry|func) )", ptx)
    mine = [p for p in parts if p.startswith(".func") or (".entry" in p.split("(")[0] and kernel in p.split("(")[0])]
    found = re.findall(r"^\s*(?:@!?%p\d+ )?([a-z][\w.:]*)\s", "\n".join(mine), re.M)
    return {word: found.count(word) for word in set(found)}


def work(ptx: str, kernel: str) -> dict[str, int]:
    """Instructions that multiply, move, convert or wait: the rest is which way is gone, and addresses (integers made wider too)."""
    kinds = ("wgmma.", "mbarrier.", "cp.", "bar.", "cvt.", "setmaxnreg.", "fence.", "ld.shared", "st.", "shfl.")
    found = instructions(ptx, kernel).items()
    return {word: n for word, n in found if word.startswith(kinds) and not re.fullmatch(r"cvt\.[su]\d+\.[su]\d+", word)}


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


def test_a_text_that_the_compiler_refuses_is_put_plainly(monkeypatch):
    if reason := library.nvrtc_unavailable():
        pytest.skip(reason)
    kernel = "__global__ void f(float* y) {\n    const int unread = 3;\n    y[0] = 2.0f;\n}\n"
    brief_text = device.assembled({"fp32": [("f", kernel)]})[0]["fp32"]
    assert refused(brief_text, "-DSTORED=float") is None
    assert "undefined" in refused("__global__ void f(float* y) { y[0] = missing; }")
    monkeypatch.setattr(device, "_briefly", lambda builds: ({"fp32": "__global__ void f( {}"}, Told({"f": {0}})))
    code, told = device.assembled({"fp32": [("f", kernel)]})
    assert refused(code["fp32"], "-DSTORED=float") is None and told == Told()


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
            multiply<0>(acc, total, 5, 9, b, stage, 1, 0, Place{{variant}}, 0, slab, turn, held);
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
