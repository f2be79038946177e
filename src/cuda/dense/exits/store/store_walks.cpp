#include "cuda/dense/exits/store/store_walks.h"

#include <algorithm>
#include <array>

#include "cuda/dense/exits/store/store_along.h"
#include "cuda/dense/exits/store/store_values.h"
#include "cuda/kernel/expression.h"
#include "cuda/kernel/hooks.h"

namespace transfuse::cuda {

namespace {

constexpr std::string_view store_pixels =
#include "cuda/device/exits/store_pixels.cuh"
    ;

void run(StoreText& role, bool after_pool) {
    if (!after_pool) role.chain.anchor();
    role.chain.steps(after_pool);
}

}  // namespace

std::string columns(StoreText& role) {
    role.t = Lines();
    const Leaving& leaving = role.epilogue.leaving();
    const bool early = releases_early(role);
    const std::string real = num(role.s.real_outer);
    if (early) {
        role.t.unrolled("for (int without_taps = 0; without_taps < 2; without_taps++) {");
        columns_begin(role, "without_taps ? " + real + " : 0", "(without_taps ? CHUNK_OUTER : " + real + ")");
    } else {
        columns_begin(role);
    }
    // Threads that meet over channels or columns leave together.
    if (role.epilogue.stats() == 0)
        role.t.line(role.epilogue.reduces_in_chunks() || role.m.whole_rows
                        ? "if (!__any_sync(~0u, count > 0)) continue;"
                        : "if (count <= 0) continue;");
    role.t.line("for (int hb = 0; hb < BATCHES; hb++) {");
    role.t.line("REAL " + role.value + "[BATCH][VECTOR];");
    if (role.m.vectors) {
        role.t.unrolled("for (int i = 0; i < BATCH; i++)");
        role.t.unrolled("for (int f = 0; f < PHASES_W; f++) {");
        role.t.line("if (row_of(q, f) < 0) {");
        role.t.unrolled("for (int p = 0; p < VECTOR_PIXELS; p++) " + role.value + "[i][p * PHASES_W + f] = 0.f;");
        role.t.line("} else {");
        role.t.line(
            "const tf_vector<REAL, VECTOR_PIXELS> in = *(const tf_vector<REAL, VECTOR_PIXELS>*)(chunk + (row_of(q, f) "
            "+ CHUNK_ROW(i)) * PITCH + px);");
        role.t.unrolled("for (int p = 0; p < VECTOR_PIXELS; p++) " + role.value +
                        "[i][p * PHASES_W + f] = in.lane[p];");
        role.t.line("}");
        role.t.line("}");
    } else if (role.m.along) {
        along_values(role);
    } else {
        role.t.line("const int row = row_of(q, w_phase);");
        const int skew = chunk_skew(role.epilogue, role.s, role.c);
        role.t.line("const REAL* from = chunk + row * PITCH + " +
                    (skew ? "(px ^ w_phase * " + num(skew) + ");" : "px;"));
        role.t.unrolled("for (int i = 0; i < BATCH; i++) " + role.value +
                        "[i][0] = " + (role.s.lacks_rows() ? "row < 0 ? 0.f : " : "") + "from[CHUNK_ROW(i) * PITCH];");
        if (leaving.exit == Exit::fold && role.epilogue.graph()[leaving.handed].op == Op::logsumexp) {
            role.t.line("REAL masses[BATCH][VECTOR];");
            role.t.unrolled(
                "for (int i = 0; i < BATCH; i++) masses[i][0] = from[(PHASE_CHANNELS + CHUNK_ROW(i)) * PITCH];");
        }
    }
    if (leaving.exit == Exit::fold)
        role.chain.unfold(role.value, "masses"), role.chain.steps(true);
    else if (leaving.exit == Exit::reduced)
        role.chain.define(leaving.handed, role.value, {true, true}), role.chain.steps(true);
    else
        run(role, false);
    sinks(role);
    role.t.line("}");
    role.t.line("}");
    role.t.line("}");
    if (early) {
        role.t.line(
            "if (!without_taps) barrier_arrive(shared_address(&b.chunk_empty[slot]));   // what follows reads nothing "
            "of it");
        role.t.line("}");
    }
    return role.t.str();
}

std::string pixels(StoreText& role) {
    const auto& stores = role.epilogue.stores();
    Lines lines, enter, places, place;  // where each tensor's line begins, and each of a thread's pixels lies
    for (size_t k = 0; k < stores.size(); ++k) {
        const std::string id = num(static_cast<int64_t>(k)), ys = "operands.ys" + id;
        lines.line("long long line_at" + id + " = 0;");
        enter.line("line_at" + id + " = on * " + ys + ".n + od * " + ys + ".d + oh * " + ys + ".h" +
                   (stores[k].depends[1] ? " + (long long)(group * COUT + CHANNEL(0)) * " + ys + ".c" : "") + ";");
        places.line("long long at" + id + "[BATCH];");
        place.line("at" + id + "[i] = line_at" + id + " + pw[i] * " + ys + ".w;");
    }
    const std::string chain = role.written([&] { run(role, false); });
    return hooked(store_pixels, {{"unroll", role.m.unrolled ? "#pragma unroll" : "#pragma unroll 1"},
                                 {"lines", lines.str()},
                                 {"enter", enter.str()},
                                 {"places", places.str()},
                                 {"place", place.str()},
                                 {"value", role.value},
                                 {"chain", chain},
                                 {"sinks", role.written([&] { sinks(role); })}});
}

// Windows side by side: each thread gathers whole windows, element by element.
std::string windows(StoreText& role) {
    role.t = Lines();
    const Needs needs = role.program.needs(role.s.phases_w);
    std::array<int, 4> reach;
    for (int a = 0; a < 4; ++a) reach[a] = static_cast<int>(std::max<int64_t>(1, needs.pool[a] / role.s.period[a]));
    std::string px, rows, ds, hs, ws;
    int count = 0;
    const auto& list = role.s.phase_table[0][0];
    for (int jd = 0; jd < reach[1]; ++jd)
        for (int rd = 0; rd < role.s.period[1]; ++rd)
            for (int jh = 0; jh < reach[2]; ++jh)
                for (int rh = 0; rh < role.s.period[2]; ++rh)
                    for (int jw = 0; jw < reach[3]; ++jw)
                        for (int rw = 0; rw < role.s.phases_w; ++rw, ++count) {
                            int row = -1;
                            for (int q = 0; q < role.s.real_outer; ++q)
                                if (list[q].d == rd && list[q].h == rh) row = role.s.row_of(q, rw);
                            const std::string comma = count ? ", " : "";
                            px += comma + num((jd * role.c.run[2] + jh) * role.c.chunk_width + jw);
                            rows += comma + num(row);
                            ds += comma + num(jd * role.s.period[1] + rd),
                                hs += comma + num(jh * role.s.period[2] + rh),
                                ws += comma + num(jw * role.s.period[3] + rw);
                        }
    const std::string kd = num(reach[1]), kh = num(reach[2]), kw = num(reach[3]);
    role.t.line("constexpr int WINDOW = " + num(count) + ", POOLED_W = CHUNK_WIDTH / " + kw + ", POOLED_H = RUN_H / " +
                kh + ", POOLED_D = RUN_D / " + kd + ";");
    role.t.line("constexpr int window_px[] = {" + px + "}, window_row[] = {" + rows + "};");
    role.t.line("constexpr int window_d[] = {" + ds + "}, window_h[] = {" + hs + "}, window_w[] = {" + ws + "};");
    role.t.line("for (int k = 0; k < TURNS; k++) {");
    role.t.line("const int column = k * COLUMNS_AT_ONCE + lane_column;");
    role.t.line(
        "const int cw = column % POOLED_W, ch = column / POOLED_W % POOLED_H, cd = column / (POOLED_W * POOLED_H) % "
        "POOLED_D, n = column / (POOLED_W * POOLED_H * POOLED_D);");
    role.t.line("const int h = ch * " + kh + ", d = cd * " + kd + ", w = chunk_index * CHUNK_WIDTH + cw * " + kw + ";");
    role.t.line("const int px = ((n * RUN_D + d) * RUN_H + h) * CHUNK_WIDTH + cw * " + kw + ";");
    role.t.line("const int pooled_n = first_n + n, pooled_d = (first_d + d) / " + kd + ", pooled_h = (first_h + h) / " +
                kh + ", pooled_w = (first_w + w) / " + kw + ";");
    role.t.line("const int inside = n < RUN_N && w < RUN_W && pooled_n < s.out[0] && pooled_d < s.out[1] / " +
                num(needs.pool[1]) + " && pooled_h < s.out[2] / " + num(needs.pool[2]) + " && pooled_w < s.out[3] / " +
                num(needs.pool[3]) + ";");
    role.t.line("for (int hb = 0; hb < BATCHES; hb++) {");
    const std::string pooled = "v" + num(role.program.pool_value);
    const bool sums = role.program.pool->kind == TilePool::Kind::sum;
    const Op op = role.program.pool->kind == TilePool::Kind::max ? Op::amax : sums ? Op::sum : Op::amin;
    role.t.line("REAL " + pooled + "[BATCH][VECTOR];");
    role.chain.loops({true, true});
    role.t.line(pooled + "[i][e] = " + identity(op) + ";");
    role.t.unrolled("for (int j = 0; j < WINDOW; j++) {");
    role.t.line("const int count = inside;");
    role.t.line("const int pn = pooled_n, pd = pooled_d * " + num(needs.pool[1]) + " + window_d[j], ph = pooled_h * " +
                num(needs.pool[2]) + " + window_h[j], pw = pooled_w * " + num(needs.pool[3]) + " + window_w[j];");
    role.t.line("(void)count; (void)pn; (void)pd; (void)ph; (void)pw;");
    role.t.line("REAL " + role.value + "[BATCH][VECTOR];");
    role.t.unrolled(
        "for (int i = 0; i < BATCH; i++) " + role.value +
        "[i][0] = window_row[j] < 0 ? 0.f : chunk[(window_row[j] + CHUNK_ROW(i)) * PITCH + px + window_px[j]];");
    run(role, false);
    const std::string element = role.chain.operand(role.epilogue.graph()[role.program.pool_value].args[0]);
    role.chain.loops({true, true});
    role.t.line(pooled + "[i][e] = " + combined(op, pooled + "[i][e]", element) + ";");
    role.t.line("}");
    if (sums && role.program.pool->scale != 1) {
        role.chain.loops({true, true});
        role.t.line(pooled + "[i][e] *= " + literal(role.program.pool->scale, role.epilogue.real()) + ";");
    }
    role.chain.begin_after_pool(pooled);
    role.t.line("const int count = inside, pn = pooled_n, pd = pooled_d, ph = pooled_h, pw = pooled_w;");
    role.t.line("(void)count; (void)pn; (void)pd; (void)ph; (void)pw;");
    run(role, true);
    sinks(role);
    role.t.line("}");
    role.t.line("}");
    return role.t.str();
}

}  // namespace transfuse::cuda
