"""One text of several builds: what they say differently is a choice within a line, as far as that takes fewer lines."""

from transfuse.emit.builds import manners, merged, names

HEAD = "#define PICK(tf32, half) (sizeof(STORED) == 4 ? tf32 : half)\n"


def both(tf32: str, half: str) -> str:
    return merged({"fp32": tf32, "half": half}).removeprefix(HEAD)


def function(*lines: str, head: str = "DEVICE void f(int a, int b, float* y)") -> str:
    return "\n".join([f"{head} {{", *(f"    {line}" for line in lines), "}"])


def test_values_that_differ_are_chosen():
    tf32, half = function("g(a, b + 1, 3);", "y[a] = b;"), function("g(a, min(a, b), 4);", "y[a] = b;")
    tf32, half = (
        f"DEVICE void g(int, int, int);\n{text.replace('y[a] = b', 'y[min(a, b)] = b')}" for text in (tf32, half)
    )
    assert "g(a, PICK(b + 1, min(a, b)), PICK(3, 4));" in both(tf32, half)


def test_what_another_build_does_not_know_stands_apart():
    text = both(function("const int c = 2 * a;", "y[c] = b;"), function("y[a] = b;"))
    assert "PICK" not in text and "#if" in text


def test_what_counts_a_loop_is_known_in_it_alone():
    loop = "for (int e = 0; e < 4; e++) { h(e); }"
    text = both(
        function(loop, "y[0] = y[a];"), function(loop, "for (int e = 0; e < 2; e++) {", "    y[e] = y[a];", "}")
    )
    assert "PICK(0, e)" not in text


def test_what_one_build_alone_declares_stands_in_both():
    text = both(
        function("int i = 0, j = 0, k = 0;", "y[i + j + k] = 1;"), function("int i = 0, k = 0;", "y[i + k] = 1;")
    )
    assert "    int i = 0, j = 0, k = 0;" in text and "y[PICK(i + j + k, i + k)]" not in text
    text = both(
        function("int i = 0, j = 0;", "y[i + j] = 1;"), function("int i = 0;", "y[i] = 1;", "int j = 5;", "y[j] = 2;")
    )
    assert "int i = 0, j = 0;\n" in text.split("#else")[-1]  # j is another one there


def test_a_rounding_to_what_is_stored_is_none_in_fp32():
    text = both(function("y[a] = h(y[b]);"), function("y[a] = h(tf_round<STORED>(y[b]));"))
    assert "    y[a] = h(tf_round<STORED>(y[b]));" in text and "#if" not in text
    wide = function("double s = y[b];", "y[a] = h(s);"), function("double s = y[b];", "y[a] = h((float)s);")
    assert "#if" in both(*wide)  # a double would be rounded


def test_names_that_are_numbers_are_those_of_the_first_build():
    tf32 = function("float v1 = y[a], v5_top = v1;", "y[b] = v5_top;")
    half = function("float v2 = y[a], v6_top = v2;", "y[b] = v6_top;")
    assert both(tf32, half) == tf32
    assert names.alike({"fp32": function("y[v1] = v2;"), "half": function("y[v2] = v1;")})["half"] == function(
        "y[v1] = v2;"
    )


def host(*lines: str) -> str:
    return function(*lines, head='extern "C" long long forward(void* const* leaf, long long batch, long long width)')


def test_formulas_of_sizes_and_questions_about_them():
    tf32 = host(
        "const long long at = 2 * batch;",
        "if (width != 32) return -4;",
        "if (64 * batch < 1600) return -3;",
        "return at;",
    )
    half = host(
        "const long long at = 2 * batch, rows = ceil_div(width, 40);",
        "if (width % 16 != 0) return -2;",
        "return at;",
    )
    text = both(*(f"static long long ceil_div(long long a, long long b);\n{t}" for t in (tf32, half)))
    assert "const long long at = 2 * batch, rows = ceil_div(width, 40);" in text
    assert "if (PICK(width, width % 16) != PICK(32, 0)) return -PICK(4, 2);" in text
    assert "if (PICK(1, 0) && 64 * batch < 1600) return -3;" in text


def test_what_is_more_than_a_formula_stays():
    text = host("const long long row = 4 * width, stride[] = {row, batch * row};", "return stride[1];")
    more = host("const long long row = 4 * width, rows = 2 * batch;", "return row * rows;")
    assert both(text, text) == text
    assert (
        "stride[] = {row, batch * row}" in both(text, more) and names.sizes_alike({"a": text, "b": more})["a"] == text
    )


def test_what_a_caller_is_told_is_not_mixed_up():
    text = both(host("if (64 * batch < 1600) return -3;"), host("if (batch >= 1 << 20) return -1;"))
    assert "PICK(3, 1)" not in text


def test_functions_of_a_line_stand_in_all_builds():
    own = "// Twice.\nDEVICE float twice(float v) { return 2 * v; }\n"
    assert both(function("y[a] = b;"), own + function("y[a] = b;")) == own + function("y[a] = b;")
    needs = "DEVICE float twice(float v) { return other(v); }\n"
    more = "constexpr int K = 3;\nDEVICE float other(float v) { y[0] = v;\n    return v;\n}\n"
    assert "#if" in both(function("y[a] = b;"), more + needs + function("y[a] = b;"))


def test_weights_of_16_bits_are_packed_by_a_function():
    kernel = "__global__ void prepare(unsigned char* p) {\n    float v[LANES];\n%s}"
    tf32 = kernel % "    *(uint4*)(p + 16) = rounded(v);\n"
    half = kernel % (
        "    tf_vector<STORED, LANES> whole;\n"
        "    UNROLL for (int j = 0; j < LANES; j++) whole.lane[j] = v[j];\n"
        "    *(tf_vector<STORED, LANES>*)(p + 16) = whole;\n"
    )
    rounded = "DEVICE uint4 rounded(const float* v) { return *(uint4*)v; }\n"
    text = both(rounded + tf32, rounded + half)
    assert "*(uint4*)(p + 16) = PICK(rounded(v), halves(v));" in text and text.count(manners.HALVES) == 1
