"""Roles of tensor-core kernels: what one place reads stands there; each pass on a few lines."""

from transfuse.emit.said_once import pairs_once
from transfuse.emit.text import specialised
from transfuse.emit.text.machine import machine
from transfuse.emit.text.nearer import nearer
from transfuse.emit.text.roles import a_buffer_a_chunk
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


TOLD = """struct Operands { const float* r0; float* y0; };
static __device__ void store_role(const Sizes& s, const Operands& operands, int t) {
    operands.y0[t] = operands.r0[t];
}
__global__ void f(const float* r0, float* y0) { store_role(s, Operands{r0, y0}, 1); }
"""


def test_two_operands_of_a_role_are_told_apart():
    found = machine(TOLD)
    assert (
        "Operands" not in found
        and "store_role(const Sizes& s, const float* r0, float* y0, int t) {\n    y0[t] = r0[t];" in found
    )
    assert "store_role(s, r0, y0, 1);" in found
    for other in (
        TOLD.replace("{\n    operands", "{\n    int r0;\n    operands"),
        TOLD.replace("operands.r0", "g(operands)"),
    ):
        assert machine(other) == other


RINGS = """constexpr int BUFFERS = 8, BUFFERS_0 = 4, SETS = %d;
static __device__ void product_role(int warpgroup) {
    // Each warpgroup has buffers of its own. The second is behind the first.
    const int first_slot = warpgroup * BUFFERS_0, end_slot = warpgroup ? BUFFERS : BUFFERS_0;
    int slot = first_slot, chunk_turn = 0;
    for (int tile = blockIdx.x; tile < s.total; tile = next_tile(tile)) {
        UNROLL for (int set = 0; set < SETS; set++) {
            if (chunk_turn > 0) barrier_wait(b.chunk_empty[slot], (chunk_turn - 1) & 1);
            if (++slot == end_slot) { slot = first_slot; chunk_turn++; }
        }
    }
}
static __device__ void store_role() {
    int next[2] = {0, BUFFERS_0}, turns[2] = {0, 0};  // each warpgroup's buffers
    for (int tile = blockIdx.x; tile < s.total; tile = next_tile(tile)) {
        for (int wg = 0; wg < WRITERS; wg++)
            for (int set = 0; set < SETS; set++) {
                const int slot = wg ? next[1] : next[0], turn = wg ? turns[1] : turns[0];
                if (wg) {
                    if (++next[1] == BUFFERS) { next[1] = BUFFERS_0; turns[1]++; }
                } else if (++next[0] == BUFFERS_0) { next[0] = 0; turns[0]++; }
                barrier_wait(b.chunk_full[slot], turn & 1);
            }
    }
}
"""


def test_a_buffer_for_each_chunk_of_a_tile_needs_no_counting():
    found = a_buffer_a_chunk(RINGS % 4)
    assert "first_slot" not in found and "next[" not in found
    assert (
        found.count("const int slot = warpgroup * BUFFERS_0 + set;")
        == found.count("const int slot = wg * BUFFERS_0 + set;")
        == 1
    )
    assert "(int tile = blockIdx.x, chunk_turn = 0; tile < s.total; tile = next_tile(tile), chunk_turn++) {" in found
    assert "(int tile = blockIdx.x, turn = 0; tile < s.total; tile = next_tile(tile), turn++) {" in found
    assert a_buffer_a_chunk(RINGS % 3) == RINGS % 3


def test_floats_that_are_moved_together_have_types_of_their_own():
    text = """#define UNROLL _Pragma("unroll")
// Several at once.
template <class S, int N> struct alignas(sizeof(S) * N) tf_vector { S lane[N]; };
void f() {
    *(tf_vector<float, 2>*)(chunk + (row + 8) * 4) = {{v[0], v[1]}};
    *(tf_vector<float, 4>*)(r + i) = *(const tf_vector<float, 4>*)(from + i);
    const auto pack = *(const tf_vector<float, 4>*)(p0 + i);
    value = (float)pack.lane[l];
}
"""
    found = words(text)
    for line in (
        "*(float2*)(chunk + (row + 8) * 4) = {v[0], v[1]};",
        "*(float4*)(r + i) = *(const float4*)(from + i);",
        "const float4 pack = *(const float4*)(p0 + i);",
        "value = (&pack.x)[l];",
    ):
        assert f"    {line}\n" in found
    assert "tf_vector" not in found and "tf_vector" in words(text.replace("(float)pack.lane[l]", "g(pack)"))
