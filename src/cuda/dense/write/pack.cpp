#include "cuda/dense/write/pack.h"

#include <cstdlib>

#include "algebra/lattice/integer.h"
#include "cuda/dense/schedule/figures.h"
#include "cuda/dense/write/constants.h"
#include "cuda/dense/write/strict.h"
#include "cuda/kernel/lines.h"
#include "cuda/kernel/warpgroup_code.h"

namespace transfuse::cuda {

namespace {

// A vector is 16 bytes: the channels of one row of a K half.
int64_t vectors_of(const Problem& problem, const Config& config, const Schedule& s) {
    return packed_bytes(config, s) / problem.terms() / 16;
}

// A thread packs one vector. Neighbours take the same row of tiles, K halves and steps that follow each other: taps of
// one channel, then channels, or the other way round, as they are neighbours in memory. Further threads take further
// rows, whose vectors are neighbours where they are packed.
int64_t threads_of(const Problem& problem, const Config& config, const Schedule& s) {
    return round_up(vectors_of(problem, config, s) / s.operand_rows, figures::packing_neighbours) * s.operand_rows;
}

class Packer {
public:
    Packer(Emitter& emitter, const Problem& problem, const Config& config, const Schedule& s)
        : emitter_(emitter), body_(emitter.body()), problem_(problem), config_(config), s_(s) {}

    void write(const std::string& block, ValueId weight, int spatial, const Argument& to) {
        std::vector<int64_t> taps, blocks;
        for (const OperandTile& tile : s_.tiles) {
            blocks.push_back(tile.channel_block);
            for (const auto& tap : tile.taps) taps.push_back(tap[0]), taps.push_back(tap[1]);
        }
        const std::string tap_of = emitter_.integer_table(taps), block_of = emitter_.integer_table(blocks);
        const std::string pointer = emitter_.parameters().pointer(to, "unsigned char", false);
        constants();
        const auto strides = emitter_.strides_in_memory(weight);
        place(block, strides && std::abs((*strides)[1]) <= std::abs(strides->back()));
        emitter_.open("if (part < PARTS)");
        body_.line("const int tap = " + tap_of + "[(tile * SEGMENTS + segment) * 2 + half], co = (part % MGROUPS * " +
                   num(s_.blocks_per_tile) + " + " + block_of + "[tile]) * " + rows_ + " + within;");
        values(weight, spatial);
        store(pointer + " + ((long long)(part * KSTEPS + step) * TILES + tile) * " + num(s_.tile_bytes) +
              " + (half * " + rows_ + " + row) * 16");
        emitter_.close();
    }

private:
    void constants() {
        body_.line("// Operand tiles: [part][K step][tile][K half][8 rows of 8][" + num(problem_.lanes()) +
                   " channels].");
        body_.line("constexpr int PARTS = " + num(s_.fixed) + ", TILES = " + num(s_.tiles.size()) +
                   ", KSTEPS = " + num(s_.k_steps(config_)) + ", LANES = " + num(problem_.lanes()) +
                   ", CIN = " + num(problem_.cin) + ", COUT = " + num(problem_.cout) + ";");
        body_.line("constexpr int SEGMENTS = " + num(s_.segments) + ", MGROUPS = " + num(s_.m_groups) + ";");
    }

    // Which row of which tiles, and which segment it is in.
    void place(const std::string& block, bool channels_are_neighbours) {
        body_.line("const int at = " + block + " * 256 + threadIdx.x;");
        const std::string neighbours = num(figures::packing_neighbours);
        body_.line("const int row = at / " + neighbours + " % " + rows_ + ", turn = at / (" + neighbours + " * " +
                   rows_ + ") * " + neighbours + " + at % " + neighbours + ";");
        const std::string part = ", part = turn / (2 * TILES * KSTEPS);";
        if (channels_are_neighbours)
            body_.line("const int half = turn % 2, step = turn / 2 % KSTEPS, tile = turn / (2 * KSTEPS) % TILES" +
                       part);
        else
            body_.line("const int tile = turn % TILES, half = turn / TILES % 2, step = turn / (2 * TILES) % KSTEPS" +
                       part);
        // Interleaved: segments are the second row of a lane, then upper lanes; see fragments.h.
        if (s_.interleaved)
            body_.line(
                "const int segment = row / 8 % 2 + (SEGMENTS >= 4 ? row / 4 % 2 * 2 : 0) + (SEGMENTS == 8 ? row / 2 % "
                "2 * 4 : 0), within = row / 16 * (16 / SEGMENTS) + row % (16 / SEGMENTS);");
        else if (s_.segments == 1)
            body_.line("const int segment = 0, within = row;");
        else
            body_.line("const int segment = row / " + num(s_.segment) + ", within = row % " + num(s_.segment) + ";");
    }

