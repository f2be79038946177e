"""Texts of emitted files without what generators leave: quotients of quotients, numbers in the names of names."""

from transfuse.emit.chunks import Chunk
from transfuse.emit.portable import of_floats
from transfuse.emit.text.formulas import shortest
from transfuse.emit.text.indices import indices
from transfuse.emit.text.machine import bytes_named, machine
from transfuse.emit.text.typed import plainly, said, tree_of
from transfuse.emit.text.words import words
from transfuse.emit.unread import overloads_chosen


KERNEL = """__global__ void __launch_bounds__(256) sums(const float* __restrict__ p0, double* p1, int chunks, int batch, int n9) {{
    __shared__ double tf_warps[8];
{}    double sum = 0.0;
    if (threadIdx.x % 32 == 0) tf_warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {{
        double total33 = 0.0;
        for (int warp = 0; warp < 8; ++warp) total33 += tf_warps[warp];
        p1[(((long long)outer7 * 64) + outer5) + begin + rows] = total33;
    }}
}}"""


def test_numbers_of_blocks_and_threads_are_formulas():
    lists = """    const int q0 = ((int)blockIdx.x / chunks), chunk = ((int)blockIdx.x - q0 * chunks), q4 = q0 / 64, outer5 = q0 - q4 * 64;
    const int q6 = q4 / batch, outer7 = q4 - q6 * batch, place = (int)threadIdx.x, column = place * 4, begin = chunk * 8 + column;
    const float* __restrict__ from = p0 + ((long long)outer7 * n9);
    const int rows = min(begin + 8, n9) - begin;
"""
    found = indices(KERNEL.format(lists))
    assert "const int q = blockIdx.x / chunks, outer1 = q % 64, outer2 = q / 64 % batch, begin = " in found
    assert "begin = blockIdx.x % chunks * 8 + threadIdx.x * 4;" in found and "q6" not in found and "place" not in found
    assert "from = p0 + (long long)outer2 * n9;" in found
    assert found.index("rows = min(begin + 8, n9) - begin;") < found.index("from = ")
    assert "for (int warp = 1; warp < 8; ++warp) sum += tf_warps[warp];" in found  # its own is there already
    assert "p1[(long long)outer2 * 64 + outer1 + begin + rows] = sum;" in found and "total" not in found


def test_what_may_be_negative_stays_signed():
    lists = "    const int outer5 = 0, outer7 = ((int)blockIdx.x - chunks) / 4, begin = 0, rows = 1;\n"
    assert "((int)blockIdx.x - chunks) / 4" in indices(KERNEL.format(lists))


def test_numbers_have_the_fewest_digits_that_tell_them():
    assert shortest("x + 1.0000000000000001e-05") == "x + 1e-05"
    assert shortest("x + 9.99999975e-06f, 0.333333343f") == "x + 1e-05f, 0.33333334f"
    assert shortest("0.33333333333333331") == "0.3333333333333333"
    assert shortest("1.00000012f") == "1.0000001f"  # and no whole number
    assert shortest("1.00000000f") == "1.0f"


def test_roots_by_type():
    known = {"h": "float*", "d": "double*"}
    assert said(plainly(tree_of("tf_rsqrt(h[i] + 1e-5f) * h[i]"), known)) == "rsqrtf(h[i] + 1e-5f) * h[i]"
    assert said(plainly(tree_of("h[i] * tf_rsqrt(d[i])"), known)) == "h[i] * (1.0 / sqrt(d[i]))"
    assert said(plainly(tree_of("tf_rsqrt(u)"), known)) == "tf_rsqrt(u)"
    of_a_type = "(double)tf_round<STORED>(d[i] * h[i])"
    assert said(plainly(tree_of("(double)(tf_round<STORED>((d[i] * h[i])))"), known)) == of_a_type


def test_a_function_of_a_type_is_called():
    """What is rounded to the stored type keeps the function that rounds it."""
    function = Chunk(
        "template <class S, class R> TF_FUNCTION R tf_round(R v) { S s; s = v; return (R)s; }",
        {"tf_round"},
        function=True,
    )
    kernel = Chunk("__global__ void f(double* p) {\n    p[0] = tf_round<STORED>(p[0] * 2.0);\n}", {"f"}, kernel=True)
    assert overloads_chosen([function, kernel]) == [function, kernel]


