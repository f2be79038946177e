#include "cuda/dense/exits/store/store_text.h"

#include "cuda/dense/exits/store/store_along.h"
#include "cuda/kernel/expression.h"

namespace transfuse::cuda {

StoreText::StoreText(const Epilogue& of, const Schedule& schedule, const Config& config)
    : epilogue(of),
      program(of.program()),
      s(schedule),
      c(config),
      m(store_map(of, schedule, config)),
      chain(of, t, m),
      statistics(of, m, chain, t),
      value("v" + num(program.around->pass.anchor)) {}

void tile_place(StoreText& role) {
    role.t.line("const Place at = place_of(tile, s);");
    role.t.line("const int group = at.fixed / MGROUPS, block = at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64);");
}

void chunk_place(StoreText& role) {
    role.t.line("const int* codes = phase_codes + ((at.variant * 2 + wg) * SETS + set) * CHUNK_OUTER;");
    role.t.line("const int first_channel = block + (SPLIT_CHANNELS && !JOINT ? wg * 64 : 0);   // within the group");
    role.t.line(
        "const int first_n = at.u[0] + wg * SECOND_N, first_d = at.u[1] + wg * SECOND_D, first_h = at.u[2] + wg * "
        "SECOND_H, first_w = at.u[3] + wg * SECOND_W;");
}

bool releases_early(const StoreText& role) { return role.s.chunk_outer > role.s.real_outer && !role.program.pool; }

void columns_begin(StoreText& role, const std::string& from, const std::string& to) {
    role.t.line("for (int k = 0; k < TURNS; k++) {");
    if (role.m.along) return along_columns(role, from, to);
    role.t.line("const int column = k * COLUMNS_AT_ONCE + lane_column;");
    role.t.line(role.m.vectors ? "const int px = column * VECTOR_PIXELS, w_phase = 0;"
                               : "const int px = column / PHASES_W, w_phase = column % PHASES_W;");
    role.t.line("const int r = chunk_index * CHUNK_WIDTH + px;");
    const std::string pitch = role.s.run_pitch_name();
    role.t.line("const int w = r % " + pitch + ", h = r / " + pitch + " % EXTENT_H, d = r / (" + pitch +
                " * EXTENT_H) % EXTENT_D, n = r / (" + pitch + " * EXTENT_H * EXTENT_D);");
    role.t.line("const bool in_run = r < RUN_PIXELS && w < RUN_W && h < RUN_H && d < RUN_D && n < RUN_N;");
    role.t.line(role.m.unrolled ? "#pragma unroll" : "#pragma unroll 1");
    role.t.line("for (int q = " + from + "; q < " + to + "; q++) {");
    role.t.line("const int code = codes[q];");
    role.t.line("if (code < 0) continue;");
    role.t.line(
        "const int pn = first_n + n, pd = PERIOD_D * (first_d + d) + (code >> 16), ph = PERIOD_H * (first_h + h) + "
        "(code >> 8 & 255), pw = PERIOD_W * (first_w + w) + (code & 255) + w_phase;");
    role.t.line(
        "const int count = in_run && pn < s.out[0] && pd < s.out[1] && ph < s.out[2] ? min(VECTOR, s.out[3] - pw) : "
        "0;");
}

}  // namespace transfuse::cuda
