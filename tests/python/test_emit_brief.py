"""What stands several times in a file, or by a second name, is said once: each pass on a few lines."""

import torch

from transfuse.emit import alike, functions, places, runtime, selected, written_out
from transfuse.emit.chunks import Chunk
from transfuse.emit.text import loops, same, short, specialised
from transfuse.emit.text.pieces import shared_pieces
from transfuse.emit.text.statements import Parser
from transfuse.emit.text.tokens import tokens


def test_names_that_one_block_never_reads_are_gone_though_another_does():
    text = specialised(
        """void f(float* v) {
    for (int c = 0; c < 8; c++) {
        for (int i = 0; i < 4; i++) {
            const int j = c * 4 + i;
            add(v + (c * 4 + i));
        }
        for (int i = 0; i < 4; i++) {
            const int j = c * 4 + i;
            put(v[j], j);
        }
    }
}""",
        {},
    )
    assert text.count("const int j") == 1 and "put(v[j], j);" in text


def test_an_arrays_type_is_its_elements_and_extents():
    source = [
        Chunk("// Sums beside.\ntypedef float Totals[BLOCKS][N];", {"Totals"}),
        Chunk("void multiply(float (&acc)[BLOCKS][N], Totals& total) {}", {"multiply"}, function=True),
        Chunk("void role() {\n    float acc[BLOCKS][N];\n    Totals total;\n}", {"role"}, function=True),
    ]
    texts = [c.text for c in written_out.arrays_by_extents(source)]
    assert texts == [
        "void multiply(float (&acc)[BLOCKS][N], float (&total)[BLOCKS][N]) {}",
        "void role() {\n    float acc[BLOCKS][N], total[BLOCKS][N];\n}",
    ]


COUNT = """
        constexpr int BATCH = 2, VECTOR = RESULTS;
        float v1[BATCH][VECTOR], r1[BATCH], v2[BATCH][VECTOR];
        load_rows(r1, table + channel);
        UNROLL for (int i = 0; i < BATCH; i++) UNROLL for (int e = 0; e < VECTOR; e++) v1[i][e] = acc[0][e * 2 + i] + r1[i];
        UNROLL for (int i = 0; i < BATCH; i++) UNROLL for (int e = 0; e < VECTOR; e++) v2[i][e] = v1[i][e] * v1[i][e];
        UNROLL for (int e = 0; e < VECTOR; e++)
            UNROLL for (int i = 0; i < BATCH; i++)
                if (mask >> e & 1) {
                    parts[i][0] = parts[i][0] + v2[i][e];
                    parts[i][1] = parts[i][1] + v1[i][e];
                }
    }"""
LOAD = """
    template <int N> DEVICE void load_rows(float (&r)[N], const float* from) { UNROLL for (int i = 0; i < N; i++) r[i] = from[i * 8]; }"""


def test_values_are_computed_where_they_are_counted():
    text = written_out.computed_where_counted(written_out.rows_from_tables(LOAD + COUNT))
    assert "load_rows" not in text and "const float r1[] = {table[channel], table[channel + 8]};" in text
    assert "const float v1 = acc[0][e * 2 + i] + r1[i];" in text and "v2" not in text and "VECTOR]" not in text
    assert "parts[i][0] += v1 * v1;" in text and "parts[i][1] += v1;" in text
    for declared in (
        "float r1[BATCH], v1[BATCH][VECTOR], v2[BATCH][VECTOR];",
        "float v1[BATCH][VECTOR], v2[BATCH][VECTOR];\n        float r1[BATCH];",
    ):
        first = COUNT.replace("float v1[BATCH][VECTOR], r1[BATCH], v2[BATCH][VECTOR];", declared)
        assert written_out.computed_where_counted(written_out.rows_from_tables(LOAD + first)) == text
    read_again = COUNT.replace("    }", "        last = v1[0][0];\n    }")
    assert written_out.computed_where_counted(read_again) == read_again


def test_sums_are_written_by_one_function():
    text = written_out.written_at_the_end(
        """
    DEVICE void write(float (&parts)[ROWS][STATS], int channel_at, long long rows) {
        UNROLL for (int k = 0; k < STATS; k++) parts[0][k] += __shfl_xor_sync(~0u, parts[0][k], 1);
        UNROLL for (int k = 0; k < STATS; k++) parts[0][k] += __shfl_xor_sync(~0u, parts[0][k], 2);
        to[rows + channel_at] = parts[0][0];
    }
    DEVICE void finish() { write(sums, channel, gridDim.x * 2); }"""
    )
    assert "write(" not in text and "const long long rows = gridDim.x * 2;" in text
    assert "d < 4; d *= 2) sums[0][k] += __shfl_xor_sync(~0u, sums[0][k], d);" in text
    assert "to[rows + channel] = sums[0][0];" in text


