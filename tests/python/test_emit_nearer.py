"""Roles of tensor-core kernels: what one place reads stands there; each pass on a few lines."""

from transfuse.emit.said_once import pairs_once
from transfuse.emit.text import specialised
from transfuse.emit.text.machine import machine
from transfuse.emit.text.nearer import nearer
from transfuse.emit.text.words import words

ROLE = """static __device__ void store_role(int t) {
    int px[VECTOR], w_phase[VECTOR];
    UNROLL for (int e = 0; e < VECTOR; e++) {
        const int column = e * 32 + t; px[e] = column / 2, w_phase[e] = column % 2;
    }
    f();
    UNROLL for (int e = 0; e < VECTOR; e++) {
        g(px[e] ^ w_phase[e], w_phase[e]);
    }
}
"""


def test_arrays_that_one_loop_reads_are_numbers_of_it():
    found = nearer(ROLE)
    assert "[e]" not in found and "int px[VECTOR]" not in found
    assert (
        "        const int column = e * 32 + t, px = column / 2, w_phase = column % 2;\n        g(px ^ w_phase, w_phase);"
        in found
    )
    twice = ROLE.replace("    f();\n", "    UNROLL for (int e = 0; e < VECTOR; e++) {\n        f(px[e]);\n    }\n")
    assert nearer(twice) == twice


def test_a_place_that_one_unrolled_loop_reads():
    text = """void f() {
    UNROLL for (int f = 0; f < 4; f++) {
        const int p = min(f * 96 + t, WORDS - 1);
        UNROLL for (int j = 0; j < 8; j++) word[f][j] = raw[j * WORDS + p];
    }
}
"""
    assert (
        "    UNROLL for (int f = 0; f < 4; f++)\n        UNROLL for (int j = 0; j < 8; j++) word[f][j] = raw[j * WORDS + min("
        in nearer(text)
    )
    twice = text.replace("word[f][j]", "word[f][p]")
    assert nearer(twice) == twice


COUNTED = """static __device__ void product_role(int t) {
    // No border cuts it.
    const auto is_whole = [&](const Place& at) {
        return at.u[1] < s.out[1];
    };
    // One by one.
    const auto count = [&](bool WHOLE, float (&acc)[4][36], const Place& at) __attribute__((always_inline)) {
        sum += WHOLE ? acc[0][0] : at.u[0];
    };
    for (int tile = 0; tile < 9; tile++) {
        const Place at = place_of(tile, s);
        if (is_whole(at)) count(true, acc, at);
        else count(false, acc, at);
    }
}
"""


def test_functions_of_a_role_read_what_is_known_where_they_are_called():
    assert (
        nearer(COUNTED)
        == """static __device__ void product_role(int t) {
    for (int tile = 0; tile < 9; tile++) {
        const Place at = place_of(tile, s);
        // One by one.
        const auto count = [&](bool WHOLE) __attribute__((always_inline)) {
            sum += WHOLE ? acc[0][0] : at.u[0];
        };
        // No border cuts it.
        if (at.u[1] < s.out[1])
            count(true);
        else count(false);
    }
}
"""
    )
    others = COUNTED.replace("count(false, acc, at)", "count(false, total, there)").replace(
        "is_whole(at))", "is_whole(last))"
    )
    assert nearer(others) == others


ASK = """DEVICE bool barrier_done(Barrier& b, int parity) { return asked(b, parity); }
DEVICE void ask(unsigned char* shared, Barriers& b) {
    // Boxes in their order: tile, stage of channels, piece of it.
    Place at = place_of(blockIdx.x, s);
    for (int tile = blockIdx.x, box = 0, slot = 0, turn = 0; tile < s.total;) {
        if ((turn > 0 && !barrier_done(b.raw_empty[slot], (turn - 1) & 1))) continue;
        copy_box(shared + slot * 4, at.u[3], box * (PIECE * LANES));
        if (++slot == RAW) { slot = 0; turn++; }
        if (++box == BOXES) { box = 0; tile = next_tile(tile); at = place_of(tile, s); }
    }
}
"""


def test_a_thread_that_asks_for_one_box_a_tile_waits_for_room():
    found = machine(ASK.replace("BOXES", "1"))
    assert "barrier_done" not in found and "box" not in found.replace("copy_box", "")
    assert "for (int tile = blockIdx.x, slot = 0, turn = 0; tile < s.total; tile = next_tile(tile)) {" in found
    assert "if (turn > 0) barrier_wait(b.raw_empty[slot], (turn - 1) & 1);" in found and "at.u[3], 0);" in found
    assert "if (++box == 2) {" in machine(ASK.replace("BOXES", "2"))
    held = ASK.replace("BOXES", "1") + "DEVICE bool waits(Barrier& b) { return barrier_done(b, 0); }\n"
    assert machine(held).count("barrier_done(") == 2


def test_rows_that_all_threads_have_are_not_asked_for():
    role = """static __device__ void store_role(int t) {
    const int row = t / 32 * 8;
    for (int i = 0; i < BATCH; i++, to += 4) {
        if (!(i < 8 && row + i < %d)) continue;
        to[0] = v[i];
    }
}"""
    assert "continue" not in specialised(role % 32, {"BATCH": 8}) and "row + i" in specialised(role % 31, {"BATCH": 8})


def test_tables_of_numbers_that_stand_twice():
    table = (
        "__device__ const int taps[] = {4, 4, 5, 5};\nint f(int i, int half) { return taps[(i * 2 + 1) * 2 + half]; }\n"
    )
    assert (
        pairs_once(table)
        == "__device__ const int taps[] = {4, 5};\nint f(int i, int half) { return taps[i * 2 + 1]; }\n"
    )
    for other in (table.replace("5, 5", "5, 6"), table + "int g() { return taps[0]; }\n"):
        assert pairs_once(other) == other


def test_registers_of_several_kernels_are_chosen_where_they_are_taken():
    text = """#define UNROLL _Pragma("unroll")
template <int COUNT> DEVICE void give() { asm volatile("setmaxnreg.dec %0;" ::"n"(COUNT)); }
void f() { give<PICK(88, 64)>(); }
"""
    assert 'void f() { asm volatile("setmaxnreg.dec %0;" ::"n"(PICK(88, 64))); }' in words(text)
