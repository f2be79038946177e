"""What stands several times in device text is said once: each pass, on a few lines."""

import re
from dataclasses import replace

from transfuse.emit.alike import EACH, _beside, as_compiled, one_signature, one_text, said_for_each
from transfuse.emit.builds import shared
from transfuse.emit.chunks import Chunk
from transfuse.emit.dissolved import dissolved
from transfuse.emit.file import _share
from transfuse.emit.header import _steps
from transfuse.emit.launches import Kernel, Launch, Parameter, Program
from transfuse.emit.said_once import equal_tables
from transfuse.emit.text import once, specialised
from transfuse.emit.text.beginnings import shared_beginnings
from transfuse.emit.text.prune import differences_gone
from transfuse.emit.text.short import stores_written_out
from transfuse.emit.text.told import with_numbers_told
from transfuse.emit.text.values import constants


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_what_every_call_gives_is_said_in_the_function():
    function = "__device__ void f(int a, int b, int& c, int n) { c += a * n; for (int i = b; i < n; i++) c++; n -= 1; s.a = a; }"
    (found,) = with_numbers_told([[function, "void g() { f(0, x, y, 2); f(0, 2, z, 2); }"]])
    assert found[0] == function.replace("c += a * n", "c += 0 * n").replace(
        "s.a = a", "s.a = 0"
    )  # n is written, b differs
    assert with_numbers_told([[function, "void g() { f(0, 1, x, 2); f(1, 2, x, 2); }"]])[0][0] == function


def test_names_of_numbers_and_functions_of_numbers_are_the_numbers():
    known = constants("static __device__ __forceinline__ int blocks(int q) { return max(0, min(4, 6 - q * 4)); }")
    found = plain(
        specialised("void f(int x) { const int many = blocks(0), few = blocks(1); g(many, few, x.many); }", known)
    )
    assert found == "void f(int x) { g(4, 2, x.many); }"


def test_what_is_taken_from_itself_is_nothing():
    text = "const int q = (int)blockIdx.x;\nconst int chunk = ((int)blockIdx.x - q), c = q - q, d = a * q - q, e = min(n, n);"
    assert "chunk = 0, c = 0, d = a * q - q, e = n;" in differences_gone(text)


def test_a_value_and_what_is_added_to_it_are_one_sum():
    text = """void f() {
    float v[2], r[2], u[2];
    for (int i = 0; i < 2; i++) v[i] = a[i] ? x[i] : 0.f;
    load(r);
    for (int i = 0; i < 2; i++) v[i] += r[i];
    for (int i = 0; i < 2; i++) u[i] = y[i];
    change(y);
    for (int i = 0; i < 2; i++) u[i] += r[i];
    g(v, u);
}"""
    found = plain(specialised(text, {}, True))
    assert "load(r); for (int i = 0; i < 2; i++) v[i] = (a[i] ? x[i] : 0.f) + r[i];" in found
    assert "u[i] = y[i]; change(y);" in found and "u[i] += r[i];" in found  # what it is made of has changed


STORES = """constexpr int VECTOR = 2;
// One instruction.
template <int N, class S> DEVICE void store_vector_where(bool taken, S* to, const float (&v)[N]) {
    asm volatile("…");
}
DEVICE void f() { float* to = y; store_vector_where<VECTOR>(%s, to, v2[i]); }
"""


def test_a_vector_that_every_thread_stores_is_one_instruction():
    found = stores_written_out(STORES % "true")
    assert "template" not in found and "__stcs((float2*)to, make_float2(v2[i][0], v2[i][1]));" in found
    assert stores_written_out(STORES % "inside") == STORES % "inside"


TWO_POINTERS = """static __device__ void store_role(float* y) {
    auto ask = [&] { unsigned char* to = ahead; copy(to); };
    float* to = y;
    { half* to = other; }
    store_vector<VECTOR>(to, v);
}
"""