def test_tables_that_are_formulas_are_said_so():
    assert places.formula([0, 36, 72, 288, 324, 360], "part") == "part / 3 * 288 + part % 3 * 36"
    assert places.formula([-4, -4, -3, -3], "slab") == "slab / 2 - 4" and places.formula([3, 5, 7], "i") == "i * 2 + 3"
    assert places.formula([0, 1, 5, 7], "i") is None
    windows = ", ".join(str(d * 288 + h * 36 + w) for d in range(2) for h in range(3) for w in range(5))
    read = "const int* window = windows + part * 5;\nproduct(pixels + window[j]);"
    source = [
        Chunk(f"__constant__ int windows[] = {{{windows}}};", {"windows"}),
        Chunk(read, {"multiply"}, function=True),
    ]
    (said,) = places.places_said(source)
    assert "window = part / 3 * 288 + part % 3 * 36;" in said.text and "pixels + window + j" in said.text
    odd = [Chunk(source[0].text.replace("{0, 1", "{0, 2"), {"windows"}), source[1]]
    assert places.places_said(odd) == odd


KERNEL = """
__global__ void __launch_bounds__(256) {name}_prepare(const float* __restrict__ p0, {type}* {to}, float* p9) {{
    const int block = blockIdx.x;
    if (block < 1) tf_each(0, 16, [&](int i) {{ p9[i] = 0; }});
    else tf_each(block - {first}, 1296, [&](int i) {{
        const int i3 = i / 16, i4 = i - i3 * 16;
        double a = 0.0;
        for (int r = 0; r < 5; ++r)
            for (int q = 0; q < 5; ++q) a += r * q;
        const int i5 = i3 / 3;
        {to}[i3 * 16 + i4] = {value};
    }});
}}"""


def test_pieces_that_stand_twice_are_a_function():
    one = KERNEL.format(name="train", type="float", to="p1", first=1, value="(float)p0[i5]")
    other = KERNEL.format(name="eval", type="double", to="p2", first=2, value="(double)((float)p0[i5])")
    text = shared_pieces(one + "\n" + other)
    assert "template <class T> DEVICE void prepare_1(int block, T* to, const float* __restrict__ from) {" in text
    assert "else prepare_1(block - 1, p1, p0);" in text and "else prepare_1(block - 2, p2, p0);" in text
    assert text.count("i3 * 16 + i4") == 1 and "to[i3 * 16 + i4] = (float)from[i5];" in text
    apart = one + "\n" + other.replace("i3 / 3", "i3 / 5")
    assert shared_pieces(apart) == apart


def test_operand_tiles_of_several_kernels_are_one_function():
    tiles = """ {{
        const int {alias} = block - {first};
        // Operand tiles: [tile].
        const int at = {alias} * 256 + threadIdx.x, row = at % 64;
        const int {segment}, tap = table[segment];
        float v[4];
        v[0] = p0[tap + within];
        *(uint4*)({to} + row) = rounded(v);
    }}"""
    by8 = "segment = row / 8 % 2, within = row / 16 * (16 / 2) + row % (16 / 2)"
    by32 = "segment = row / 32, within = row % 32"
    head = "\n__global__ void __launch_bounds__(256) prepare(const float* p0, unsigned char* p1, unsigned char* p2) {\n"
    text = shared_pieces(
        f"{head}    const int block = blockIdx.x;\n    if (block < 1) f();\n    else if (block < 3)"
        + tiles.format(alias="block3", first=1, segment=by8, to="p1")
        + " else"
        + tiles.format(alias="block4", first=3, segment=by32, to="p2")
        + "\n}"
    )
    assert "template <int RUN> DEVICE void operand_tiles(int block, const float* from, unsigned char* to) {" in text
    assert (
        "    else if (block < 3) operand_tiles<8>(block - 1, p0, p1);\n    else operand_tiles<32>(block - 3, p0, p2);"
        in text
    )
    assert "segment = row / RUN % 2, within = row / (2 * RUN) * RUN + row % RUN, tap" in text


def test_second_names_and_their_blocks_are_gone():
    text = """__global__ void k(float* p0) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    {
        const int which = warp, own = which;
        double mean = 0.0;
        if (which < 3 && own < 3) mean += p0[own];
    }
    float* const own = p0;
    own[lane] = 0;
}
"""
    said = same.blocks_opened(same.aliases_gone(text))
    assert "which" not in said and "    if (warp < 3) mean += p0[warp];" in said and "\n    {\n" not in said
    assert "float* const own = p0;\n    own[lane] = 0;" in said


