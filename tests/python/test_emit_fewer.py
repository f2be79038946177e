"""Long files: what is said in fewer lines."""

import subprocess

import pytest

from transfuse.emit.text import fewer, fewer_names, layout
from transfuse.emit.text.same_elements import same_elements

ROWS = """DEVICE void sums(const float* p, double* to, int begin, int rows, int height, int depth) {
    for (int t = 0; t < rows; t += 32) {
        const int q = t / height, i = t % height, j = begin + q;
        if (i > 0 && j < depth) to[0] += p[t];
    }
}
"""


def test_numbers_that_are_read_once_stand_there_if_that_takes_fewer_lines():
    text = fewer.fewer(ROWS)
    assert "    for (int t = 0; t < rows; t += 32)\n        if (t % height > 0 && begin + t / height < depth)" in text
    several = ROWS.replace("j < depth)", "j < depth && j > q)")
    assert "q = t / height, i = t % height, j = begin + q;" in fewer.fewer(several)


@pytest.mark.parametrize(
    "before, behind",
    [
        ("int n = a;", "n++; to[0] = x;"),  # what it is computed from changes
        ("", "{ const int a = 3; to[a] = x; }"),  # a name means something else there
        ("const int n = to[a];", "to[a] = 1; to[0] = x;"),
    ],
)
def test_numbers_that_would_not_be_the_same_stay(before, behind):
    lines = [
        "static __device__ void f(int* to, int a) {",
        "    " + before,
        "    const int x = (n);" if "n " in before else "    const int x = a + 1;",
    ]
    text = "\n".join([*lines, *("    " + s for s in behind.split(" ; ")), "}"]) + "\n"
    assert "x = " in fewer.fewer(text)


def test_names_in_branches_of_the_preprocessor_stay():
    branches = "#if PICK(1, 0)\n    const int x = a;\n#else\n    const int x = a + 1;\n#endif\n"
    text = f"DEVICE void f(int* to, int a) {{\n{branches}    to[x] = 0;\n}}\n"
    assert fewer.fewer(text) == text


def test_instructions_that_follow_one_another_are_one():
    assert fewer_names.one_instruction('    PTX("a;");\n    PTX("b;");\n') == '    PTX("a;\\n\\tb;");\n'


LOADED = """// Four numbers.
DEVICE void load(float (&r)[8], const float* from) {
    UNROLL for (int i = 0; i < 8; i += 4) *(float4*)(r + i) = *(const float4*)(from + i);
}
DEVICE void g(const float* table, int row) {
    float a[8], b[8];
    load(a, table + row);
    load(b, (const float*)(shared + AT) + row);
}
"""


def test_a_function_of_one_statement_stands_where_it_is_called():
    text = fewer_names.one_line_functions(LOADED)
    assert "*(float4*)(a + i) = *(const float4*)(table + row + i);" in text and "load" not in text
    assert "*(float4*)(b + i) = *(const float4*)((const float*)(shared + AT) + row + i);" in text
    taken = LOADED.replace("table + row);", "table + i);")
    assert fewer_names.one_line_functions(taken) == taken  # another i


JOBS = """    for (int block1 = blockIdx.x; block1 < (batch + 23) / 8; block1 += gridDim.x) {
        if (block1 < (batch + 7) / 8) tf_each(block1, 32 * batch, [&](int i) { p1[i] = p0[i]; });
        else if (block1 < (batch + 15) / 8) tf_each(block1 - (batch + 7) / 8, 32, [&](int i) {
            double a1 = 0.0;
            for (int r1 = 0; r1 < batch; ++r1) a1 += p0[r1 * 32 + i];
            p2[i] = a1 + 1;
        });
        else tf_each(block1 - (batch + 15) / 8, 32, [&](int i) {
            double a2 = 0.0;
            for (int r2 = 0; r2 < batch; ++r2) a2 += p0[r2 * 32 + i];
            p3[i] = -a2;
        });
    }
"""


def test_jobs_for_the_same_elements_are_one():
    assert (
        same_elements(JOBS)
        == """    for (int block1 = blockIdx.x; block1 < (batch + 15) / 8; block1 += gridDim.x) {
        if (block1 == 0) tf_each(0, 32, [&](int i) {
            double a1 = 0.0;
            for (int r1 = 0; r1 < batch; ++r1) a1 += p0[r1 * 32 + i];
            p2[i] = a1 + 1;
            p3[i] = -a1;
        });
        else tf_each(block1 - 1, 32 * batch, [&](int i) { p1[i] = p0[i]; });
    }
"""
    )
    other = JOBS.replace("p0[r2 * 32 + i]", "p1[r2 * 32 + i]")  # another sum, by names of its own
    assert "a2 += p1[r2 * 32 + i];\n" in same_elements(other)
    mixed = JOBS.replace("tf_each(block1, 32 * batch, [&](int i) { p1[i] = p0[i]; });", "tiles(block1);")
    assert same_elements(mixed) == mixed