def test_a_vector_has_the_type_of_the_pointer_that_is_seen_there():
    function = once.short(
        "template <int N, class S> DEVICE void store_vector(S* to, const float (&v)[N]) {\n"
        "    tf_vector<S, N> whole;\n    f(to, whole);\n}"
    )
    assert "tf_vector<float, VECTOR> whole;" in once._inlined(TWO_POINTERS, function)
    assert once._inlined(TWO_POINTERS.replace("float* to = y;", ""), function) is None


def test_barriers_that_another_kernel_begins_otherwise_are_its_own():
    begun = {0: ["    for (int i = 0; i < 2; i++) { barrier_init(b.full[i], LOADERS); }"], 1: []}
    assert _beside(begun, ["one", "two"]) == begun[0]  # two never asks for it
    begun[1] = [
        "    for (int i = 0; i < 2; i++) { barrier_init(b.full[i], TRANSPOSERS); barrier_init(b.empty[i], 256); }"
    ]
    said = _beside(begun, ["one", "two"])
    assert said == ["#if PICK(1, 0)  // one", *begun[0], "#else", *begun[1], "#endif"]


ALIKE = """
__global__ void __launch_bounds__(256) train_sum(const float* p0, float* p1, int n4) {
    __shared__ float tf_all[8];
    const int t = threadIdx.x;
    if (t < n4) {
        float sums[4];
        const int first = t * 4, last = first + 3;
%s
        for (int c = 0; c < 4; ++c) {
            p1[first + c] = sums[c] * 2;
        }
    }
}

__global__ void __launch_bounds__(256) eval_sum(const float* p0, int n2, const float* p1, float* p2) {
    __shared__ float tf_all[8];
    const int t = threadIdx.x;
    if (t < n2) {
        float sums[4];
        const int first = t * 4, last = first + 3;
%s
        for (int c = 0; c < 4; ++c) {
            p2[first + c] = sums[c] + p1[c];
        }
    }
}
"""


def test_kernels_that_begin_alike_share_a_function():
    lines = "\n".join(f"        tf_all[{i}] = p0[last];" for i in range(8))
    found = plain(shared_beginnings(ALIKE % (lines, lines)))
    assert "template <class Rest> DEVICE void sum(const float* p0, int n4, Rest rest) {" in found
    assert "for (int c = 0; c < 4; ++c) { rest(sums, first, c); } } }" in found
    assert "sum(p0, n4, [&](float (&sums)[4], int first, int c) { p1[first + c] = sums[c] * 2; }); }" in found
    assert "sum(p0, n2, [&](float (&sums)[4], int first, int c) { p2[first + c] = sums[c] + p1[c]; }); }" in found
    other = lines.replace("p0[last]", "p0[first]", 1)
    assert "Rest" not in shared_beginnings(ALIKE % (lines, other))
    # what follows an `if` of the common lines belongs to it
    chosen = ALIKE.replace("        for (int c", "        if (t < 8) first();\n        else for (int c")
    assert "else" not in shared_beginnings(chosen % (lines, lines)).partition("[&]")[2]


SPACE = """
namespace %(name)s_ {
constexpr int TILE = %(tile)d;
struct Operands { %(told)s };
%(own)sDEVICE void product_role(const Operands& operands) {
    const int n = TILE * %(tile)d;
    g(operands.r%(read)d, n);
}
__global__ void __launch_bounds__(256) %(name)s(const float* r0, const float* r1) { product_role(Operands{r%(read)d}); }
}
using %(name)s_::%(name)s;
"""