def test_shared_arrays_are_declared_together_and_filled_by_one_thread():
    text = """    __shared__ int a[2];
    if (threadIdx.x == 0) { a[0] = 0; a[1] = n; }
    __shared__ int b[3];
    if (threadIdx.x == 0) runs(a, b);
    __syncthreads();
"""
    assert same.shared_together(text) == (
        "    __shared__ int a[2], b[3];\n    if (threadIdx.x == 0) {\n        a[0] = 0; a[1] = n;\n        runs(a, b);\n    }\n"
        "    __syncthreads();\n"
    )


def test_a_sum_that_one_thread_has_is_stored_by_it():
    text = """    __shared__ double warps[8], sums[1];
    if (threadIdx.x == 0) {
        double total = 0.0;
        for (int w = 0; w < 8; ++w) total += warps[w];
        sums[0] = total;
    }
    __syncthreads();
    const long long to = chunk * n;
    if (threadIdx.x == 0) p1[to] = sums[0];
"""
    said = same.stored_by_its_thread(text)
    assert "sums" not in said and "__syncthreads" not in said and "        p1[to] = total;\n    }\n" in said
    read = text.replace("if (threadIdx.x == 0) p1", "p2[0] = sums[0];\n    if (threadIdx.x == 0) p1")
    assert same.stored_by_its_thread(read) == read


def test_kernels_that_give_one_thing_different_values_choose_between_them():
    lines = {
        1: ("    UNROLL for (int e = 0; e < N; e++)", "        to[e] = (v[e] - r2[i]) * r3[i];"),
        2: ("    UNROLL for (int e = 0; e < N; e++) to[e] = v[e] * r1[i];",),
    }
    assert alike._chosen(lines, 3) == [
        "    UNROLL for (int e = 0; e < N; e++)",
        "        to[e] = PICK(0, (v[e] - r2[i]) * r3[i], v[e] * r1[i]);",
    ]
    assert alike._chosen({0: ("f(a, b);",), 1: ("f(b);",)}, 2) is None
    assert alike._chosen({0: ("int x = a, y = b;",), 1: ("int x = c;",)}, 2) is None


TRAIN = '''def train_as_written(convolve, x, w, norm_weight, norm_bias):
    """As written."""
    y = convolve(x, w)
    statistics = batch_norm(y, norm_weight, norm_bias, 1e-05)
    pool = torch.ops.aten.avg(statistics[0], [2])
    return [pool, statistics[1], statistics[2]]'''
EVAL = '''def eval_as_written(convolve, x, w, mean, var, norm_weight, norm_bias):
    """As written."""
    y = convolve(x, w)
    batch_norm = torch.ops.aten.batch_norm(y, norm_weight, norm_bias, mean, var, False, 0.1, 1e-05, False)
    return [torch.ops.aten.avg(batch_norm, [2])]'''


def test_both_modes_are_written_by_one_function():
    train, evaluation = functions.by_one_function(TRAIN, EVAL)
    assert "def as_written(convolve, x, w, norm_weight, norm_bias, *running):" in train
    assert "statistics = batch_norm(y, norm_weight, norm_bias, 1e-05, *running)" in train
    assert evaluation == "lambda convolve, *leaves: as_written(convolve, *[leaves[i] for i in (0, 1, 4, 5, 2, 3)])[:1]"
    last = EVAL.replace("x, w, mean, var, norm_weight, norm_bias)", "x, w, norm_weight, norm_bias, mean, var)")
    assert functions.by_one_function(TRAIN, last)[1] == "lambda *leaves: as_written(*leaves)[:1]"
    other = EVAL.replace("avg(batch_norm, [2])", "avg(batch_norm, [3])")
    assert functions.by_one_function(TRAIN, other) == (TRAIN, other)


def test_loops_do_what_they_do_where_a_condition_holds():
    text = """    for (int a = 0; a < 3; ++a) {
        if (!(mask[a] & 1)) continue;
        for (int b = 0; b < 3; ++b) {
            if (!(mask[b] & 2)) continue;
            sum += x[a * 3 + b];
        }
    }
"""
    assert loops.conditions_met(text) == (
        "    for (int a = 0; a < 3; ++a)\n        if (mask[a] & 1)\n            for (int b = 0; b < 3; ++b)\n"
        "                if (mask[b] & 2) sum += x[a * 3 + b];\n"
    )
    two = text.replace("            sum +=", "            count++;\n            sum +=")
    assert "if (!(mask[b] & 2)) continue;" in loops.conditions_met(two)


