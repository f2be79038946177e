"""What a file does to stay short: plain quotients, roles without what they never use."""

from transfuse.emit import quotients
from transfuse.emit.launches import Kernel, Launch, Parameter, Program
from transfuse.emit.text.roles import nothing_held


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
