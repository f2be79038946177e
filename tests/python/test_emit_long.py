"""What a file does to stay short: plain quotients, cells without a table, roles without what they never use."""

from transfuse.emit import cells, quotients
from transfuse.emit.launches import Kernel, Launch, Parameter, Program
from transfuse.emit.text.roles import nothing_held

CELLS = """
    __shared__ double tf_sums[27];
    __shared__ int tf_cells[12];
    if (threadIdx.x == 0) {
        tf_cells[0] = 0;
        tf_cells[1] = 0;
        tf_cells[2] = 1;
        tf_cells[3] = 1;
        tf_cells[4] = n4;
        tf_cells[5] = 1;
        tf_cells[6] = 2;
        tf_cells[7] = n7;
        tf_cells[8] = STEP;
        tf_cells[9] = n9;
        tf_cells[10] = n9;
        tf_cells[11] = 1;
    }
    TF_AFTER();
    const int at32 = ((which31 * 3) + 6);
    const int lo34 = tf_cells[at32];
    const int hi35 = tf_cells[at32 + 1];
    const int step36 = tf_cells[at32 + 2];
    const int count37 = (hi35 - lo34) / step36 + 1;
    const int at39 = (which38 * 3);
    const int lo40 = tf_cells[at39];
    const int hi41 = tf_cells[at39 + 1];
    const int step42 = tf_cells[at39 + 2];
    const int first43 = begin2 <= lo40 ? lo40 : lo40 + (begin2 - lo40 + step42 - 1) / step42 * step42;
"""


def test_cells_are_told_where_they_are_read():
    text = cells.plainly(CELLS.replace("STEP", "1"))
    assert "tf_cells" not in text and "step" not in text and "TF_AFTER();" in text
    assert "lo34 = which31 == 0 ? 2 : n9;" in text and "hi35 = which31 == 0 ? n7 : n9;" in text
    assert "lo40 = which38 == 0 ? 0 : 1;" in text and "hi41 = which38 == 0 ? 0 : n4;" in text
    assert "count37 = (hi35 - lo34) + 1;" in text and "first43 = max(begin2, lo40);" in text


def test_steps_that_differ_are_told_too():
    text = cells.plainly(CELLS.replace("STEP", "3"))
    assert "step36 = which31 == 0 ? 3 : 1;" in text and "/ step36 + 1;" in text
    assert "first43 = max(begin2, lo40);" in text  # of the other axis


def test_an_axis_of_many_cells_keeps_its_table():
    text = CELLS.replace("const int at39 = (which38 * 3);", "const int at39 = at32;")
    more = text.replace("(which31 * 3) + 6", "(which31 * 3) + 0")
    assert cells.plainly(more) == more


def test_rows_that_lie_one_behind_the_other_are_places():
    text = """
        long long at40[4];
        #pragma unroll
        for (int l39 = 0; l39 < 4; ++l39) {
            const int column41 = (column10 + l39);
            const int q42 = tf_quotient_of(column41, per_width);
            const int r43 = (column41 - (q42 * width));
            at40[l39] = ((to38 + ((long long)r43 * 1)) + ((long long)q42 * width));
        }
        tf_store(p1 + (at40[l39]), 1.0);"""
    assert "tf_store(p1 + (to38 + column10 + l39), 1.0);" in cells.whole_places(text)
    apart = text.replace("(long long)q42 * width)", "(long long)q42 * pitch)")
    assert cells.whole_places(apart) == apart


def test_quotients_are_divisions_by_sizes_the_kernel_has():
    text = (
        "void k(int count_1, tf_divisor per_count_1, tf_divisor per_n) {"
        " int q = tf_quotient_of((int)blockIdx.x, per_count_1), r = tf_quotient_of(q, per_n); }"
    )
    given = [
        Parameter("int", "count_1", "count_1"),
        Parameter("tf_divisor", "per_count_1", "divisor(count_1)"),
        Parameter("tf_divisor", "per_n", "divisor(n)"),
    ]
    launch = Launch(Kernel("k", text, given), "1", 256, 0, 1, True, "")
    program = quotients.plainly(Program([], [launch], [], [], "", [], {}))
    kernel = program.launches[0].kernel
    assert "q = ((int)blockIdx.x / count_1)" in kernel.text and "tf_quotient_of(q, per_n)" in kernel.text
    assert [p.name for p in kernel.parameters] == ["count_1", "per_n"]
    assert "per_count_1" not in kernel.text


HELD = "struct Held { int slab = -1; };"
MULTIPLY = """DEVICE void multiply(Barriers& b, int& slab, Held& held) {
    held.wait(b.weights_full[slab], slab_turn & 1, b);
    products_wait<0>();
    held.slab = slab;
    if (part == 1) held.stage = slot;
    held.release(b);
}"""
ROLE = """void product_role() {
    Held held{-1, -1, warpgroup};
    held.wait(b.full[stage], turn & 1, b);
    multiply(b, slab, held);
    products_wait<0>();
    UNROLL for (int i = 0; i < ACCUMULATORS; i++) landed(acc[0][i]);
    held.release(b);
    fragments.rows();
}"""


def test_products_that_are_waited_for_hold_nothing():
    held, multiply, role = nothing_held([HELD, MULTIPLY, ROLE])
    assert held == HELD
    assert "held" not in multiply and "held" not in role and "landed" not in role
    assert "barrier_wait(b.weights_full[slab], slab_turn & 1);" in multiply
    assert "barrier_arrive(b.weights_empty[slab]);\n    if (part == 1) barrier_arrive(b.empty[slot]);" in multiply
    assert "barrier_wait(b.full[stage], turn & 1);\n    multiply(b, slab);\n    fragments.rows();" in role


def test_products_that_are_released_later_are_held():
    later = MULTIPLY.replace("    held.release(b);\n}", "}").replace("products_wait<0>();", "held.release(b);")
    assert nothing_held([HELD, later, ROLE]) == [HELD, later, ROLE]