def test_lanes_and_elements_that_may_be_zero():
    lanes = "".join(f"    part[r][{i}] += v.{lane} * here;\n" for i, lane in enumerate("xyzw"))
    assert "lane < 4; ++lane) part[r][lane] += (&v.x)[lane] * here;\n" in loops.lanes_by_number(lanes)
    swapped = lanes.replace("v.y", "v.z", 1)
    assert loops.lanes_by_number(swapped) == swapped
    zero = "    x[j] = 0.0f;\n    if (i < n) {\n        x[j] = (float)p[i];\n    }\n"
    assert loops.lanes_by_number(zero) == "    x[j] = i < n ? (float)p[i] : 0.0f;\n"


def test_functions_of_a_struct_that_need_no_object_say_so():
    text = "struct Rows {\n    static __device__ __forceinline__ void store(int v) {}\n};"
    assert "    static DEVICE void store(int v) {}" in short.shorter(text)
    assert short.shorter("static __device__ __forceinline__ int f() { return 1; }").startswith("DEVICE int f()")


def test_a_variants_products_are_told_where_the_tile_lies_if_they_ask():
    call = "    multiply<WG>(acc, patch, weights, b, k, stage, warpgroup, at, slab, slab_turn, held);"
    assert selected.chosen(call, True, 2).count("warpgroup, at, slab") == 2
    assert selected.chosen(call, False, 2).count("warpgroup, slab") == 2
    three = selected.chosen(call, False, 3)
    assert "if (at.variant == 1) multiply<WG, 1>(" in three and "else multiply<WG, 2>(" in three


def test_builds_that_nothing_else_falls_to_are_asked_for_at_once():
    given = {
        "falls": True,
        "tensor_cores": True,
        "rounding": ["forward"],
        "others": False,
        "convolve": "",
        "statistics": False,
        "formulas": False,
    }
    given |= {"source": "", "network": False, "scalars": False, "optional": False, "derived": False, "own_rows": False}
    halves, others = (runtime.text(builds=["fp32", *more], **given) for more in (["half"], ["half", "wide"]))
    assert "OTHERWISE" not in halves and 'device, "HALF" if leaves[0].dtype != torch.float32 else "TF32")' in halves
    assert 'OTHERWISE = {-4: "ANY_WIDTH"}' in others and "while need is None or need in OTHERWISE:" in others
    assert "need == -3" not in others
    widened = runtime.text(builds=["fp32", "half", "wide"], **{**given, "own_rows": True, "statistics": True})
    assert "return [*(t.to(given[0].dtype) for t in wide[:results]), *wide[results:]]" in widened
    strict = runtime.text(builds=["fp32", "strict"], **given)
    assert 'device, "TF32" if in_tf32(rest[0], leaves) else "STRICT")' in strict and "strict = " not in strict


def test_pytorch_is_asked_whether_it_rounds():
    """Of two convolutions one rounds where it may: so does the file. Where none does, or TF32 is not allowed, it does not."""
    space: dict = {"torch": torch}
    exec(runtime.IN_TF32, space)
    x, weight = torch.rand(2, 3, 5), torch.rand(3, 4, 3)
    options = [1], [0], [1], True, [0], 1

    def written(convolve, x, weight):
        return [convolve(convolve(x, weight, None, *options), weight.transpose(0, 1), None, *options)]

    assert not space["in_tf32"](written, (x, weight))  # a CPU multiplies in full fp32
    assert space["in_tf32"](written, (x * 0, weight))  # zeros do not tell
    assert torch.backends.cudnn.allow_tf32


ROWS = """    for (int u = 0; u < 4; ++u) {
        const int row = min(t + u, rows - 1), q = row / height, i = row - q * height;
        const int j = begin + q;
        s += p0[column + j * height_x_width + i * %s];
    }
"""


def test_rows_behind_one_another_need_no_quotient():
    found = loops.rows_in_a_line(ROWS % "width")
    assert "const int row = min(t + u, rows - 1);\n" in found
    assert "p0[column + begin * height_x_width + row * width]" in found
    assert loops.rows_in_a_line(ROWS % "pitch") == ROWS % "pitch"  # slices do not follow one another
    asked = ROWS % "width" + "    if (i > 0) f();\n"
    assert loops.rows_in_a_line(asked) == asked


def test_tables_of_blocks_that_have_one_name_are_not_one():
    block = "if (met(%d)) { static constexpr int pixel[] = {%d, %d}; f(pixel[0]); }"
    body = " ".join(block % (k, 7 * k, 9) for k in range(2))
    nodes = Parser(tokens(f"if (at.variant == 0) {{ {body} }} else if (at.variant == 1) {{ {body} }}")).body()
    assert selected.selected(nodes) == nodes
