#include "cuda/dense/exits/store/store_along.h"

#include <algorithm>

#include "cuda/dense/exits/store/store_text.h"
#include "cuda/kernel/expression.h"

namespace transfuse::cuda {

namespace {

constexpr int lanes = 32, warps = 4;

// A run that lies in one row of the output: a thread's columns are 32 apart in memory as well.
bool one_row(const Config& c) { return c.run[0] * c.run[1] * c.run[2] == 1; }

void each(StoreText& role, const std::string& text) { role.t.unrolled("for (int e = 0; e < VECTOR; e++) " + text); }

}  // namespace

// In runs of several rows the places of all columns are computed, which pays where the stores are nearly everything:
// where most outputs have no tap (d6 0.52 -> 0.44 ms; f2, which has taps everywhere, 1.50 -> 1.56).
bool goes_along(const Epilogue& epilogue, const Schedule& s, const Config& c, const StoreMap& m, int columns) {
    const TileProgram& program = epilogue.program();
    return !epilogue.reduces_in_chunks() && !program.pool && epilogue.leaving().exit != Exit::fold &&
           epilogue.stats() == 0 && !m.vectors && columns % lanes == 0 && s.phases_w == s.period[3] &&
           (one_row(c) || s.chunk_outer > s.real_outer) && ahead_bytes(epilogue) == 0 && !epilogue.stores().empty() &&
           std::all_of(epilogue.stores().begin(), epilogue.stores().end(),
                       [](const Operand& o) { return o.strides[4] == 1; });
}

StoreMap map_along(StoreMap m, int columns, int most) {
    m.along = m.neighbours = true;
    m.lanes = lanes, m.rows = warps;
    m.vector = std::min(columns / lanes, std::max(1, most / 2));
    while (columns / lanes % m.vector) --m.vector;
    m.turns = columns / (lanes * m.vector);
    m.items = (m.channels + warps - 1) / warps;
    m.batch = std::min(m.items, std::max(1, most / m.vector));
    return m;
}

StoreMap map_whole_rows(StoreMap m, int columns, int most) {
    constexpr int in_a_lane = 4;  // fewer meet more often, more leave lanes apart in memory
    m.along = m.whole_rows = true, m.vectors = false, m.pixels = 1;
    for (m.lanes = lanes; m.lanes > 8 && columns < in_a_lane * m.lanes;) m.lanes /= 2;
    m.vector = columns / m.lanes, m.rows = 128 / m.lanes, m.turns = 1;
    m.neighbours = m.lanes == lanes;
    m.items = (m.channels + m.rows - 1) / m.rows;
    m.batch = std::min(m.items, std::max(1, most / m.vector));
    return m;
}

void along_macros(StoreText& role) {
    const bool row = one_row(role.c);
    for (const std::string axis : {"n", "d", "h"})
        role.t.line(std::string("#define P") + static_cast<char>(axis[0] - 'a' + 'A') + "(e) ((long long)p" + axis +
                    (row ? ")" : "[e])"));
    role.t.line(row ? "#define PW(e) ((long long)(pw + (e) * LANES_W))" : "#define PW(e) ((long long)pw[e])");
    role.t.line(row ? "#define VALID(e) ((e) * LANES_W < count)" : "#define VALID(e) inside[e]");
}

void along_columns(StoreText& role, const std::string& from, const std::string& to) {
    const std::string pitch = role.s.run_pitch_name();
    role.t.line("int px[VECTOR], w_phase[VECTOR];");
    each(role,
         "{ const int column = (k * VECTOR + e) * LANES_W + lane_column; px[e] = column / PHASES_W, w_phase[e] = "
         "column % PHASES_W; }");
    role.t.line(role.m.unrolled ? "#pragma unroll" : "#pragma unroll 1");
    role.t.line("for (int q = " + from + "; q < " + to + "; q++) {");
    role.t.line("const int code = codes[q];");
    role.t.line("if (code < 0) continue;");
    if (one_row(role.c)) {
        role.t.line(
            "const int pn = first_n, pd = PERIOD_D * first_d + (code >> 16), ph = PERIOD_H * first_h + (code >> 8 & "
            "255);");
        role.t.line(
            "const int column = chunk_index * (CHUNK_WIDTH * PHASES_W) + k * VECTOR * LANES_W + lane_column, pw = "
            "PERIOD_W * first_w + (code & 255) + column;");
        role.t.line(
            "const int count = pn < s.out[0] && pd < s.out[1] && ph < s.out[2] ? min(s.out[3] - pw, RUN_W * PHASES_W "
            "- column) : 0;   // columns from here on");
        return;
    }
    role.t.line("int pn[VECTOR], pd[VECTOR], ph[VECTOR], pw[VECTOR];");
    role.t.line("bool inside[VECTOR], count = false;");
    each(role, "{");
    role.t.line("const int r = chunk_index * CHUNK_WIDTH + px[e];");
    role.t.line("const int w = r % " + pitch + ", h = r / " + pitch + " % EXTENT_H, d = r / (" + pitch +
                " * EXTENT_H) % EXTENT_D, n = r / (" + pitch + " * EXTENT_H * EXTENT_D);");
    role.t.line(
        "pn[e] = first_n + n, pd[e] = PERIOD_D * (first_d + d) + (code >> 16), ph[e] = PERIOD_H * (first_h + h) + "
        "(code >> 8 & 255), pw[e] = PERIOD_W * (first_w + w) + (code & 255) + w_phase[e];");
    role.t.line(
        "inside[e] = r < RUN_PIXELS && w < RUN_W && h < RUN_H && d < RUN_D && n < RUN_N && pn[e] < s.out[0] && pd[e] "
        "< s.out[1] && ph[e] < s.out[2] && pw[e] < s.out[3];");
    role.t.line("count |= inside[e];");
    role.t.line("}");
}

void along_values(StoreText& role) {
    const int skew = chunk_skew(role.epilogue, role.s, role.c);
    each(role, "{");
    role.t.line("const int row = row_of(q, w_phase[e]);");
    role.t.line("const REAL* from = chunk + row * PITCH + " +
                (skew ? "(px[e] ^ w_phase[e] * " + num(skew) + ");" : "px[e];"));
    role.t.unrolled("for (int i = 0; i < BATCH; i++) " + role.value +
                    "[i][e] = " + (role.s.lacks_rows() ? "row < 0 ? 0.f : " : "") + "from[CHUNK_ROW(i) * PITCH];");
    role.t.line("}");
}

void store_along(StoreText& role, size_t k) {
    const Operand& o = role.epilogue.stores()[k];
    const std::string id = num(static_cast<int64_t>(k)), ys = "operands.ys" + id, type(storage_name(o.dtype));
    const Chain::Kind kind = role.chain.kind(o.value);
    const bool row = one_row(role.c);
    const std::string channel = o.depends[1] || kind.c ? "group * COUT + CHANNEL(0)" : "0";
    role.t.line(kind.c ? "{" : "if (t < LANES_W && hb == 0) {");
    role.t.line(type + "* to = operands.y" + id + " + offset_of(" + ys + (row ? ", pn, " : ", 0, ") + channel +
                (row ? ", pd, ph, pw);" : ", 0, 0, 0);"));
    if (!row) {
        role.t.line("long long at[VECTOR];");
        each(role, "at[e] = offset_of(" + ys + ", pn[e], 0, pd[e], ph[e], pw[e]);");
    }
    role.t.unrolled(std::string("for (int i = 0; i < ") + (kind.c ? "BATCH" : "1") + "; i++, to += ROW_STEP * " + ys +
                    ".c) {");
    if (kind.c) role.t.line("if (!CHANNEL_OK(i)) continue;");
    if (kind.x)
        each(role, std::string("if (VALID(e)) tf_store(to + ") + (row ? "e * LANES_W" : "at[e]") + ", " +
                       role.chain.operand(o.value) + ");");
    else  // one number a row
        role.t.line("if (lane_column == 0 && VALID(0)) tf_store(to, " + role.chain.operand(o.value) + ");");
    role.t.line("}");
    role.t.line("}");
}

}  // namespace transfuse::cuda
