#include "cuda/dense/write/pack.h"

#include <algorithm>

#include "cuda/dense/schedule/figures.h"
#include "cuda/dense/write/constants.h"
#include "cuda/dense/write/strict.h"
#include "cuda/kernel/lines.h"
#include "cuda/kernel/warpgroup_code.h"

namespace transfuse::cuda {

namespace {

std::string real_text(const Problem& problem) { return problem.real_bytes() == 8 ? "double" : "float"; }

// Tiles that a thread takes one after another, where there are threads enough: taps of one channel are neighbours in
// memory, and come with the first of them.
int64_t tiles_of_a_thread(int64_t vectors, const Schedule& s) {
    return std::clamp<int64_t>(vectors / figures::enough_packers, 1, static_cast<int64_t>(s.tiles.size()));
}

int64_t vectors_of(const Problem& problem, const Config& config, const Schedule& s) {
    return packed_bytes(config, s) / problem.terms() / 16;
}

// Those of all tiles but one a thread takes.
int64_t threads_of(const Problem& problem, const Config& config, const Schedule& s) {
    const auto tiles = static_cast<int64_t>(s.tiles.size());
    const int64_t vectors = vectors_of(problem, config, s), each = tiles_of_a_thread(vectors, s);
    return vectors / tiles * ((tiles + each - 1) / each);
}

// One thread: 16-byte vectors, one row's channels of one K half, of some tiles.
void write(Emitter& emitter, const std::string& block, const Problem& problem, const Config& config, const Schedule& s,
           ValueId weight, int spatial, const Argument& to) {
    Body& body = emitter.body();
    std::vector<int64_t> taps, blocks;
    for (const OperandTile& tile : s.tiles) {
        blocks.push_back(tile.channel_block);
        for (const auto& tap : tile.taps) taps.push_back(tap[0]), taps.push_back(tap[1]);
    }
    const int lanes = problem.lanes();
    const std::string real = real_text(problem), tap_of = emitter.integer_table(taps),
                      block_of = emitter.integer_table(blocks);
    const std::string pointer = emitter.parameters().pointer(to, "unsigned char", false);
    const auto tiles = static_cast<int64_t>(s.tiles.size());
    const int64_t each = tiles_of_a_thread(vectors_of(problem, config, s), s);
    body.line("// Operand tiles: [part][K step][tile][K half][8 rows of 8][" + num(lanes) + " channels].");
    body.line("constexpr int TILES = " + num(tiles) + ", EACH = " + num(each) +
              ", PARTS_OF_TILES = " + num((tiles + each - 1) / each) + ", KSTEPS = " + num(s.k_steps(config)) +
              ", LANES = " + num(lanes) + ", CIN = " + num(problem.cin) + ", COUT = " + num(problem.cout) + ";");
    body.line("constexpr int SEGMENTS = " + num(s.segments) + ", MGROUPS = " + num(s.m_groups) + ";");
    body.line("const int at = " + block + " * 256 + threadIdx.x;");
    const std::string rows = num(s.operand_rows), both = num(2 * s.operand_rows);  // of a K half, of a tile
    body.line("const int row = at % " + rows + ", half = at / " + rows + " % 2, tiles = at / " + both +
              " % PARTS_OF_TILES, step = at / (" + both + " * PARTS_OF_TILES) % KSTEPS, part = at / (" + both +
              " * PARTS_OF_TILES * KSTEPS);");
    // Interleaved: segments are the second row of a lane, then upper lanes; see fragments.h.
    if (s.interleaved)
        body.line(
            "const int segment = row / 8 % 2 + (SEGMENTS >= 4 ? row / 4 % 2 * 2 : 0) + (SEGMENTS == 8 ? row / 2 % 2 * "
            "4 : 0), within = row / 16 * (16 / SEGMENTS) + row % (16 / SEGMENTS);");
    else if (s.segments == 1)
        body.line("const int segment = 0, within = row;");
    else
        body.line("const int segment = row / " + num(s.segment) + ", within = row % " + num(s.segment) + ";");
    emitter.open("if (at < " + num(threads_of(problem, config, s)) + ")");
    emitter.open("for (int tile = tiles * EACH; tile < min(TILES, (tiles + 1) * EACH); tile++)");
    body.line("const int tap = " + tap_of + "[(tile * SEGMENTS + segment) * 2 + half], co = (part % MGROUPS * " +
              num(s.blocks_per_tile) + " + " + block_of + "[tile]) * " + rows + " + within;");
    body.line("const int first = " + std::string(s.pairs ? "0" : "step * 2 * LANES + half * LANES") + ";");
    body.line(real + " v[LANES];");
    if (problem.terms() == 2) body.line("unsigned high[LANES], low[LANES];");
    body.line("#pragma unroll");
    emitter.open("for (int j = 0; j < LANES; j++)");
    body.line("v[j] = 0;");
    emitter.open("if (tap >= 0 && co < COUT && first + j < CIN)");
    // A tap of each axis: of the window, or of the row where the axis's taps are rows.
    const auto& [rows_d, rows_h, rows_w] = problem.tap_rows;
    const int64_t tap_rows = rows_d * rows_h * rows_w;
    const std::string own = "co % " + num(tap_rows);
    const int64_t taps_h = problem.axes[2].taps, taps_w = problem.axes[3].taps;
    const std::string group = problem.groups == 1 ? "0" : "(part / MGROUPS)", slices = num(problem.slices);
    Index index = {{problem.slices == 1 ? group : "(" + group + " / " + slices + ")"},
                   {problem.slices == 1 ? "(first + j)" : "(" + group + " % " + slices + " * CIN + first + j)"},
                   {tap_rows > 1 ? "(co / " + num(tap_rows) + ")" : "co"}};
    auto outer = [&](int64_t rows, int64_t row_step, int64_t step) {
        return (rows > 1 ? own : "tap") + " / " + num(rows > 1 ? row_step : step);
    };
    if (spatial > 2) index.push_back({"(" + outer(rows_d, rows_h * rows_w, taps_h * taps_w) + ")"});
    if (spatial > 1)
        index.push_back({"(" + outer(rows_h, rows_w, taps_w) + " % " + num(rows_h > 1 ? rows_h : taps_h) + ")"});
    index.push_back({rows_w > 1 ? "(" + own + " % " + num(rows_w) + ")" : "(tap % " + num(taps_w) + ")"});
    body.line("v[j] = (" + real + ")" + emitter.value(weight, index)[0] + ";");
    emitter.close();
    if (problem.terms() == 2) {
        // The low terms carry what the sums will lose. A weight without a low term, such as a pool's, makes sums that
        // lose nothing.
        const double lost = problem.family == Family::wgmma ? lost_in_chains(config, s) : 0;
        body.line("high[j] = round_tf32(v[j]);");
        body.line("const float rest = v[j] - __uint_as_float(high[j]);");
        body.line("low[j] = round_tf32(rest == 0 ? 0 : rest + v[j] * " + literal(lost, Real::f32) + ");");
    }
    emitter.close();
    const std::string address = pointer + " + ((long long)(part * KSTEPS + step) * TILES + tile) * " +
                                num(s.tile_bytes) + " + (half * " + rows + " + row) * 16";
    if (problem.terms() == 2) {
        body.line("*(uint4*)(" + address + ") = make_uint4(high[0], high[1], high[2], high[3]);");
        body.line("*(uint4*)(" + address + " + 2048) = make_uint4(low[0], low[1], low[2], low[3]);");
    } else if (lanes == 4) {
        body.line(
            "const uint4 high = make_uint4(round_tf32(v[0]), round_tf32(v[1]), round_tf32(v[2]), round_tf32(v[3]));");
        body.line("*(uint4*)(" + address + ") = high;");
    } else {
        const std::string vector = "tf_vector<" + std::string(element_name(problem.arithmetic)) + ", LANES>";
        body.line(vector + " whole;");
        body.line("#pragma unroll");
        body.line("for (int j = 0; j < LANES; j++) tf_from(whole.lane[j], v[j]);");
        body.line("*(" + vector + "*)(" + address + ") = whole;");
    }
    emitter.close();
    emitter.close();
}

}  // namespace

int64_t packed_bytes(const Config& config, const Schedule& s) {
    return static_cast<int64_t>(s.fixed) * s.k_steps(config) * static_cast<int64_t>(s.tiles.size()) * s.tile_bytes;
}

ExtraJob pack_job(const Problem& problem, const Config& config, std::shared_ptr<const Schedule> schedule,
                  ValueId weight, int spatial, const Argument& to) {
    ExtraJob job;
    job.root = weight;
    job.elements = static_cast<double>(vectors_of(problem, config, *schedule) * problem.lanes());
    job.blocks = (threads_of(problem, config, *schedule) + 255) / 256;
    job.code = ptx_code();
    job.note = "pack weights";
    job.write = [=, schedule = std::move(schedule)](Emitter& emitter, const std::string& block) {
        write(emitter, block, problem, config, *schedule, weight, spatial, to);
    };
    return job;
}

}  // namespace transfuse::cuda