def test_kernels_of_tensor_cores_are_one_text():
    first = SPACE % {
        "name": "train_dense",
        "tile": 4,
        "told": "const float* r1;",
        "read": 1,
        "own": "struct Own { int a; };\n",
    }
    second = SPACE % {"name": "eval_dense", "tile": 2, "told": "const float* r0;", "read": 0, "own": ""}
    text = one_text(f"\nint before;{first}\nint between;{second}")
    own = r"\nnamespace %s_ \{\n#define PICK\(train_dense, eval_dense\) %s\n(.*?)\n#undef PICK\n\}"
    compiled = as_compiled(text)
    begin, again = (re.search(own % (n, n), compiled, re.S)[1] for n in ("train_dense", "eval_dense"))
    assert begin == again and "constexpr int TILE = PICK(4, 2);" in begin and "TILE * PICK(4, 2);" in begin
    assert (
        "= PICK(4, 2);\nstruct Operands { const float* r0; };\nstruct Own { int a; };\n" in begin
    )  # what one alone needs does no harm
    assert "struct Operands { const float* r0; };" in begin and "g(operands.r0, n);" in begin
    assert "PICK(train_dense, eval_dense)(" in begin and "using eval_dense_::eval_dense;" in compiled
    assert one_text(f"\n{first}") == f"\n{first}"
    defined, source = said_for_each(text)
    assert source == f"\nint before;\n{EACH}\n\nint between;\n"
    space: dict = {}
    exec(f"{defined}found = {EACH}", space)
    assert space["found"].replace(space["ROLES"], f"{begin}\n") in compiled
    assert said_for_each(first) == ("", first)


STATISTICS = """static __device__ void product_role(int n, float* partial, int t) { partial[t] = n; }
__global__ void __launch_bounds__(256) KERNEL(int n, const float* r1, float* partial) { if (r1) { product_role(n, partial, 1); } }
"""
RESULTS = """static __device__ void product_role(int n, int t) { f(n, t); }
__global__ void __launch_bounds__(256) KERNEL(int n, const float* r0, const float* r1, float* y0) { if (r0) { product_role(n, 2); } }
"""


def test_kernels_of_one_text_are_told_alike():
    (first, second), given = one_signature([STATISTICS, RESULTS])
    assert given == [[0, "0", 1, 2], [0, 1, 2, 3]]
    for text in (first, second):
        assert "KERNEL(int n, const float* r0, const float* r1, float* y0)" in text
        assert "product_role(int n, float* y0, int t)" in text
    assert "y0[t] = n;" in first and "product_role(n, y0, 1);" in first and "product_role(n, y0, 2);" in second


def test_kernels_that_mean_other_things_by_a_name_keep_what_they_are_told():
    other = RESULTS.replace("const float* r1", "const double* r1")
    assert one_signature([STATISTICS, other])[1] == [[0, 1, 2], [0, 1, 2, 3]]


def test_a_run_of_lines_may_hold_conditions_with_heads_of_their_own():
    body = ["#if A", "void f(int x) {", "#else", "void f() {", "#endif", *(f"    g({i});" for i in range(6)), "}"]
    named, _ = shared("\n".join(["int a;", *body, "int b;", *body, "int c;"]))
    assert list(named.values()) == ["\n".join(body)]


def test_what_a_rule_does_to_several_values_is_one_line():
    steps = [{"rule": "sink", "what": f"a reshape sinks below {op}"} for op in ("sub", "exp", "exp")]
    assert _steps([*steps, {"rule": "fold", "what": ""}]) == ["  sink: a reshape sinks below sub, exp", "  fold"]


def test_equal_tables_of_the_file_are_one_and_those_of_a_namespace_its_own():
    table = "__device__ const int tf_table_%d[] = {1, 2};\n"
    space = f"namespace k_ {{\n{table % 4}int f() {{ return tf_table_4[0]; }}\n}}\nusing k_::k;\n"
    text = f"\n{table % 3}int f() {{ return tf_table_3[0]; }}\n{space}{table % 5}int g() {{ return tf_table_5[0]; }}\n"
    assert equal_tables(text) == text.replace(table % 5, "").replace("tf_table_5", "tf_table_3")