    void values(ValueId weight, int spatial) {
        const std::string real = problem_.real_bytes() == 8 ? "double" : "float";
        body_.line("const int first = " + std::string(s_.pairs ? "0" : "step * 2 * LANES + half * LANES") + ";");
        body_.line(real + " v[LANES];");
        if (problem_.terms() == 2) body_.line("unsigned high[LANES], low[LANES];");
        body_.line("#pragma unroll");
        emitter_.open("for (int j = 0; j < LANES; j++)");
        body_.line("v[j] = 0;");
        emitter_.open("if (tap >= 0 && co < COUT && first + j < CIN)");
        body_.line("v[j] = (" + real + ")" + emitter_.value(weight, index(spatial))[0] + ";");
        emitter_.close();
        if (problem_.terms() == 2) {
            // The low terms carry what the sums will lose. A weight without a low term, such as a pool's, makes sums
            // that lose nothing.
            const double lost = problem_.family == Family::wgmma ? lost_in_chains(config_, s_) : 0;
            body_.line("high[j] = round_tf32(v[j]);");
            body_.line("const float rest = v[j] - __uint_as_float(high[j]);");
            body_.line("low[j] = round_tf32(rest == 0 ? 0 : rest + v[j] * " + literal(lost, Real::f32) + ");");
        }
        emitter_.close();
    }

    // Of the weight: a tap of each axis is one of the window, or of the row where the axis's taps are rows.
    Index index(int spatial) const {
        const auto& [rows_d, rows_h, rows_w] = problem_.tap_rows;
        const int64_t tap_rows = rows_d * rows_h * rows_w;
        const std::string own = "co % " + num(tap_rows);
        const int64_t taps_h = problem_.axes[2].taps, taps_w = problem_.axes[3].taps;
        const std::string group = problem_.groups == 1 ? "0" : "(part / MGROUPS)", slices = num(problem_.slices);
        Index index = {{problem_.slices == 1 ? group : "(" + group + " / " + slices + ")"},
                       {problem_.slices == 1 ? "(first + j)" : "(" + group + " % " + slices + " * CIN + first + j)"},
                       {tap_rows > 1 ? "(co / " + num(tap_rows) + ")" : "co"}};
        auto outer = [&](int64_t rows, int64_t row_step, int64_t step) {
            return (rows > 1 ? own : "tap") + " / " + num(rows > 1 ? row_step : step);
        };
        if (spatial > 2) index.push_back({"(" + outer(rows_d, rows_h * rows_w, taps_h * taps_w) + ")"});
        if (spatial > 1)
            index.push_back({"(" + outer(rows_h, rows_w, taps_w) + " % " + num(rows_h > 1 ? rows_h : taps_h) + ")"});
        index.push_back({rows_w > 1 ? "(" + own + " % " + num(rows_w) + ")" : "(tap % " + num(taps_w) + ")"});
        return index;
    }

    void store(const std::string& address) {
        if (problem_.terms() == 2) {
            body_.line("*(uint4*)(" + address + ") = make_uint4(high[0], high[1], high[2], high[3]);");
            body_.line("*(uint4*)(" + address + " + 2048) = make_uint4(low[0], low[1], low[2], low[3]);");
        } else if (problem_.lanes() == 4) {
            body_.line(
                "const uint4 high = make_uint4(round_tf32(v[0]), round_tf32(v[1]), round_tf32(v[2]), "
                "round_tf32(v[3]));");
            body_.line("*(uint4*)(" + address + ") = high;");
        } else {
            const std::string vector = "tf_vector<" + std::string(element_name(problem_.arithmetic)) + ", LANES>";
            body_.line(vector + " whole;");
            body_.line("#pragma unroll");
            body_.line("for (int j = 0; j < LANES; j++) tf_from(whole.lane[j], v[j]);");
            body_.line("*(" + vector + "*)(" + address + ") = whole;");
        }
    }

    Emitter& emitter_;
    Body& body_;
    const Problem& problem_;
    const Config& config_;
    const Schedule& s_;
    const std::string rows_ = num(s_.operand_rows);  // of a K half
};

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
        Packer(emitter, problem, config, *schedule).write(block, weight, spatial, to);
    };
    return job;
}

}  // namespace transfuse::cuda
