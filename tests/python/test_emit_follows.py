"""Long files: numbers that follow from sizes, edges of axes, boxes and what a tile holds are said by formulas; each pass on a few lines."""

import re
import subprocess

from transfuse.emit import follows, tables_named
from transfuse.emit.host import sizes_read
from transfuse.emit.launches import Kernel, Launch, Parameter, Program, Told
from transfuse.emit.text.again import factors_told
from transfuse.emit.text.boxes import boxes
from transfuse.emit.text.cuts import cuts
from transfuse.emit.text.held import one_group


def program(values: dict[str, str], extents: dict[str, str]) -> Program:
    kernel = Kernel("f", "", [Parameter("float*", "p", "out[0]"), *(Parameter("int", n, v) for n, v in values.items())])
    return Program([kernel], [Launch(kernel, "1", 256, 0, 1, False, "")], list(extents.items()), [], "", [], {})


SIZES = {
    "h": "height",
    "w": "width",
    "n3": "3 * height * width",
    "hw": "height * width",
    "last": "last_",
    "c": "count_1",
}
EXTENTS = {"last_": "height - 1", "count_1": "(height + 5) / 6"}
TEXT = """
template <class R> DEVICE void place(float* p, int h, int w, int hw, R rest) {
    p[threadIdx.x * hw + h * w] = 1;
}
__global__ void __launch_bounds__(256) f(float* p, int h, int w, int n3, int hw, int last, int c) {
    const int q = blockIdx.x, k = threadIdx.x, at = q * n3 + k;
    if (k <= last && (k - 1) & 1) p[k * w + q * n3 + q * hw + k] = c;
    place(p, h, w, hw, [&](int i) { p[i] = 0; });
}
"""


def test_what_follows_from_sizes_is_said():
    known = follows.found([program(SIZES, EXTENTS)])
    said = {3: "3 * @1 * @2", 4: "@1 * @2", 5: "@1 - 1", 6: "(@1 + 5) / 6"}
    assert known == {"f": said}
    told = Told()
    found = follows.said(TEXT, known, told)
    assert told.unread == {"f": {3, 4, 5}} and "f(float* p, int h, int w, int c) {" in found
    assert "at = q * 3 * h * w + k;" in found and "if (k < h && (k - 1) & 1)" in found
    assert "p[((q * 3 + q) * h + k) * w + k] = c;" in found
    assert "void place(float* p, int h, int w, R rest)" in found and "place(p, h, w, [&]" in found
    assert "p[threadIdx.x * (h * w) + h * w] = 1;" in found
    # how many blocks a job has is said where it begins and ends, and nowhere else: others divide by it
    bounds = TEXT.replace("p[k * w + q * n3 + q * hw + k] = c;", "p[block < c ? block : block - c] = 0;")
    assert "p[block < (h + 5) / 6 ? block : block - (h + 5) / 6] = 0;" in follows.said(bounds, known, Told())


def test_what_two_launches_give_differently_is_given():
    other = program({**SIZES, "hw": "height * height"}, EXTENTS)
    assert 4 not in follows.found([program(SIZES, EXTENTS), other])["f"]


DENSE = """
DEVICE void store_role(const Sizes& s, const Operands& operands) {
    float* to = operands.y0 + offset_of(operands.ys0, n, group * COUT + CHANNEL(0), d, h, w);
    for (int i = 0; i < 8; i++, to += operands.ys0.c) to[0] = operands.r0[n * operands.rs0.n + i * operands.rs0.c];
}
"""


def strided(strides: str) -> str:
    sizes = "{{batch, 4, 4, 4}, {batch, depth, height, width}, {1, 1, 1, 1}, 1}"
    told = [("Sizes", "s", sizes), ("Strides", "rs0", "{32, 1, 0, 0, 0}"), ("Strides", "ys0", strides)]
    kernel = Kernel("f", DENSE, [Parameter(*p) for p in told])
    made = Program([kernel], [Launch(kernel, "1", 256, 0, 1, False, "")], [], [], "", [], {})
    return follows.strides(made).launches[0].kernel.text


def test_strides_that_follow_from_the_output_are_said():
    text = strided("{32 * depth * height * width, depth * height * width, height * width, width, 1}")
    assert (
        "operands.y0 + (((n * 32 + group * COUT + CHANNEL(0)) * s.out[1] + d) * s.out[2] + h) * s.out[3] + w;" in text
    )
    assert "to += s.out[1] * s.out[2] * s.out[3])" in text and "operands.r0[n * 32 + i * 1]" in text
    last = strided("{32 * depth * height * width, 1, 32 * height * width, 32 * width, 32}")  # channels last
    assert "offset_of(operands.ys0, " in last and "operands.ys0.c" in last


TAIL = """
__global__ void __launch_bounds__(256) train_tail(const double* p0, double* p1, int n) {
    each(n, [&](int o, double sum) { p1[o] = sum; });
}
__global__ void __launch_bounds__(256) eval_tail(const double* p0, float* p1, int n, double scale) {
    each(n, [&](int o, double sum) { p1[o] = sum * scale; });
}
"""


