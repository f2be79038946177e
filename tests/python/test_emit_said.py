"""Formulas of plain kernels with their indices and values in place, and words for what a file says over and over."""

import subprocess

import pytest

from transfuse.emit.text.alone import alone
from transfuse.emit.text.direct import direct
from transfuse.emit.text.formulas import formulas, quotients
from transfuse.emit.text.once import short, written_out
from transfuse.emit.text.typed import Unread, plainly, said, tree_of
from transfuse.emit.text.words import words

TYPES = {"f": "float*", "d": "double*", "h": "STORED*", "x": "float", "y": "double", "n": "int", "m": "int"}


def plain(text: str, becomes: str | None = None) -> str:
    return said(plainly(tree_of(text), TYPES, becomes))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("(float)((float)f[n] * 2.0f)", "f[n] * 2.0f"),
        ("(double)(y * (double)(float)h[n])", "y * h[n]"),
        ("(double)n / (double)m", "n / (double)m"),  # no quotient of whole numbers
        ("y / (double)n", "y / n"),
        ("(double)(x * x) + y", "x * x + y"),  # rounded to float before it is added
        ("(float)(y * y) * x", "(float)(y * y) * x"),
        ("(double)x * (double)x", "x * (double)x"),  # a product in double
        ("tf_rsqrt((float)h[n])", "rsqrtf((float)h[n])"),  # what is stored is made float by name
        ("tf_rsqrt((float)((float)h[n] + 1e-5f))", "rsqrtf(h[n] + 1e-5f)"),
        ("-(d[n] - (y - x))", "-(d[n] - (y - x))"),
        ("(a && b) || c", "(a && b) || c"),
        ("unknown((double)n) ? (float)z : 0.0f", "unknown((double)n) ? (float)z : 0.0f"),
    ],
)
def test_casts_that_change_nothing_are_gone(text, expected):
    assert plain(text) == expected


def test_what_a_value_becomes_needs_no_cast():
    assert plain("(double)(x * 2.0f)", "double") == "x * 2.0f"
    assert plain("(float)(y * y)", "float") == "y * y"
    assert plain("(double)x", "float") == "(double)x"
    with pytest.raises(Unread):
        tree_of("a = b")


def test_quotients_that_add_up_are_the_number():
    direct = lambda text: said(quotients(tree_of(text)))  # noqa: E731
    assert direct("i / 128 * 128 + (i - i / 128 * 128)") == "i"
    assert direct("i / 128 * 16000 + i % 128 * 125 + r") == "i * 125 + r"
    assert direct("i / 16 / 3 * 432 + i / 16 % 3 * 9") == "i / 48 * 432 + i / 16 % 3 * 9"
    assert direct("i / 432 * 432 + i / 27 % 16 * 27 + i / 9 % 3 * 9 + i / 3 % 3 * 3 + i % 3") == "i"
    assert direct("i / 8 * 8 + j % 8") == "i / 8 * 8 + j % 8"
    for i in range(1000):  # as Python counts
        assert i // 432 * 432 + i // 16 % 3 * 9 + i // 48 % 3 * 3 + i // 144 % 3 == eval(
            direct("i / 432 * 432 + i / 16 % 3 * 9 + i / 48 % 3 * 3 + i / 144 % 3").replace("/", "//")
        )


KERNEL = """__global__ void tail(const float* p0, const double* p1, const STORED* __restrict__ p2, float* p3, int n) {
    if (block < 1) tf_each(block, 512, [&](int i) {
        const int i1 = i / 128, i2 = i - i1 * 128;
        const float v1 = p0[i1 * 128 + i2];
        const double v2 = p1[i2], v3 = (double)v1 * (double)(v2 * (double)(float)p2[i2]);
        p3[i1 * 128 + i2] = v3;
    });
    else tf_each(0, n, [&](int i) {
        const double v1 = p1[i];
        p3[0] = 1.0f;
        p3[i] = v1 + (double)v1;
    });
}"""


def test_an_element_is_one_formula():
    lines = formulas(KERNEL).split("\n")
    assert (
        lines[1].strip()
        == "if (block < 1) tf_each(block, 512, [&](int i) { p3[i] = p0[i] * (p1[i % 128] * p2[i % 128]); });"
    )
    assert lines[3].strip() == "const double v1 = p1[i];"  # what is stored before may be what it reads
    assert lines[5].strip() == "p3[i] = v1 + v1;"


