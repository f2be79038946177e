// The tensor-core schedule, evaluated on the host: windows of the staged patch times packed taps, row by row of M, must
// give the lattice convolution for every phase, residue and border. Nothing here needs a GPU or a compiler.
#include <gtest/gtest.h>

#include <random>

#include "cuda/dense/choose/choose.h"
#include "cuda/dense/schedule/schedule.h"

using namespace transfuse;
using namespace transfuse::cuda;

namespace {

struct Case {
    Problem problem;
    Needs needs;
};

int64_t draw(std::mt19937& random, int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
}

Lattice random_axis(std::mt19937& random) {
    for (;;) {
        const int64_t in = draw(random, 1, 40), kernel = draw(random, 1, 5),
                      stride = draw(random, 0, 5) == 0 ? 4 : draw(random, 1, 3), dilation = draw(random, 1, 2);
        try {
            if (draw(random, 0, 2) == 0) {
                const Lattice a = Lattice::conv(in, kernel, stride, draw(random, 0, kernel / 2), dilation);
                if (a.out > 0) return a;
            } else {
                const Lattice a =
                    Lattice::conv_transpose(in, kernel, stride, draw(random, 0, kernel / 2),
                                            draw(random, 0, std::max<int64_t>(stride, dilation) - 1), dilation);
                if (a.out > 0) return a;
            }
        } catch (const std::exception&) {
        }
    }
}

Case random_case(std::mt19937& random) {
    Case c;
    for (Lattice& a : c.problem.axes) a = Lattice{};
    c.problem.axes[0].in = c.problem.axes[0].out = draw(random, 1, 3);
    const int64_t spatial = draw(random, 1, 3);
    for (int64_t k = 0; k < spatial; ++k) c.problem.axes[static_cast<size_t>(3 - k)] = random_axis(random);
    static constexpr int64_t channels[] = {1, 3, 4, 5, 8, 12, 16, 24, 32, 48, 64, 100, 128, 192};
    c.problem.cin = channels[draw(random, 0, 13)], c.problem.cout = channels[draw(random, 0, 13)];
    c.problem.groups = draw(random, 0, 3) == 0 ? draw(random, 2, 4) : 1;
    c.problem.arithmetic = static_cast<Arithmetic>(draw(random, 0, 3));
    const bool narrow = c.problem.lanes() == 8;
    const Lattice& w = c.problem.axes[3];
    const bool whole = c.problem.axes[1].advance() * c.problem.axes[2].advance() * w.advance() == 1;
    c.problem.load = whole && w.in % c.problem.lanes() == 0 ? LoadMode::boxes
                     : narrow                               ? LoadMode::singles
                                                            : LoadMode::planar;
    c.needs.all_channels = c.problem.cout <= 128 && draw(random, 0, 3) == 0;
    return c;
}

// Checks one tile of one schedule: every output of the tile, a few output channels, one input channel.
void check_tile(const Case& c, const Config& config, const Schedule& s, std::mt19937& random) {
    const auto& axes = c.problem.axes;
    const int64_t taps = axes[1].taps * axes[2].taps * axes[3].taps;
    // Which tile, and its patch: pixel p at input ADVANCE·(u + first + position) + residue of its sub-patch.
    std::array<int64_t, 4> u0;
    for (size_t a = 0; a < 4; ++a) {
        const int64_t tiles = (u_extent(axes[a]) + s.tile[a] - 1) / s.tile[a];
        u0[a] = draw(random, 0, tiles - 1) * s.tile[a];
    }
    auto x = [&](const std::array<int64_t, 4>& i) -> int64_t {
        int64_t hash = 17;
        for (size_t a = 0; a < 4; ++a) {
            if (i[a] < 0 || i[a] >= axes[a].in) return 0;
            hash = (hash * 31 + i[a] * 7 + 3) % 1009;
        }
        return hash % 13 - 6;
    };
    std::vector<int64_t> patch(static_cast<size_t>(s.plane) + 512, 1000003);  // beyond the patch: anything
    for (int p = 0; p < s.pixels; ++p) {
        int64_t r = p;
        std::array<int64_t, 4> at;
        for (size_t a = 4; a-- > 0;) at[a] = r % s.extent[a], r /= s.extent[a];
        std::array<int64_t, 4> residue{0, 0, 0, 0};
        for (size_t a = 4; a-- > 1;) residue[a] = r % s.advance[a], r /= s.advance[a];
        std::array<int64_t, 4> i;
        for (size_t a = 0; a < 4; ++a) i[a] = s.advance[a] * (u0[a] + s.first[a] + at[a]) + residue[a];
        patch[static_cast<size_t>(p)] = x(i);
    }
    std::fill_n(patch.begin() + s.pixels, s.tail, 0);
    auto weight = [&](int64_t co, int64_t tap) { return (co * 5 + tap * 3) % 11 - 5; };
    const int fixed = static_cast<int>(draw(random, 0, s.fixed - 1)), m_group = fixed % s.m_groups;
    int64_t checked = 0;
    for (int v = 0; v < s.variants; ++v)
        for (int wg = 0; wg < 2; ++wg) {
            // Accumulators [block][row][pixel].
            std::vector<std::vector<std::vector<int64_t>>> acc(
                static_cast<size_t>(s.blocks),
                std::vector<std::vector<int64_t>>(64, std::vector<int64_t>(static_cast<size_t>(s.run_pixels), 0)));
            const int shift = config.split == Split::pixels ? wg * s.run_offset : 0;
            for (const WindowStep& step : s.steps[static_cast<size_t>(v)][static_cast<size_t>(wg)]) {
                const OperandTile& tile = s.tiles[static_cast<size_t>(step.tile)];
                for (int m = 0; m < 64; ++m)
                    for (int half = 0; half < (s.pairs ? 2 : 1); ++half) {
                        const int tap = tile.taps[static_cast<size_t>(m / s.segment)][static_cast<size_t>(half)];
                        if (tap < 0) continue;
                        ASSERT_LT(tap, taps);
                        const int64_t co = (m_group * s.blocks_per_tile + tile.channel_block) * 64 + m % s.segment;
                        for (int n = 0; n < s.run_pixels; ++n)
                            acc[static_cast<size_t>(step.block)][static_cast<size_t>(m)][static_cast<size_t>(n)] +=
                                weight(co, tap) *
                                patch[static_cast<size_t>(step.pixel + shift + half * step.halves + n)];
                    }
            }
            // What the store role would find, phase by phase.
            for (int set = 0; set < s.sets; ++set)
                for (int q = 0; q < s.chunk_outer; ++q) {
                    const ChunkPhase phase = s.phase_table[static_cast<size_t>(v) * 2 + static_cast<size_t>(wg)]
                                                          [static_cast<size_t>(set)][static_cast<size_t>(q)];
                    if (phase.d < 0) continue;
                    for (int rw = 0; rw < s.phases_w; ++rw) {
                        const int row = s.row_of(q, rw);
                        int plane = row < 0 ? -1 : row / 64;
                        if (plane >= 0 && s.joint) {
                            if (s.rows_per_plane == 2)
                                plane /= 2;  // channels of both warpgroups in one plane
                            else if (plane / s.rows_per_group != wg)
                                continue;  // the other warpgroup's phases
                            else
                                plane %= s.rows_per_group;
                        }
                        for (int n = 0; n < s.run_pixels; ++n) {
                            int64_t r = n;
                            std::array<int64_t, 4> at;
                            for (size_t a = 4; a-- > 1;) at[a] = r % s.extent[a], r /= s.extent[a];
                            at[0] = r;
                            bool inside = true;
                            std::array<int64_t, 4> o, residue{0, phase.d, phase.h, phase.w + rw};
                            for (size_t a = 0; a < 4; ++a) {
                                inside = inside && at[a] < config.run[a];
                                o[a] = s.period[a] *
                                           (u0[a] + at[a] +
                                            (config.split == Split::pixels && config.runs[a] > 1 ? wg * config.run[a]
                                                                                                 : 0)) +
                                       residue[a];
                                inside = inside && o[a] < axes[a].out;
                            }
                            if (!inside) continue;
                            for (int channel : {0, static_cast<int>(std::min<int64_t>(c.problem.cout, 64)) - 1}) {
                                const int64_t co =
                                    (m_group * s.blocks_per_tile + (config.split == Split::channels ? wg : 0)) * 64 +
                                    channel;
                                if (co >= c.problem.cout) continue;
                                int64_t expected = 0;
                                for (int64_t kd = 0; kd < axes[1].taps; ++kd)
                                    for (int64_t kh = 0; kh < axes[2].taps; ++kh)
                                        for (int64_t kw = 0; kw < axes[3].taps; ++kw) {
                                            const auto id = axes[1].input(o[1], kd), ih = axes[2].input(o[2], kh),
                                                       iw = axes[3].input(o[3], kw);
                                            if (id && ih && iw)
                                                expected += weight(co, (kd * axes[2].taps + kh) * axes[3].taps + kw) *
                                                            x({o[0], *id, *ih, *iw});
                                        }
                                const int64_t got =
                                    plane < 0 ? 0
                                              : acc[static_cast<size_t>(set * s.planes + plane)]
                                                   [static_cast<size_t>(row % 64 + channel)][static_cast<size_t>(n)];
                                ASSERT_EQ(got, expected)
                                    << to_string(config) << " variant " << v << " wg " << wg << " phase " << phase.d
                                    << "," << phase.h << "," << rw << " o " << o[1] << "," << o[2] << "," << o[3];
                                ++checked;
                            }
                        }
                    }
                }
        }
    EXPECT_GT(checked, 0);
}

}  // namespace