def test_tables_that_several_kernels_have_are_the_files():
    kernel = "__global__ void {}() {{\n    static const int first[] = {{0, 1, 2}};\n    use(first);\n}}\n"
    text = equal_tables(kernel.format("f") + kernel.format("g"))
    assert text.count("first[] =") == 1 and text.startswith("__device__ const int first[] = {0, 1, 2};\n")
    other = kernel.format("f") + kernel.format("g").replace("2}", "3}")
    assert equal_tables(other) == other


HELD_BY_ONE = [
    """// Sums of a tile.
template <int WG> struct Fragments {
    const float* table;
    const Sizes& s;
    int column, channel;  // of the lane
    float sums[2] = {};
    DEVICE Fragments(const char* at, const Sizes& size, int t) : table((const float*)(at + 16)), s(size), column(t % 4), channel(t / 4) {}
    DEVICE bool is_inside(int e) {
        return e + column < s.out[3];
    }
    DEVICE void tile(float (&acc)[8]) {
        for (int e = 0; e < 8; e++) if (is_inside(e)) sums[0] += acc[e] + table[channel];
    }
};
""",
    """static __device__ void product_role(char* shared, const Sizes& s, int t) {
    Fragments<WG> fragments(shared, s, t);
    for (int tile = 0; tile < s.total; tile++) {
        float sum[8];
        fragments.tile(sum);
    }
}
""",
]


def test_a_struct_that_one_function_has_one_of_is_dissolved():
    source = [Chunk(HELD_BY_ONE[0], {"Fragments"}), Chunk(HELD_BY_ONE[1], {"product_role"}, function=True)]
    (found,) = dissolved(source)
    assert "    const float* table = (const float*)(shared + 16);\n" in found.text
    assert "    const int column = t % 4, channel = t / 4;  // of the lane\n    float sums[2] = {};\n" in found.text
    assert "    const auto is_inside = [&](int e) {\n        return e + column < s.out[3];\n    };\n" in found.text
    assert "        for (int e = 0; e < 8; e++) if (is_inside(e)) sums[0] += sum[e] + table[channel];\n" in found.text
    twice = Chunk(HELD_BY_ONE[1].replace("product_role", "other"), {"other"}, function=True)
    assert dissolved([*source, twice]) == [*source, twice]
    (found,) = dissolved(
        [source[0], replace(source[1], text=HELD_BY_ONE[1].replace("tile(sum)", "tile(of<2>(sum, 1))"))]
    )
    assert "if (is_inside(e)) sums[0] += of<2>(sum, 1)[e] + table[channel];\n" in found.text
    told = HELD_BY_ONE[0].replace("DEVICE bool is_inside(", "template <bool WHOLE> DEVICE bool is_inside(")
    (found,) = dissolved([Chunk(told.replace("is_inside(e)", "is_inside<true>(e)"), {"Fragments"}), source[1]])
    assert "const auto is_inside = [&](bool WHOLE, int e) __attribute__((always_inline)) {\n" in found.text
    assert "if (is_inside(true, e)) sums[0]" in found.text


def test_kernels_that_differ_in_names_alone_are_one():
    """Values are numbered through a whole program, so that those of train and eval mode have other names."""

    def launched(name, text, kernels):
        kernel = Kernel(
            name, f"__global__ void {name}(float* {text[0]}) {{ {text[1]} }}", [Parameter("float*", text[0], "0")]
        )
        program = Program([kernel], [Launch(kernel, "1", 256, 0, 1, True, "")], [], [], "0", [], {})
        return _share(program, kernels).launches[0].kernel.name

    kernels = {}
    assert launched("train", ("p4", "float v34 = p4[0], r29 = 1; p4[1] = v34 - r29;"), kernels) == "train"
    assert launched("eval", ("p0", "float v7 = p0[0], r8 = 1; p0[1] = v7 - r8;"), kernels) == "train"
    assert launched("other", ("p0", "float v7 = p0[0], r8 = 1; p0[1] = r8 - v7;"), kernels) == "other"
