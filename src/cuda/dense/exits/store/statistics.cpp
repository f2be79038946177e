#include "cuda/dense/exits/store/statistics.h"

#include <algorithm>
#include <bit>

namespace transfuse::cuda {

namespace {

const std::string lowest = "__int_as_float(0xff800000)";

}  // namespace

std::string Statistics::slot(int stat, const std::string& channel) const {
    return "slots[" + num(stat * epilogue_.channels()) + " + " + channel + "]";
}

void Statistics::begin() {
    if (!epilogue_.stats()) return;
    t.line("constexpr int STAT_ROWS = " + num(std::bit_ceil(static_cast<unsigned>(m_.batch))) + ";");
    t.line("int own_row = 0;");
    t.line(
        "for (int half = STAT_ROWS / 2, step = 1; step < LANES_W && half > 0; step *= 2, half /= 2) own_row += "
        "lane_column & step ? half : 0;");
    t.line("constexpr int OWN_ROWS = STAT_ROWS > LANES_W ? STAT_ROWS / LANES_W : 1;");
    t.line("const bool owns_rows = lane_column < STAT_ROWS;");
    t.line("(void)own_row, (void)owns_rows;");
}

void Statistics::own_rows(const std::string& work) {
    t.unrolled("for (int j = 0; j < OWN_ROWS; j++) {");
    t.line("const int i = own_row + j;");
    t.line("if (!owns_rows || i >= BATCH || !CHANNEL_OK(i)) continue;");
    t.line("const int channel = group * COUT + CHANNEL(i);");
    t.line(work);
    t.line("}");
}

void Statistics::accumulate() {
    for (const Partial& p : epilogue_.partials()) {
        if (!p.reduction.whole) continue;
        chain_.operand(p.reduction.of);  // loads it where the chain has not
        t.line("{");
        if (!chain_.kind(p.reduction.of).c)
            one_channel(p);
        else if (p.reduction.op == Op::var)
            moments(p);
        else if (p.reduction.op == Op::logsumexp)
            exponentials(p);
        else if (!epilogue_.derived(p))
            sum(p);
        t.line("}");
    }
}

void Statistics::sum(const Partial& p) {
    const Op op = p.reduction.op == Op::mean ? Op::sum : p.reduction.op;
    const std::string value = chain_.operand(p.reduction.of);
    t.line("REAL part[STAT_ROWS];");
    t.unrolled("for (int i = 0; i < STAT_ROWS; i++) {");
    t.line("part[i] = " + identity(op) + ";");
    t.line("if (i >= BATCH) continue;");
    t.unrolled("for (int e = 0; e < VECTOR; e++) if (VALID(e)) part[i] = " + combined(op, "part[i]", value) + ";");
    t.line("}");
    t.line("join_lanes<LANES_W, STAT_ROWS / 2>(part, lane_column, [](REAL a, REAL b) { return " +
           combined(op, "a", "b") + "; });");
    const std::string at = slot(p.first_stat, "channel");
    own_rows(p.rest < 0 ? at + " = " + combined(op, at, "part[j]") + ";"
                        : "add_with_rest(" + at + ", " + slot(p.rest, "channel") + ", part[j]);");
}

// Exponentials relative to a pivot that stands in the slot: a value of the channel that no other exceeds by much. It is
// found anew (the largest value so far) at the beginning, and when one does.
void Statistics::exponentials(const Partial& p) {
    const std::string value = chain_.operand(p.reduction.of);
    // Rows of no channel read nothing: behind the last pivot lie sums that other warps write.
    auto read_pivots = [&] {
        t.unrolled("for (int i = 0; i < BATCH; i++) pivot[i] = CHANNEL_OK(i) ? " +
                   slot(p.first_stat, "group * COUT + CHANNEL(i)") + " : (REAL)0;");
    };
    t.line("REAL pivot[BATCH], part[STAT_ROWS];");
    read_pivots();
    t.line("bool exceeds = false;");
    chain_.loops({true, true});
    t.line("exceeds = exceeds || (VALID(e) && CHANNEL_OK(i) && !(" + value + " <= pivot[i] + (REAL)16));");
    t.line("if (__any_sync(~0u, exceeds)) {");
    t.unrolled("for (int i = 0; i < STAT_ROWS; i++) {");
    t.line("part[i] = " + lowest + ";");
    t.line("if (i >= BATCH) continue;");
    t.unrolled("for (int e = 0; e < VECTOR; e++) if (VALID(e)) part[i] = tf_max(part[i], " + value + ");");
    t.line("}");
    t.line("join_lanes<LANES_W, STAT_ROWS / 2>(part, lane_column, [](REAL a, REAL b) { return tf_max(a, b); });");
    const std::string pivot = slot(p.first_stat, "channel"), mass = slot(p.first_stat + 1, "channel");
    t.line("__syncwarp();   // all lanes have read the pivots that are replaced");
    own_rows("const REAL old = " + pivot + ", top = tf_max(old, part[j]); if (top != " + lowest + ") " + mass +
             " *= tf_exp(old - top); " + pivot + " = top;");
    t.line("__syncwarp();");
    read_pivots();
    t.line("}");
    t.unrolled("for (int i = 0; i < STAT_ROWS; i++) {");
    t.line("part[i] = 0.f;");
    t.line("if (i >= BATCH) continue;");
    t.unrolled("for (int e = 0; e < VECTOR; e++) if (VALID(e) && " + value + " != " + lowest + ") part[i] += tf_exp(" +
               value + " - pivot[i]);");
    t.line("}");
    t.line("join_lanes<LANES_W, STAT_ROWS / 2>(part, lane_column, [](REAL a, REAL b) { return a + b; });");
    own_rows(mass + " += part[j];");
    t.line("__syncwarp();");
}

// Counts, sums and squares about a pivot: the mean of the channel's first values of the tile. (About the first one,
// which may lie far from the others, the variance of a short row would be the small difference of large squares.)
void Statistics::moments(const Partial& p) {
    const std::string value = chain_.operand(p.reduction.of), count = slot(p.first_stat, "channel");
    t.line("int valid = count > 0 ? (count < VECTOR ? count : VECTOR) : 0;");
    if (m_.lanes == 32)
        t.line("valid = __reduce_add_sync(~0u, valid);");
    else
        t.line("for (int k = 1; k < LANES_W; k *= 2) valid += __shfl_xor_sync(~0u, valid, k);");
    t.line("REAL pivot[BATCH], part[STAT_ROWS], squares[STAT_ROWS];");
    t.line("if (__any_sync(~0u, " + slot(p.first_stat, "group * COUT + CHANNEL(0)") + " == 0.f && valid > 0)) {");
    t.unrolled("for (int i = 0; i < STAT_ROWS; i++) {");
    t.line("part[i] = 0.f;");
    t.line("if (i >= BATCH) continue;");
    t.unrolled("for (int e = 0; e < VECTOR; e++) if (VALID(e)) part[i] += " + value + ";");
    t.line("}");
    t.line("join_lanes<LANES_W, STAT_ROWS / 2>(part, lane_column, [](REAL a, REAL b) { return a + b; });");
    const std::string sum_rest = slot(p.pivot + 1, "channel"), squares_rest = slot(p.pivot + 2, "channel");
    own_rows("if (" + count + " == 0.f && valid > 0) " + slot(p.pivot, "channel") + " = part[j] / (REAL)valid, " +
             sum_rest + " = " + squares_rest + " = 0.f;");
    t.line("__syncwarp();");
    t.line("}");
    t.line("load_rows(pivot, &" + slot(p.pivot, "group * COUT + CHANNEL(0)") + ");");
    t.unrolled("for (int i = 0; i < STAT_ROWS; i++) {");
    t.line("part[i] = squares[i] = 0.f;");
    t.line("if (i >= BATCH) continue;");
    t.unrolled("for (int e = 0; e < VECTOR; e++) if (VALID(e)) {");
    t.line("const REAL d = " + value + " - pivot[i];");
    t.line("part[i] += d;");
    t.line("squares[i] += d * d;");
    t.line("}");
    t.line("}");
    t.line("join_lanes<LANES_W, STAT_ROWS / 2>(part, lane_column, [](REAL a, REAL b) { return a + b; });");
    t.line("join_lanes<LANES_W, STAT_ROWS / 2>(squares, lane_column, [](REAL a, REAL b) { return a + b; });");
    own_rows(count + " += (REAL)valid; add_with_rest(" + slot(p.first_stat + 1, "channel") + ", " + sum_rest +
             ", part[j]); add_with_rest(" + slot(p.first_stat + 2, "channel") + ", " + squares_rest + ", squares[j]);");
    t.line("__syncwarp();");
}

// One slot, touched by the threads of one row; the others repeat what they do.
void Statistics::one_channel(const Partial& p) {
    const Op op = p.reduction.op, join = op == Op::mean ? Op::sum : op;
    const std::string value = chain_.operand(p.reduction.of), channels = num(epilogue_.channels());
    t.line("if (hb == 0) {");
    t.line("REAL part = " + identity(op) + ";");
    const std::string lanes = "for (int k = 1; k < LANES_W; k *= 2) ";
    if (op == Op::var) {
        t.line("REAL n = 0, squares = 0;");
        t.unrolled("for (int e = 0; e < VECTOR; e++) if (VALID(e)) part += " + value + ", n += 1;");
        t.line(lanes + "part += __shfl_xor_sync(~0u, part, k), n += __shfl_xor_sync(~0u, n, k);");
        t.line("const REAL mean = n > 0 ? part / n : (REAL)0;");
        t.unrolled("for (int e = 0; e < VECTOR; e++) if (VALID(e)) squares += (" + value + " - mean) * (" + value +
                   " - mean);");
        t.line(lanes + "squares += __shfl_xor_sync(~0u, squares, k);");
    } else if (op == Op::logsumexp) {
        t.unrolled("for (int e = 0; e < VECTOR; e++) if (VALID(e)) part = tf_max(part, " + value + ");");
        t.line(lanes + "part = tf_max(part, __shfl_xor_sync(~0u, part, k));");
        t.line("REAL mass = 0.f;");
        t.unrolled("for (int e = 0; e < VECTOR; e++) if (VALID(e) && " + value + " != " + lowest + ") mass += tf_exp(" +
                   value + " - part);");
        t.line(lanes + "mass += __shfl_xor_sync(~0u, mass, k);");
    } else {
        t.unrolled("for (int e = 0; e < VECTOR; e++) if (VALID(e)) part = " + combined(join, "part", value) + ";");
        t.line(lanes + "part = " + combined(join, "part", "__shfl_xor_sync(~0u, part, k)") + ";");
    }
    t.line("if (t == 0) {");
    t.line("REAL* slot_of = slots + " + num(p.first_stat * epilogue_.channels()) + ";");
    if (op == Op::var) {
        t.line("tf_join_moments(slot_of[0], slot_of[" + channels + "], slot_of[2 * " + channels +
               "], n, mean, squares);");
    } else if (op == Op::logsumexp) {
        t.line("const REAL top = tf_max(slot_of[0], part);");
        t.line("if (top != " + lowest + ") slot_of[" + channels + "] = slot_of[" + channels +
               "] * tf_exp(slot_of[0] - top) + mass * tf_exp(part - top);");
        t.line("slot_of[0] = top;");
    } else {
        t.line(p.rest < 0 ? "slot_of[0] = " + combined(join, "slot_of[0]", "part") + ";"
                          : "add_with_rest(slot_of[0], " + slot(p.rest, "0") + ", part);");
    }
    t.line("}");
    t.line("}");
}

void Statistics::flush(const std::string& row) {
    if (!epilogue_.stats()) return;
    const std::string channels = num(epilogue_.channels());
    const bool per_tile = epilogue_.per_tile();
    auto leave = [&](int stat, const std::string& value) {
        t.line("operands.partial[(" + num(stat) + "ll * " + (per_tile ? "s.total" : "gridDim.x") +
               " * STORE_GROUPS + " + row + " * STORE_GROUPS + store_group) * " + channels + " + c] = " + value + ";");
    };
    t.line("barrier_named(2 + store_group, 128);");
    t.line("for (int c = t; c < " + channels + "; c += 128) {");
    for (const Partial& p : epilogue_.partials()) {
        if (!p.reduction.whole) continue;
        const bool rows = chain_.kind(p.reduction.of).c;
        if (p.reduction.op == Op::var && rows) {
            t.line("{");
            t.line("const REAL n = " + slot(p.first_stat, "c") + ", sum = " + slot(p.first_stat + 1, "c") + " + " +
                   slot(p.pivot + 1, "c") + ", pivot = " + slot(p.pivot, "c") + ", share = n > 0 ? sum / n : (REAL)0;");
            leave(p.first_stat, "n");
            leave(p.first_stat + 1, "n > 0 ? pivot + share : (REAL)0");
            leave(p.first_stat + 2, "n > 0 ? tf_max(" + slot(p.first_stat + 2, "c") + " + " + slot(p.pivot + 2, "c") +
                                        " - sum * share, (REAL)0) : (REAL)0");
            for (const Partial& other : epilogue_.partials())
                if (other.reduction.whole && other.reduction.of == p.reduction.of && epilogue_.derived(other))
                    leave(other.first_stat, "n > 0 ? n * pivot + sum : (REAL)0");
            t.line("}");
        } else if (!(rows && epilogue_.derived(p))) {
            for (int j = 0; j < p.stats; ++j)
                leave(p.first_stat + j, p.rest < 0
                                            ? slot(p.first_stat + j, "c")
                                            : "with_rest(" + slot(p.first_stat, "c") + ", " + slot(p.rest, "c") + ")");
        }
    }
    if (per_tile)
        for (const auto& [at, value] : epilogue_.cleared_slots()) t.line(slot(at, "c") + " = " + value + ";");
    t.line("}");
    t.line("barrier_named(2 + store_group, 128);");
}

}  // namespace transfuse::cuda