TEST(CudaDenseSchedule, WindowsTimesTapsAreTheLattice) {
    std::mt19937 random(7);
    int made = 0, apart = 0;
    for (int k = 0; k < 150; ++k) {
        const Case c = random_case(random);
        const bool many = c.problem.axes[3].period() == 4;  // phases along a row: some tiles have a part of them
        const auto choices = choose(c.problem, c.needs, Target(), many ? 12 : 2);
        for (const Choice& choice : choices) {
            check_tile(c, choice.config, choice.schedule, random);
            if (HasFatalFailure()) return;
            ++made, apart += choice.config.w_phases > 0;
        }
    }
    EXPECT_GT(made, 150);
    EXPECT_GT(apart, 0);
}

TEST(CudaDenseSchedule, StaysWithinSharedMemoryAndRegisters) {
    std::mt19937 random(11);
    for (int k = 0; k < 200; ++k) {
        const Case c = random_case(random);
        for (int limit : {99 * 1024, 163 * 1024, 227 * 1024})
            for (const Choice& choice : choose(c.problem, c.needs, Target{.shared_bytes = limit}, 1)) {
                const Config& f = choice.config;
                EXPECT_LE(choice.schedule.shared_bytes, limit - 1024);
                EXPECT_LE(choice.schedule.blocks * choice.schedule.accumulators * c.problem.terms(), 144);
                // The roles together never ask for more registers than the launch allocated, or the products would
                // never start.
                const int launched = (65536 / f.threads()) / 8 * 8 * (f.threads() / 128);
                EXPECT_LE(f.load_registers + f.store_groups * f.store_registers + 2 * f.product_registers, launched);
                EXPECT_LE(choice.schedule.run_pixels, choice.config.store_groups == 0 ? 256 : 200);
                EXPECT_EQ(choice.schedule.run_pixels % 8, 0);
            }
    }
}

