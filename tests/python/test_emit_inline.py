"""Device text in which what has a name and is used once stands where it is used; roles as one build leaves them."""

import re

import pytest

from transfuse.emit.chunks import Chunk
from transfuse.emit.said_once import constants_of_file, equal_counts, equal_tables, rows_of_phases, used_once
from transfuse.emit.text import specialised
from transfuse.emit.text.inline import local_constants, numbers, pointers, values
from transfuse.emit.text.jobs import jobs
from transfuse.emit.text.roles import words_as_floats
from transfuse.emit.text.sums import BY_TERMS
from transfuse.emit.text.whole import without_unread_members

ROW_OF = "// Rows.\nDEVICE constexpr int row_of(int outer, int w) { return outer < 1 ? w * 8 : -1; }"


def test_a_value_that_one_place_asks_for_stands_there():
    one, two = (
        "DEVICE void f(int w) {\n    g(row_of(0, w) * 3);\n}",
        "DEVICE void f(int w) {\n    g(row_of(w, w + 1));\n}",
    )
    assert values([[ROW_OF, one]]) == [[None, one.replace("row_of(0, w)", "(0 < 1 ? w * 8 : -1)")]]
    assert values([[ROW_OF, two]])[0][1] == two.replace("row_of(w, w + 1)", "w < 1 ? (w + 1) * 8 : -1")
    twice = [ROW_OF, one, one.replace(" f(", " h(")]
    assert values([twice, [ROW_OF, one]]) == [twice, [ROW_OF, one]], "in every kernel or in none"
    for kept in ("int f(int a) { return a * a; }", "int tf_of(int a) { return a; }"):
        source = [f"DEVICE {kept}", "DEVICE void g(int w) {\n    h(f(w + 1), tf_of(w));\n}"]
        assert values([source]) == [source]


def test_what_a_value_decides_is_decided():
    source = [
        Chunk(ROW_OF, {"row_of"}, function=True),
        Chunk("DEVICE void f(int w) {\n    g(row_of(0, w) * 3);\n}", {"f"}, function=True),
    ]
    used_once([source], {})
    assert [c.text for c in source] == ["DEVICE void f(int w) { g((w * 8) * 3); }"]


def test_constants_of_a_function_by_what_they_are():
    text = "void f() {\n    constexpr int FIRST = 0, SLOTS = N;\n    int slot = FIRST;\n    if (++slot == FIRST + SLOTS) g();\n}"
    assert local_constants(text) == "void f() {\n    int slot = 0;\n    if (++slot == N) g();\n}"
    for kept in ("TILES = 18;\n    g(TILES, TILES);", "A = N / 8, B = A;\n    g(B);"):
        assert (
            local_constants(f"void f() {{\n    constexpr int {kept}\n}}")
            == f"void f() {{\n    constexpr int {kept}\n}}"
        )


def test_pointers_and_numbers_that_one_statement_reads():
    text = "void f() {\n    if (c) {\n        float* to = o.y + at(n, 0);\n        *to = v;\n    }\n}"
    assert pointers(text) == "void f() {\n    if (c) o.y[at(n, 0)] = v;\n}"
    more = text.replace("*to = v;", "*to = v;\n        to[1] = v;")
    assert pointers(more) == more
    late = text.replace("*to = v;", "*to = v;" + "\n        g(0);" * 40 + "\n        g(to);")
    assert pointers(late) == late
    text = "void f() {\n    const int row = w * 8;\n    const float* from = chunk + row * P;\n    g(from);\n}"
    assert "chunk + (w * 8) * P" in numbers(text) and "int row" not in numbers(text)
    again = text.replace("g(from)", "g(from, row)")
    assert numbers(again) == again
    loop = "void f() {\n    const int end = a;\n    while (i < end) a += i++;\n}"
    assert numbers(loop) == loop, "it would be asked for again in every turn"