def test_what_a_function_is_given_may_be_named_like_its_parameters():
    function = "TF_FUNCTION void put(int slot, int stage) {\n    at[slot] = stage;\n}"
    caller = "void role(int k, int stage) {\n    put(stage * 2 + 1, k);\n}"
    found = written_out([[function, caller]], [[short(function), None]])[0]
    assert found[0] is None and "at[(stage * 2 + 1)] = k;" in found[1]


SOURCE = """#define UNROLL _Pragma("unroll")
DEVICE void fence_proxy() { asm volatile("fence.proxy.async;" ::: "memory"); }
template <int COUNT> DEVICE void give() { asm volatile("setmaxnreg.dec %0;" ::"n"(COUNT)); }
template <int LEFT> DEVICE void wait() { asm volatile("wait_group %0;" ::"n"(LEFT) : "memory"); }
DEVICE void arrive(int b) {
    asm volatile("arrive [%0];" ::"r"(b) : "memory");
}
DEVICE void commit() { asm volatile("commit;" ::: "memory"); }
__global__ void __launch_bounds__(256) f(const float* __restrict__ p0) {
    fence_proxy();
    give<88>();
    wait<0>();
    wait<1>();
#pragma unroll 4
    for (int i = 0; i < n; ++i) arrive(i);
}
"""


def test_instructions_stand_where_one_place_needs_them():
    found = words(SOURCE)
    assert found.count("asm volatile") == 2  # PTX itself, and one that touches no memory
    for line in (
        '    PTX("fence.proxy.async;");',
        '    asm volatile("setmaxnreg.dec 88;");',
        'template <int LEFT> DEVICE void wait() { PTX("wait_group %0;", "n"(LEFT)); }',
        'DEVICE void arrive(int b) { PTX("arrive [%0];", "r"(b)); }',
        'DEVICE void commit() { PTX("commit;"); }',
        '    _Pragma("unroll 4") for (int i = 0; i < n; ++i) arrive(i);',
        "__global__ void __launch_bounds__(256) f(const float* __restrict__ p0) {",  # of four kernels it has a word
    ):
        assert line in found.split("\n")


def test_kernels_and_their_blocks_have_words():
    kernel = """__global__ void __launch_bounds__(256, 1) f%d(const STORED* __restrict__ p0) {
    for (int block1 = blockIdx.x; block1 < 16; block1 += gridDim.x)
        tf_each(block1, 128, [&](int i) { p1[i] = p0[i]; });
}
"""
    found = words('#define UNROLL _Pragma("unroll")\n' + "".join(kernel % i for i in range(4)))
    assert "#define KERNEL(...) void __launch_bounds__(__VA_ARGS__)" in found
    assert (
        "__global__ KERNEL(256, 1) f3(READ p0) {\n    EACH(block, 16) tf_each(block, 128, [&](int i) { p1[i] = p0[i]; });\n}"
        in found
    )


ROLES = [
    "constexpr int TILE_BYTES = 2048;",
    "constexpr int SLAB_BYTES = 20480;",
    "struct Operands { float* partial; };",
    "DEVICE int slab_first(int slab) { return min(slab * 10, %d); }",
    "// Asks.\nDEVICE void ask() {\n    const int first = slab_first(slab), bytes = (slab_first(slab + 1) - first) * TILE_BYTES;\n"
    "    barrier_expect(barrier, bytes);\n    if (bytes)\n        copy_bulk(to, packed + first * TILE_BYTES, bytes, barrier);\n"
    "    if (++slab == 25) { slab = 0; step++; }\n}",
    "template <int WG> static __device__ void product_role(const Operands& operands) {\n    operands.partial[0] = %s;\n}",
    "__global__ void k(float* partial) { product_role<0>(Operands{partial}); }",
]


def test_one_kernel_is_told_nothing_it_knows():
    found = alone([text % {3: 250, 5: "1"}[i] if "%" in text else text for i, text in enumerate(ROLES)])
    assert found[2] == found[3] == ""
    assert (
        "barrier_expect(barrier, SLAB_BYTES);\n    copy_bulk(to, packed + slab * 10 * TILE_BYTES, SLAB_BYTES, barrier);"
        in found[4]
    )
    assert found[5] == "static __device__ void product_role(float* partial) {\n    partial[0] = 1;\n}"
    assert "product_role(partial)" in found[6]
    held = "struct Fragments {\n    const Operands& given;\n};"
    assert alone([*ROLES[2:3], held, *ROLES[5:]])[:2] == [ROLES[2], held]
    kept = alone([text % {3: 248, 5: "WG"}[i] if "%" in text else text for i, text in enumerate(ROLES)])
    assert kept[3] and "if (bytes)" in kept[4] and kept[5].startswith("template <int WG>") and "<0>" in kept[6]