FIXED = """    for (int block1 = blockIdx.x; block1 < 4; block1 += gridDim.x) {
        if (block1 < 1) tf_each(0, 16, [&](int i) { p2[i] = p0[i]; });
        else if (block1 < 3) tf_sums<8>(block1 - 1, 16, 81, [&](int o, int t) { return p3[t]; }, [&](int o, double sum) { p4[o] = sum; });
        else tf_each(0, 16, [&](int i) { p5[i] = -p0[i]; });
    }
"""


def test_jobs_of_fixed_numbers_of_blocks():
    text = same_elements(FIXED)
    assert "block1 < 3; block1" in text and "else tf_sums<8>(block1 - 1, 16, 81" in text
    assert "if (block1 == 0) tf_each(0, 16, [&](int i) { p2[i] = p0[i]; p5[i] = -p0[i]; });" in text
    alone = "\n".join(line for line in FIXED.replace("< 4", "< 2").split("\n") if "tf_sums" not in line)
    assert (
        same_elements(alone)
        == "    if (blockIdx.x == 0) tf_each(0, 16, [&](int i) { p2[i] = p0[i]; p5[i] = -p0[i]; });\n"
    )


def test_lines_are_broken_late_where_that_takes_fewer():
    first, second = ", ".join(["12345"] * 12), ", ".join(["1234567"] * 18)
    text = f"    static constexpr int a[] = {{{first}}}, b[] = {{{second}}};"
    assert len(layout.wrapped("    ", text.strip(), "")) == 2
    short = f"    static constexpr int a[] = {{{first}}}, b[] = {{{first}}};"
    assert layout.wrapped("    ", short.strip(), "")[0].endswith("},")  # else between two of them


def test_what_a_long_condition_governs_stands_behind_it():
    text = "    if (a\n        && b)\n        count(true);\n    else count(false);"
    assert layout.beside(text) == "    if (a\n        && b) count(true);\n    else count(false);"


def test_a_short_comment_stands_beside_what_it_is_about():
    assert layout.beside("// A place.\nstruct Place { int u; };") == "struct Place { int u; };  // A place."
    for text in (
        "// A place,\n// and more.\nstruct Place {};",
        "// One.\nint a;  // two",
        "// One.\n#define A",
        "// One.\n" + "a" * 150,
    ):
        assert layout.beside(text) == text


def test_brackets_stand_where_others_bind(tmp_path):
    """What is said shortly computes the same."""
    body = """    const int a = x + y, b = x * y, c = x / 3 % 5;
    to[0] = a * 2 - b;
    to[1] = 7 - c + (b - 1) / 2;
"""
    text = f"DEVICE void f(int* to, int x, int y) {{\n{body}}}\n"
    lines = text.split("\n")
    match = fewer.DECLARED.fullmatch(lines[1])
    ways = [new for name in "abc" if (new := fewer._read_there(lines, 1, match, [name]))]
    code = "".join("\n".join(way).replace("DEVICE void f", f"static void f{k}") for k, way in enumerate([lines, *ways]))
    calls = "".join(
        f'f{k}(to, 11, -4); sum = sum * 31 + to[0] * 7 + to[1]; printf("%d ", to[0] * 1000 + to[1]);'
        for k in range(len(ways) + 1)
    )
    (tmp_path / "a.cpp").write_text(
        f"#include <cstdio>\n{code}\nint main() {{ int to[2], sum = 0; {calls} return 0; }}"
    )
    subprocess.run(["c++", "-w", str(tmp_path / "a.cpp"), "-o", str(tmp_path / "a")], check=True)
    found = subprocess.run([str(tmp_path / "a")], check=True, capture_output=True, text=True).stdout.split()
    assert len(ways) == 2 and len(set(found)) == 1


@pytest.mark.parametrize(
    "inner, kept",
    [
        ("a(i);", False),
        ("a(i); b(i);", True),
        ("if (i) { a(i); } else b(i);", False),
        ("if (i) a(i); b(i);", True),
        ("for (int k = 0; k < i; k++) a(k);", False),
        ("run([&] { a(i); b(i); });", False),
        ("a(i);  // and b(i); later", False),
    ],
)
def test_braces_stay_where_a_line_has_several_statements(inner, kept):
    text = f"    for (int i = 0; i < n; i++) {{\n        {inner}\n    }}\n"
    assert (fewer.braces(text) == text) == kept
