"""Device text said more briefly: each pass over it, on a few lines."""

import re
import subprocess

import pytest

from transfuse.emit import device
from transfuse.emit.builds import merged, shared
from transfuse.emit.chunks import Chunk, overloads
from transfuse.emit.rolled import rolled
from transfuse.emit.text import specialised
from transfuse.emit.text.brief import brief
from transfuse.emit.text.jobs import jobs
from transfuse.emit.text.sums import BY_TERMS, by_terms
from transfuse.emit.text.sums import FUNCTION as FUNCTION_OF_SUMS
from transfuse.emit.text.tidy import tidy
from transfuse.emit.text.values import constants
from transfuse.emit.text.whole import without_unread_members, without_unused_parameters
from transfuse.emit.unread import methods_called


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
    assert "else tf_sums<8>(block - 1, 32, 9, [&](int o, int t) { return p0[o / 16 * 9 + t * (o % 16)]; }" in text
    assert "tf_shared" not in text and "__shared__ double shared[256];" in text
    assert "[&](int o, double sum) { p1[o] = sum; });" in text and "tf_sum_slices" not in text


def test_elements_of_a_job_behind_others_are_one_call():
    """Also where how many blocks those have is known to the call alone."""
    head = "__global__ void tail(const double* p0, float* p1, float* p2, int count) {\n    if (block < count) {\n"
    first = "        const int t1 = block * 256 + threadIdx.x;\n        if (t1 < 64) p2[t1] = -p0[t1];\n    } else {\n"
    behind = "        const int block2 = block - count, t2 = block2 * 256 + threadIdx.x;\n"
    behind += "        if (t2 < 32) p1[t2] = p0[t2]{};\n    }}\n}}\n"
    text = jobs(head + first + behind.format(""))
    assert "else tf_each(block - count, 32, [&](int i) { p1[i] = p0[i]; });" in text
    assert "if (t2 < 32)" in jobs(head + first + behind.format(" + block2"))  # which block it is matters


def test_builds_in_one_text():
    texts = {
        "fp32": "constexpr int N = 4;\nconstexpr int M = -2;\nfloat* y;\nint a;\nint b;\nf(1);",
        "strict": "constexpr int N = 8;\nconstexpr int M = -2;\nfloat* y;\nint a;\nint c;\nf(1);",
        "half": "constexpr int N = 4;\nconstexpr int M = -3;\nSTORED* y;\nint b;\nf(2);",
    }
    text = merged(texts)
    assert "constexpr int N = PICK(4, 8, 4), M = -PICK(2, 2, 3);" in text and "f(PICK(1, 1, 2));" in text
    for key, flags, size in (("fp32", [], 4), ("strict", ["-DSTRICT"], 4), ("half", ["-DHALF"], 2)):
        stored = {4: "float", 2: "short"}[size]
        command = ["c++", "-E", "-P", "-x", "c++", f"-DSTORED={stored}", *flags, "-"]
        run = subprocess.run(command, input=text, capture_output=True, text=True)
        by_bytes = re.sub(rf"\(sizeof\({stored}\) == 4 \? (\d+) : (\d+)\)", rf"\{1 if size == 4 else 2}", run.stdout)
        by_bytes = re.sub(r"(?<!\w)\((\d+)\)", r"\1", by_bytes)  # a value that is chosen has brackets
        expected = texts[key].replace("STORED", stored).replace(";\nconstexpr int M", ", M")
        assert re.sub(r"\s", "", by_bytes) == re.sub(r"\s", "", expected)


def test_what_only_one_build_declares_stands_in_all():
    """A condition for each constant would be three lines; what others say otherwise, or what rests on more, keeps it."""
    other = "constexpr int N = 4;\nint* y;\nf();"
    own = "#include <algorithm>\nconstexpr int N = 4, L = 3;\nDEVICE int g(int s) { return min(s * 4, 27); }\nint* y;\nf();"
    assert merged({"fp32": own.replace(", L", ";\nconstexpr int L"), "half": other}) == own
    more = "DEVICE int h(int s) {\n    return s;\n}\nDEVICE int g(int s) { return h(s) * N; }"
    for line in (more, "constexpr int y = 3;"):
        kept = merged({"fp32": f"{line}\n{other}", "half": other})
        assert kept == f"#if !defined(HALF)\n{line}\n#endif\n{other}"
    line = "DEVICE int g(int s) { return s * N; }"  # and N is there in both
    assert merged({"fp32": f"{line}\n{other}", "half": other}) == f"{line}\n{other}"


def test_a_pragma_stands_with_its_loop():
    texts = {"fp32": "int a;\n#pragma unroll 1\nfor (;;) f();", "half": "int a;\n#pragma unroll 1\nfor (int i;;) g();"}
    assert merged(texts) == (
        "int a;\n#if defined(HALF)\n#pragma unroll 1\nfor (int i;;) g();\n#else\n#pragma unroll 1\nfor (;;) f();\n#endif"
    )


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


def test_lambdas_keep_their_braces():
    text = "__global__ void f(const float* p0) {\n    each([&](double n) { count += n; });\n}"
    assert brief(text).count("{ count += n; }") == 1


def test_vectors_of_16_bits_are_stored_as_such():
    """Where one build stores 4 bytes an element and another 2, no text says how many bytes a vector has."""
    store = "void store() { if constexpr (sizeof(whole) == 8) wide(); else plain(); }\n"
    source = lambda element: [  # noqa: E731
        Chunk("constexpr int VECTOR = 2;", {"VECTOR"}),
        Chunk(store, {"store"}, function=True),
        Chunk(f"__global__ void f({element}* y0) {{ store(); }}\n", {"f"}, kernel=True),
    ]
    assert device._constants([source("float")])["sizeof whole"] == 8
    assert device._constants([source("tf_half")])["sizeof whole"] == 4
    assert "sizeof whole" not in device._constants([source("float"), source("tf_half")])


def test_what_two_kernels_share_stands_once():
    function = "\n".join(["static int f(int x) {", *(f"    x += {i};" for i in range(9)), "    return x;", "}"])
    text = f"namespace a {{\n{function}\nint k;\n}}\nnamespace b {{\n{function}\nint l;\n}}"
    named, pieces = shared(text)
    assert named == {"F": function} and pieces.count("F") == 2
    assert "\n".join(named.get(p, p) for p in pieces) == text


def test_a_block_has_a_name_where_more_than_two_jobs_ask_for_it():
    first = "    const int block0 = blockIdx.x;\n    if (block0 < 1) {\n        f();\n    } else "
    second = "{\n        const int block5 = block0 - 1;\n        g(block5 * 256 + threadIdx.x);\n    }"
    third = " else {\n        h(block0 - 10);\n    }"
    assert "block0" not in tidy(first + second) and "(blockIdx.x - 1) * 256 + threadIdx.x" in tidy(first + second)
    assert "block0 = blockIdx.x" in tidy(first + "if (block0 < 10) " + second + third)


def test_a_parameter_that_is_called_like_a_loops_counter_stays():
    text = """void f(float* v) {
    for (int b = 0; b < BLOCKS; b++) {
        v[b] = both(v[b], [](float a, float b) { return max(a, b); });
    }
}"""
    assert "v[0] = both(v[0], [](float a, float b) { return max(a, b); });" in specialised(text, {"BLOCKS": 1})


def test_members_that_a_struct_itself_does_not_read_stay():
    text = "struct Turns {\n    int begins = 0, later = 0;\n    void f(int turn) { (turn < FEW ? begins : later) |= turn; }\n};"
    assert "int begins = 0, later = 0;" in specialised(text, {"FEW": 8})