def test_formulas_compute_the_same(tmp_path):
    """Both texts, compiled as plain C++."""
    head = """#include <cstdio>
#define __global__
#define __restrict__
typedef float STORED;
static int block;
template <class F> void tf_each(int, int count, F f) { for (int i = 0; i < count; ++i) f(i); }
"""
    main = """int main() {
    static float a[512], c[512], s[512]; static double b[512];
    for (int i = 0; i < 512; ++i) a[i] = 1.f / (i + 3), b[i] = 1.0 / (i + 7), s[i] = i * .1f;
    for (block = 0; block < 2; ++block) { tail(a, b, s, c, 100); for (float v : c) printf("%a ", v); }
}
"""
    said_by = []
    for text in (KERNEL, formulas(KERNEL)):
        (tmp_path / "k.cpp").write_text(head + text + main)
        flags = ["-std=c++17", "-w", "-O1", "-ffp-contract=off"]
        subprocess.run(["c++", *flags, "-o", tmp_path / "k", tmp_path / "k.cpp"], check=True)
        said_by.append(subprocess.run([tmp_path / "k"], capture_output=True, text=True, check=True).stdout)
    assert said_by[0] == said_by[1] and len(set(said_by[0].split())) > 500


def test_numbers_that_are_read_once_need_no_line():
    head = "__global__ void moments(const float* p0, double* p1, int rows, int n) {\n    int slot = 0;\n    const int first = n * 4;\n"
    kernel = """    for (int t = 0; t < rows; ++t) {
        const int at = (first + t) * 32;
        const bool fits = at < n;
        const int place = min(at, n - 4);
        const auto pack = load(p0 + place);
        const int here = slot + 1;
        slot = t;
        if (threadIdx.x == 0) keep(here);
        part[t] = fits ? pack : 0.0f;
    }
    const long long to = (long long)first * rows;
    __syncthreads();
    p1[to] = part[0] * slot;
}
"""
    found = direct(head + kernel)
    for line in (
        "load(p0 + min(at, n - 4));",
        "= at < n ? pack : 0.0f;",
        "p1[(long long)first * rows] = part[0] * slot;",
    ):
        assert line in found
    assert (
        "const int here = slot + 1;\n" in found and "const int at = " in found
    )  # slot is set before, and at is read twice
    role = (head + kernel).replace("moments(", "role(Barriers& b, ")
    assert direct(role) == role


def test_a_function_that_changes_what_it_is_given_stays():
    function = "TF_FUNCTION void put(int slot) {\n    slot += 1;\n    at[slot] = 0;\n}"
    caller = "void role(int k) {\n    put(k);\n}"
    assert written_out([[function, caller]], [[short(function), None]])[0] == [function, caller]


def test_a_function_whose_names_are_taken_stays():
    told = ", ".join(f"int a{i}" for i in range(8))
    given = ", ".join("01234567")
    body = "    static const int tile[] = {1, 2};\n    UNROLL for (int i = 0; i < 2; i++) put(tile[i] + a0);\n"
    function = f"TF_FUNCTION void many({told}) {{\n{body}}}"
    caller = f"void role() {{\n    for (int @ = 0; @ < 3; @++) {{\n        many({given});\n    }}\n}}"
    assert written_out([[function, caller.replace("@", "tile")]], [[short(function), None]])[0][0] == function
    found = written_out([[function, caller.replace("@", "t")]], [[short(function), None]])[0]
    assert found[0] is None and "put(tile[i] + 0);" in found[1]


def test_barriers_by_their_own_names():
    lines = (
        "    Barrier& bar = b.full[slot];\n    expect(bar, 4);\n    copy(to, bar);\n    if (++slot == 2) slot = 0;\n"
    )
    found = alone([f"DEVICE void ask() {{\n{lines}}}"])[0]
    assert "Barrier&" not in found and "expect(b.full[slot], 4);\n    copy(to, b.full[slot]);" in found
    late = f"DEVICE void ask() {{\n{lines}    arrive(bar);\n}}"
    assert alone([late]) == [late]
