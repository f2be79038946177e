"""Host code of two modes in one function, and what a long file says in fewer lines."""

from transfuse.emit import both_modes, host
from transfuse.emit.alike import one_text
from transfuse.emit.launches import Kernel, Launch, Parameter, Program, Told
from transfuse.emit.said_once import constants_of_file
from transfuse.emit.text.layout import beside
from transfuse.emit.text.nearer import nearer
from transfuse.emit.text.words import words


def program(launches, workspace, size, outputs, extents=()) -> Program:
    """launches: a kernel's name and what it is given."""
    made = [
        Launch(
            Kernel(name, "", [Parameter("float*", f"p{i}", v) for i, v in enumerate(given)]), "1", 256, 0, 1, True, ""
        )
        for name, *given in launches
    ]
    return Program([], made, list(extents), workspace, size, [("f32", ["batch"])] * outputs, {}, largest=["batch"])


TRAIN = program(
    [("sums", "leaf[0]", "at_1"), ("tail", "at_1", "at_0", "count_1"), ("dense", "at_0", "out[0]")],
    [("at_0", ""), ("at_1", "at_0 + 256")], "at_1 + 512", 2, [("count_1", "(batch + 1) / 2")],
)  # fmt: skip
EVAL = program(
    [("sums", "leaf[0]", "at_0"), ("other", "at_0", "at_1", "count_7"), ("dense", "at_1", "out[0]")],
    [("at_0", ""), ("at_1", "at_0 + 512")], "at_1 + 256", 1, [("count_7", "(batch + 1) / 2")],
)  # fmt: skip
MODES = [
    both_modes.Mode(name, n, f"arch == 90 && aligned(leaf, {n})", p)
    for name, n, p in (("train", 3, TRAIN), ("eval", 5, EVAL))
]


def test_two_modes_are_one_function():
    """What both launch tells which places are the same: eval's first region is train's second."""
    text = both_modes.function(*MODES, ["batch"], False, -2, Told())
    assert text.count("launch(sums,") == text.count("launch(dense,") == 1
    assert "launch(sums, 1, 256, 0, true, stream, leaf[0], at_1);\n    if (training) {\n" in text
    assert (
        "} else {\n        launch(other, 1, 256, 0, true, stream, at_1, at_0, count_1);\n    }\n    launch(dense"
        in text
    )
    assert "out = leaf + (training ? 3 : 5);" in text and "(long long)out[training ? 2 : 1]" in text
    assert "!aligned(leaf, out - leaf)" in text and text.count("count_1 = ") == 1
    assert 'extern "C" long long eval(CALL) { return compute(false, leaf, size, stream, arch, asks); }' in text


def test_modes_whose_places_differ_in_size_stay_apart():
    other = program(
        [(l.kernel.name, *(p.value for p in l.kernel.parameters)) for l in EVAL.launches],
        EVAL.workspace,
        "at_1 + 64",
        1,
        EVAL.extents,
    )
    mode = both_modes.Mode("eval", 5, MODES[1].condition, other)
    assert both_modes.function(MODES[0], mode, ["batch"], False, -2, Told()) is None


def test_what_every_launch_says_is_not_said():
    text = ["    launch(f, 1, 256, 0, true, stream, at_0);", "    launch(g, 1, 256, 0, true, stream);"]
    assert host.always_early(text)[0] == "    launch(f, 1, 256, 0, stream, at_0);"
    assert host.always_early([*text, "launch(h, 1, 256, 0, false, stream);"])[0] == text[0]
    assert "early" not in host.support("launch(g, 1, 256, 0, 1, stream);", True, False)[0]
    assert "bool early" in host.support("launch(g, 1, 256, 0, 1, arch >= 90, stream);", True, False)[0]


def test_tiles_are_counted_where_sizes_are_taken():
    hosts = {
        "fp32": f"{host.SIZES}launch(f, sizes_of(n, 1, h, w, n, 1, ceil_div(h, 2), a, n * a * ceil_div(h, 2)), at_0);"
    }
    found = host.totals_counted(hosts)["fp32"]
    assert "sizes_of(n, 1, h, w, n, 1, ceil_div(h, 2), a), at_0" in found and "s.total = s.tiles[0] * " in found
    parts = {"fp32": hosts["fp32"].replace("n * a", "4 * n * a")}
    assert host.totals_counted(parts) == parts


def test_a_branch_of_one_kernel_is_a_condition():
    def space(name, branch):
        head = f"\nnamespace {name}_ {{\nvoid product_role() {{}}\nvoid g() {{}}\n__global__ void __launch_bounds__(1) {name}(int role) {{"
        return f"{head}\n    if (role) f();\n{branch}    else f();\n}}\n}}\nusing {name}_::{name};"

    text = one_text(space("a", "") + space("b", "    else if (role <= 1) { g(); }\n"))
    assert "\n    else if (PICK(0, 1) && role <= 1) { g(); }\n" in text and "#if" not in text


LOOPS = """    UNROLL for (int a = 0; a < 2; a++)
        UNROLL for (int b = 0; b < 3; b++) {
            f(a, b);
            g();
        }
    UNROLL for (int a = 0; a < 2; a++)
        UNROLL for (int b = 0; b < 3; b++)
            if (a) {
                f(a, b);
            }
    if (x)
        y();
    else z();
"""


def test_loops_stand_beside_one_another():
    text = beside(LOOPS)
    assert text.count("\n") == LOOPS.count("\n") - 3
    assert (
        "b++) {\n        f(a, b);\n        g();\n    }\n" in text
        and "b++)\n        if (a) {\n            f(a, b);\n        }\n" in text
    )
    assert "    if (x) y();\n    else z();\n" in text
    assert text.split() == LOOPS.split()


def test_a_place_that_is_read_once_stands_there():
    role = """
static __device__ void role(unsigned char* shared, int t) {
    const int slot = t / 2;
    const float* table = (const float*)(shared + TABLES_AT);
    const float* chunk = (const float*)(shared + CHUNKS_AT + slot * BYTES);
    f(chunk, table + t, chunk);
}
"""
    assert "    f(chunk, (const float*)(shared + TABLES_AT) + t, chunk);" in nearer(role)
    assert "const float* chunk = " in nearer(role)  # which is read twice
    moving = role.replace("const int slot", "int slot").replace("f(chunk, table + t, chunk)", "slot++, f(chunk + 1)")
    assert "const float* chunk = " in nearer(moving)


def test_functions_have_no_constants_that_the_file_has():
    text = "\n#pragma for_each a, b\nconstexpr int KSTEPS = 3;\n#pragma for_each end\nconstexpr int OPERAND_TILES = 9, LANES = 4;\n"
    text += "template <int RUN> DEVICE void f() {\n    constexpr int TILES = 9, @ = %s;\n g(TILES);\n}"
    assert constants_of_file(text.replace("@", "LANES") % 4).endswith("f() {\n g(OPERAND_TILES);\n}")
    assert "constexpr int TILES" in constants_of_file(
        text.replace("@", "KSTEPS") % 3
    )  # which kernels have, each its own


def test_four_floats_are_taken_at_once():
    text = "    const auto pack = *(const tf_vector<float, 4>*)(p + i);\n"
    text += "    UNROLL for (int l = 0; l < 4; ++l) value[u][l] = (float)pack.lane[l];\n"
    assert "    *(float4*)value[u] = *(const float4*)(p + i);\n" in words(text)