// Blocks that keep their weights keep to one part of the channels and one variant, so these divide the multiprocessors
// there are.
TEST(CudaDenseSchedule, PartsDivideTheMultiprocessorsOfTheDevice) {
    std::mt19937 random(17);
    int divided = 0, refused = 0;
    const auto parts = [](const Choice& c) {
        const bool keeps = c.config.resident && c.config.split == Split::phases;
        return keeps && c.schedule.fixed > 1 && c.schedule.variants > 1 ? c.schedule.fixed * c.schedule.variants : 1;
    };
    for (int k = 0; k < 400; ++k) {
        const Case c = random_case(random);
        if (c.problem.axes[3].period() < 2) continue;
        const Target large, small{.multiprocessors = 114};
        for (const Choice& choice : choose(c.problem, c.needs, large, 24)) {
            EXPECT_EQ(large.multiprocessors % parts(choice), 0);
            if (parts(choice) == 1) continue;
            const bool fits = schedule(c.problem, c.needs, choice.config, small).has_value();
            EXPECT_EQ(fits, small.multiprocessors % parts(choice) == 0) << to_string(choice.config);
            ++divided, refused += !fits;
        }
        for (const Choice& choice : choose(c.problem, c.needs, small, 4))
            EXPECT_EQ(small.multiprocessors % parts(choice), 0) << to_string(choice.config);
    }
    EXPECT_GT(divided, 0);
    EXPECT_GT(refused, 0);
}

// A portable warp loads two or four blocks of 8 pixels at once: even beyond the furthest window it must not meet the
// stage that is being written.
TEST(CudaDenseSchedule, PortableWindowsStayInTheirStage) {
    std::mt19937 random(13);
    int seen = 0, beyond = 0;
    for (int k = 0; k < 150; ++k) {
        Case c = random_case(random);
        c.problem.family = Family::mma;
        if (k % 3 == 0) c.problem.arithmetic = Arithmetic::f64;
        c.problem.load = LoadMode::planar;
        const int at_once = c.problem.arithmetic == Arithmetic::f64 ? 16 : 32;
        for (const Choice& choice : choose(c.problem, c.needs, Target{.arch = 80, .multiprocessors = 108, .shared_bytes = 163 * 1024}, 2)) {
            const Schedule& s = choice.schedule;
            const int last_plane = (s.vectors * c.problem.terms() - 1) * s.plane,
                      read = s.run_offset + (s.run_pixels + at_once - 1) / at_once * at_once;
            for (const auto& groups : s.steps)
                for (const auto& steps : groups)
                    for (const WindowStep& step : steps) {
                        const int end = last_plane + step.pixel + std::max(0, step.halves) + read;
                        ASSERT_LE(end * 16, s.stage_bytes) << to_string(choice.config);
                        ++seen, beyond += end > last_plane + s.plane;
                    }
        }
    }
    EXPECT_GT(seen, 1000);
    EXPECT_GT(beyond, 0);
}