def test_kernels_that_differ_in_a_factor_are_one():
    told = Told()
    found = factors_told(TAIL, told)
    assert found.count("__global__") == 1 and "train_tail(const double* p0, S* p1, int n, double scale)" in found
    assert told.call("train_tail", ["a", "b", "n"]) == ("train_tail<double>", ["a", "b", "n", "1.0"])
    assert told.call("eval_tail", ["a", "b", "n", "1.0 / n"]) == ("train_tail<float>", ["a", "b", "n", "1.0 / n"])
    other = TAIL.replace("sum * scale", "2 * sum * scale")
    assert factors_told(other, Told()) == other


def test_places_axis_by_axis():
    said = follows.places_in_turn
    assert said("p[i + c * (h * w) + y * w + q * (3 * h * w)]") == "p[((q * 3 + c) * h + y) * w + i]"
    assert said("p[q * (3 * h * w) + y * w + i]") == "p[(q * 3 * h + y) * w + i]"
    assert said("p[q * (3 * h * v) + y * w + i]") == "p[q * (3 * h * v) + y * w + i]"  # other strides
    assert said("p[i * w + j * w]") == "p[i * w + j * w]"


RUNS = """// Runs of chunks.
template <int SEGMENTS, int CHUNK> DEVICE void tf_runs(const int* edges, int* begin, int* end, int* segments) {
    begin[0] = 0;
}
__global__ void f(int* p, int height) {
    __shared__ int tf_high[4], tf_tall_begin[5], tf_tall_end[5], tf_tall_segment[2 * 5];
    if (threadIdx.x == 0) {
        tf_high[0] = 0; tf_high[1] = 1; tf_high[2] = height - 1; tf_high[3] = height;
        tf_runs<3, 4>(tf_high, tf_tall_begin, tf_tall_end, tf_tall_segment);
    }
    __syncthreads();
    p[0] = tf_high[tf_tall_segment[2 * tall] + 1] - tf_tall_begin[tall] + tf_tall_segment[2 * tall + 1];
}
__global__ void g(int* p, int depth, int height) {
    __shared__ int tf_deep[4], tf_high[4];
    if (threadIdx.x == 0) {
        tf_deep[0] = 0; tf_deep[1] = 1; tf_deep[2] = depth - 1; tf_deep[3] = depth;
        tf_high[0] = 0; tf_high[1] = 1; tf_high[2] = height - 1; tf_high[3] = height;
    }
    __syncthreads();
    const int *words = p + 1, *edges = axis == 0 ? tf_deep : tf_high;
    p[0] = edges[words[1]];
}
"""