TRANSPOSE = """void transpose(const unsigned char* shared) {
    const unsigned* in = (const unsigned*)(shared);
    unsigned word[N][C];
    UNROLL for (int f = 0; f < N; f++) UNROLL for (int j = 0; j < C; j++) word[f][j] = in[j];
    UNROLL for (int f = 0; f < N; f++) {
        float v[C];
        UNROLL for (int j = 0; j < C; j++) v[j] = __uint_as_float(word[f][j]);
        put(rounded(v), v + 4, v[0]);
    }
}"""


def test_words_that_are_floats_are_read_as_such():
    found = words_as_floats(TRANSPOSE)
    assert "put(rounded(word[f]), word[f] + 4, word[f][0]);" in found and "unsigned" not in found.partition("\n")[2]
    for other in ("pack(__uint_as_float(word[f][0]), ", "const unsigned* w = word[f];\n        put("):
        halves = TRANSPOSE.replace("put(", other)
        assert words_as_floats(halves) == halves


def test_builds_say_it_alike_or_not_at_all():
    """16 bits have words of two elements: both builds are to stay one text."""
    other = TRANSPOSE.replace("put(", "pack(__uint_as_float(word[f][0]), ")
    sources = [[Chunk(text, {"transpose"}, function=True)] for text in (TRANSPOSE, other)]
    used_once(sources, {})
    assert [c.text for source in sources for c in source] == [TRANSPOSE, other]


def test_references_that_nobody_reads_go_with_their_constructor():
    text = (
        "struct F {\n    const float* t;\n    const O& o;\n    DEVICE F(const float* a, const O& g) : t(a), o(g) {}\n"
    )
    text += "    DEVICE float f() { return *t%s; }\n};"
    assert without_unread_members([[text % ""]])[0][0] == (text % "").replace("\n    const O& o;", "").replace(
        ", o(g)", ""
    )
    assert without_unread_members([[text % " + o.x"]])[0][0] == text % " + o.x"


def test_numbers_that_tables_repeat():
    source = [Chunk("__constant__ int slab_firsts[] = {0, 6}, slab_counts[] = {2, 2};", {"slab_counts"}),
              Chunk("int slab_count(int variant) { return slab_counts[variant]; }", {"slab_count"}, function=True)]  # fmt: skip
    equal_counts([source])
    assert source[1].text == "int slab_count(int variant) { return 2; }" and "slab_counts" not in source[0].text
    for codes, kept in (("0, 256, -1", False), ("0, 257", True)):
        source = [Chunk(f"__constant__ int phase_codes[3] = {{{codes}}};", {"phase_codes"}),
                  Chunk("void f() { g(w + (code & 255) + 1); }", {"f"}, function=True)]  # fmt: skip
        rows_of_phases([source])
        assert ("code & 255" in source[1].text) is kept
    tables = "\n".join(f"__device__ const double tf_table_{i}[] = {{1.0, {v}}};" for i, v in ((1, 0), (2, 0), (3, 5)))
    text = equal_tables(f"// tables\n{tables}\nvoid f() {{ g(tf_table_1, tf_table_2, tf_table_3); }}")
    assert "tf_table_2" not in text and "g(tf_table_1, tf_table_1, tf_table_3)" in text
    text = "constexpr int OPERAND_TILES = 9, LANES = 4;\n\n__global__ void k() {\n    constexpr int TILES = 9, LANES = %d;\n g(TILES);\n}"
    assert (
        constants_of_file(text % 4).endswith("k() {\n g(OPERAND_TILES);\n}") and constants_of_file(text % 8) == text % 8
    )


@pytest.mark.parametrize("store", ("p2[i5 * width + i6] = a + 1.0;", "p2[i6] = a;"))
def test_sums_of_rows_whose_length_the_call_tells(store):
    text = f"""{BY_TERMS}

__global__ void k() {{
    for (int block = blockIdx.x; block < n; block += gridDim.x) {{
        const int lane = threadIdx.x % 8, slice = threadIdx.x / 8, o3 = block * 8 + lane, o4 = min(o3, count - 1);
        const int i5 = tf_quotient_of(o4, per_width), i6 = o4 - i5 * width;
        const double a = tf_sum_slices<8>(height, tf_shared, [&](int t) {{ return p0[i5 * n2 + t * width + i6]; }});
        if (slice == 0 && o3 < count) {store}
        __syncthreads();
    }}
}}
"""
    found = jobs(text)
    if "i5" not in store:  # a column alone is not the output's number
        assert found == text
        return
    assert "tf_sums<8>(block, count, height, [&](int o, int t) {" in found and "p2[o] = sum + 1.0;" in found
    assert "const int i5 = tf_quotient_of(o, per_width), i6 = o - i5 * width;" in found