def test_copies_take_pointers_where_all_callers_have_one():
    text = """DEVICE void copy_bulk(unsigned to, const void* from, Barrier& barrier) {
    asm volatile("copy [%0], [%1], [%2];" ::"r"(to), "l"(from), SHARED(&barrier) : "memory");
}
DEVICE void ask(unsigned char* shared, Barriers& b) {
    copy_bulk(shared_address(shared + slot * (int)sizeof(float)), from, b.full[0]);
}"""
    found = machine(text)
    assert (
        "copy_bulk(void* to, const void* from, Barrier& b)" in found
        and "::SHARED(to), " in found
        and "SHARED(&b)" in found
    )
    assert "copy_bulk(shared + slot * (int)sizeof(float), from, b.full[0]);" in found
    other = text.replace("copy_bulk(shared_address(shared + slot * (int)sizeof(float))", "copy_bulk(address")
    assert machine(other) == other


def test_a_function_is_given_its_pointer_where_it_moves_it():
    text = """DEVICE void transpose(const unsigned char* raw, unsigned char* stage, int piece, int t) {
    stage += piece * PLANE * 16;
    stage[t] = raw[t];
}
DEVICE void load() {
    transpose(shared + RAW_AT, shared + at * 16, piece, t);
}"""
    found = machine(text)
    assert "transpose(const unsigned char* raw, unsigned char* stage, int t) {\n    stage[t]" in found
    assert "transpose(shared + RAW_AT, shared + at * 16 + piece * PLANE * 16, t);" in found
    assert machine(text.replace("at * 16, piece", "at * 16, a + b")).count("stage +=") == 1  # no simple name


def test_one_row_of_accumulators():
    text = "constexpr int BLOCKS = 1, ACCUMULATORS = 72;\n    float acc[BLOCKS][ACCUMULATORS];\n    product(acc[0], a, b);\n"
    assert machine(text) == "constexpr int ACCUMULATORS = 72;\n    float acc[ACCUMULATORS];\n    product(acc, a, b);\n"
    several = text.replace("BLOCKS = 1", "BLOCKS = 2")
    assert machine(several) == several


def test_a_product_that_is_always_added_has_no_predicate():
    product = r"""DEVICE void product(float (&d)[4], unsigned long long a, unsigned long long b) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\nwgmma.m64n8k8 {"
        "%0,%1,%2,%3}, %4, %5, p, 1, 1;\n}"
        : FOUR(0) : "l"(a), "l"(b), "r"(1));
}"""
    found = machine(product)
    assert 'asm volatile("wgmma.m64n8k8 {"' in found and '%4, %5, 1, 1, 1;"' in found and '"l"(b));' in found
    chosen = product.replace('"r"(1)', '"r"(accumulate)')
    assert machine(chosen) == chosen


def test_bytes_of_a_box_by_name():
    text = "constexpr int LANES = 4, PIXELS = 16, RAW_BYTES = 256;\nbarrier_expect(b.full[slot], LANES * PIXELS * (int)sizeof(float));"
    assert bytes_named(text) == "constexpr int RAW_BYTES = 256;\nbarrier_expect(b.full[slot], RAW_BYTES);"
    padded = text.replace("256", "320")
    assert bytes_named(padded) == padded


def test_vectors_of_floats_have_a_type():
    text = """// N elements.
template <class S, int N> struct alignas(sizeof(S) * N) tf_vector { S lane[N]; };
const auto pack = *(const tf_vector<float, 4>*)(from + at);
part[lane] = (float)pack.lane[lane];
"""
    assert words(text) == "const float4 pack = *(const float4*)(from + at);\npart[lane] = (&pack.x)[lane];\n"
    stored = text.replace("<float, 4>", "<STORED, 4>")
    assert words(stored) == stored


def test_the_portable_kernel_of_floats_converts_nothing():
    assert of_floats("double sum = bias ? (float)bias[c] : 0.f;") == "double sum = bias ? bias[c] : 0.f;"