def run_of(edges, chunk):
    """Every run as the generators' kernels find them: begin, end, first segment, how many."""
    count, at, segment, out = len(edges) - 1, 0, 0, []
    for run in range(2 * count - 1):
        until = edges[run // 2 + 1] // chunk * chunk + run % 2 * chunk if run + 2 < 2 * count else edges[count]
        begin, at = at, max(at, min(until, edges[count]))
        while segment + 1 < count and edges[segment + 1] <= begin:
            segment += 1
        beyond = segment
        while beyond < count and edges[beyond] < at:
            beyond += 1
        out.append((begin, at, segment, beyond - segment if begin < at else 0))
    return out


def test_edges_of_an_axis_are_a_formula(tmp_path):
    found = cuts(RUNS)
    assert "tf_runs" not in found and found.count("__syncthreads();") == 1
    assert (
        "__shared__ Run tf_tall[5];\n    if (threadIdx.x < 5) tf_tall[threadIdx.x] = tf_run_of<4>(threadIdx.x, height);"
        in found
    )
    assert "p[0] = tf_edge(tf_tall[tall].segment + 1, height) - tf_tall[tall].begin + tf_tall[tall].segments;" in found
    assert "*words = p + 1, size = axis == 0 ? depth : height;\n    p[0] = tf_edge(words[1], size);" in found
    uneven = RUNS.replace("tf_high[2] = height - 1;", "tf_high[2] = height - 2;", 1)
    assert cuts(uneven) == uneven
    function = found[found.index("DEVICE int tf_edge") : found.index("__global__")]
    (tmp_path / "runs.cpp").write_text(
        "#include <algorithm>\n#include <cstdio>\n#define DEVICE static\nusing std::max, std::min;\n"
        + function
        + "int main() { for (int n = 1; n < 70; ++n) for (int r = 0; r < 5; ++r) { const Run a = tf_run_of<4>(r, n);"
        ' printf("%d %d %d %d\\n", a.begin, a.end, a.segment, a.segments); } }\n'
    )
    subprocess.run(["c++", "-std=c++17", "-o", tmp_path / "runs", tmp_path / "runs.cpp"], check=True)
    said = subprocess.run([tmp_path / "runs"], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
    expected = [run for n in range(1, 70) for run in run_of([0, 1, n - 1, n], 4)]
    assert [tuple(map(int, line.split())) for line in said] == expected


BOXES = """
__global__ void f(float* p, int width, int height) {
    bool in1[3][4];
    UNROLL for (int l = 0; l < 4; ++l) {
        const int i1 = column + l;
        in1[0][l] = i1 >= 1 && i1 < width;
        in1[1][l] = i1 >= 0 && i1 < width;
        in1[2][l] = i1 >= 0 && i1 <= width - 2;
    }
    p[0] = in1[j][0] ? 1 : in1[j][l];
    if ((which == 0 ? i2 >= 1 && i2 < height : which == 1 ? i2 >= 0 && i2 < height : i2 >= 0 && i2 <= height - 2)) p[1] = 2;
}
"""


def test_boxes_of_all_axes_are_asked_alike():
    found = boxes(BOXES)
    assert (
        "bool tf_in_box(int box, int i, int n) { return i >= (box == 0) && i < n - (box == 2); }\n__global__" in found
    )
    assert "    p[0] = tf_in_box(j, column, width) ? 1 : tf_in_box(j, column + l, width);\n" in found
    assert "if (tf_in_box(which, i2, height)) p[1] = 2;" in found and "in1" not in found
    other = BOXES.replace("i2 <= height - 2", "i2 <= height - 3")
    assert boxes(other) == other


HELD = """// What is held.
struct Held {
    int stage = -1;
};
DEVICE void role(Barriers& b) {
    int stage = 0, turn = 0;
    Held held{-1, -1, warpgroup};
    for (int tile = 0; tile < 9; tile++) {
        held.wait(b.full[stage], turn & 1, b);
        UNROLL for (int part = 0; part < 2; part++) {
            tiles = part;
            if (part == 0) products_begin();
            product(acc, tiles);
            if (part == 1) {
                products_commit();
                products_wait<1>();
                held.release(b);
                held.stage = stage;
            }
        }
        if (++stage == STAGES) { stage = 0; turn++; }
        products_wait<0>();
        UNROLL for (int i = 0; i < 4; i++) landed(acc[i]);
        held.release(b);
        store(acc);
    }
}
"""


def test_a_tile_of_one_group_of_products_holds_nothing():
    found = re.sub(r"\n +", " ", one_group(HELD))
    assert "Held" not in found and "held" not in found
    assert "barrier_wait(b.full[stage], turn & 1); products_begin(); UNROLL for" in found
    assert "product(acc, tiles); } products_commit(); products_wait<0>();" in found
    assert "landed(acc[i]); barrier_arrive(b.empty[stage]); if (++stage == STAGES)" in found
    several = HELD.replace("        store(acc);", "        held.wait(b.weights_full[0], 0, b);\n        store(acc);")
    assert one_group(several) == several


def test_sizes_that_no_kernel_reads_are_not_given():
    code = {"fp32": "struct Sizes { int in[4], out[4], tiles[4], total; };\nint f(const Sizes& s) { return s.out[1]; }"}
    hosts = {
        "fp32": "sizes_of(N... n) { return {(int)n...}; }\nlaunch(f, sizes_of(n, 1, h, 2 * w, n, 1, 2 * h, w, 7), at_1);"
    }
    plain, given = sizes_read(code, hosts)
    assert plain["fp32"].startswith("struct Sizes { int out[4], tiles[4], total; };")
    assert given["fp32"].endswith("launch(f, sizes_of(n, 1, 2 * h, w, 7), at_1);")
    read = {"fp32": code["fp32"].replace("s.out[1]", "s.in[1]")}
    assert sizes_read(read, hosts) == (read, hosts)


STORES = """
static __device__ void store_role(const Operands& operands) {
    float v1[BATCH][VECTOR], %s;
    load_rows(%s);
    to[0] = v1[i][e] - %s;
}
"""


def test_rows_of_the_same_tables_have_the_same_names():
    most = STORES % (
        "r1[BATCH], r2[BATCH], r3[BATCH]",
        "r1, table + row);\n    load_rows(r2, image_table + row);\n    load_rows(r3, table + 64 + row",
        "r1[i] - r2[i] * r3[i]",
    )
    fewer = STORES % ("r1[BATCH], r2[BATCH]", "r1, image_table + row);\n    load_rows(r2, table + row", "r1[i] * r2[i]")
    first, second, none = tables_named.alike([most, fewer, "int f();"])
    assert (first, none) == (most, "int f();") and "r1[BATCH], r2[BATCH], r3[BATCH];" in second
    assert (
        "load_rows(r2, image_table + row);\n    load_rows(r3, table + 0 + row);\n    to[0] = v1[i][e] - r2[i] * r3[i];"
        in second
    )
    other = fewer.replace("image_table", "added_table")
    assert tables_named.alike([most, other]) == [most, other]