@pytest.mark.parametrize("type_", ("double", "float"))
@pytest.mark.parametrize("indices", ("", "            const int i3 = i1 * 24 + r1;\n"))
def test_products_with_sums_over_slots_go_slot_by_slot(type_, indices):
    """Loads in a loop whose length only the call tells would wait for one another, product by product."""
    head = f"__global__ void k(const {type_}* p0, const float* p1, float* p2, int slots, int n) {{\n"
    at = "i3" if indices else "r1"
    text = f"""{head}    const int i1 = threadIdx.x;
    double a1 = 0.0;
#pragma unroll 4
        for (int r1 = 0; r1 < 24; ++r1) {{
{indices}            double a2 = 0.0;
            for (int r2 = 0; r2 < slots; ++r2) a2 += p0[{at} + r2 * n];
            a1 += a2 * p1[r1];
        }}
    p2[i1] = a1;
}}
"""
    found = jobs(text)
    slot = f"p0[{at} + r2 * n]" if type_ == "double" else f"(double)(p0[{at} + r2 * n])"  # sums are of doubles
    assert (
        "        for (int r2 = 0; r2 < slots; ++r2)\n#pragma unroll 4\n            for (int r1 = 0; r1 < 24; ++r1) "
        in found
    )
    assert f"a1 += {slot} * p1[r1];" in found and "a2" not in found and indices.strip() in found
    several = text.replace("a1 += a2 * p1[r1];", "a1 += a2 * p1[r1];\n            a1 += a2;")
    assert jobs(several) == several  # the sum itself is read as well
    rounded = text.replace("double a1", "float a1")
    assert jobs(rounded) == rounded
    few = text.replace("r2 < slots", "r2 < 2")
    assert jobs(few) == few


def test_elements_of_a_longer_name_are_not_the_array_itself():
    text = """void f() {
    float v6[N][M], v7[N][M];
    UNROLL for (int i = 0; i < N; i++) v6[i][0] = v6_exp[i][0] * 2.0f;
    UNROLL for (int i = 0; i < N; i++) v7[i][0] = tf_sigmoid(v6[i][0]);
    UNROLL for (int i = 0; i < N; i++, to += step) *to = v7[i][0];
}"""
    found = re.sub(r"\s+", " ", specialised(text, {}, True))
    assert "*to = tf_sigmoid(v6_exp[i][0] * 2.0f);" in found and "v7" not in found


def test_elements_of_some_turns_are_computed_where_they_are_read():
    text = """void f() {
    for (int b = 0; b < B; b++) {
        const int FIRST = b * 2, LAST = b * 2 + 2;
        float v3[N][M], share[N], v4[N][M];
        UNROLL for (int i = 0; i < N; i++) UNROLL for (int e = FIRST; e < LAST; e++) v3[i][e] = acc[b][e * 2 + i];
        UNROLL for (int i = 0; i < N; i++) share[i] = kept[b][i];
        UNROLL for (int i = 0; i < N; i++) UNROLL for (int e = FIRST; e < LAST; e++) v4[i][e] = v3[i][e] * share[i];
        UNROLL for (int i = 0; i < N; i++) UNROLL for (int e = FIRST; e < LAST; e++) acc[b][e * 2 + i] = v4[i][e];
    }
}"""
    found = re.sub(r"\s+", " ", specialised(text, {}, True))
    assert "acc[b][e * 2 + i] = acc[b][e * 2 + i] * kept[b][i];" in found and "float" not in found
    other = text.replace("e = FIRST; e < LAST; e++) v4", "e = 0; e < LAST; e++) v4")
    assert "v3[i][e] = acc" in specialised(other, {}, True)
