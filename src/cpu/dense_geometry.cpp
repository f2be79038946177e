#include "cpu/dense_geometry.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <sstream>

namespace transfuse::cpu {
namespace {

constexpr int64_t patch_bytes = 320 << 10;  // leaves room for weights and results in a second-level cache of 1 MiB
constexpr int64_t resident_bytes = 512 << 10;
constexpr int64_t most_pixels = 1024;   // of a plane: a panel of planes is worth a first-level cache
constexpr int64_t fewest_pixels = 256;  // below this, weights are fetched too often
constexpr int64_t enough_tiles = 48;    // so that many threads have an even share; never depends on their number

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// `extent` in pieces of at most `most`, as even as multiples of `unit` allow.
int64_t even_pieces(int64_t extent, int64_t most, int64_t unit) {
    if (extent <= most) return extent;
    const int64_t pieces = (extent + most - 1) / most;
    return std::min(extent, std::max(unit, round_up((extent + pieces - 1) / pieces, unit)));
}

struct Chooser {
    DenseGeometry& g;
    const DenseDemands& demands;
    std::array<int64_t, 3> unit;

    void lay_out(const std::array<int64_t, 3>& tile) {
        std::array<int64_t, 3> u;
        for (size_t a = 0; a < 3; ++a) {
            u[a] = (tile[a] + g.period[a] - 1) / g.period[a];
            g.patch[a] = a < 2 ? g.advance[a] * (u[a] - 1) + g.span[a] + 1 : u[a] + g.span[a] / g.advance[a];
        }
        g.row_stride = g.advance[2] * round_up(g.patch[2], 4);
        g.plane_stride = g.patch[1] * g.row_stride;
        if (g.paired) {
            const int64_t pairs = (u[1] + 1) / 2;
            if (g.advance[2] == 1 && tile[2] == g.y[4]) g.row_stride = shared_zeros(u[2]);
            g.overhang = std::max<int64_t>(0, g.advance[2] * g.patch[2] - g.row_stride);
            g.odd_rows = (pairs + (g.span[1] + 1) / 2) * g.row_stride;
            g.staged_plane_stride = 2 * g.odd_rows + g.overhang;
            g.staged_channel_stride = g.patch[0] * g.staged_plane_stride;
            g.pair_row_stride = padded(pairs * g.row_stride + g.overhang);
            g.plane_stride = static_cast<int64_t>(g.pair_rows.size()) * g.pair_row_stride;
            // Vectors that run across the ends of rows compute a few columns too many, others waste part of the last
            // vector of every row.
            const int64_t whole = round_up(u[2], demands.lanes), across = (pairs - 1) * g.row_stride + u[2];
            g.flat = g.advance[2] == 1 && round_up(across, demands.lanes) < pairs * whole;
            g.sum_row_stride = g.flat ? g.row_stride : padded(u[2]);
            g.sum_plane_stride = padded(pairs * g.sum_row_stride);
            g.product_stride = u[0] * g.sum_plane_stride;
        }
        g.channel_stride = round_up(g.patch[0] * g.plane_stride, 16);
        if (g.channel_stride * demands.element_bytes % 2048 == 0)
            g.channel_stride += 16;  // channels would share cache sets
    }
    // Rows as wide as the image end in zeros and begin with zeros. One run of them can be both, the end of a row and
    // the beginning of the next, as long as every row has room for its data and for its results.
    int64_t shared_zeros(int64_t results) const {
        const int64_t leading = std::max<int64_t>(0, -g.shift[2]);
        return std::max({results, std::min(g.patch[2], leading + g.x[4]), g.patch[2] - leading});
    }
    int64_t pixels(const std::array<int64_t, 3>& t) const { return t[0] * t[1] * padded(t[2]); }
    int64_t bytes_per_channel() const { return g.channel_stride * demands.element_bytes; }
    bool fits(const std::array<int64_t, 3>& t) {
        lay_out(t);
        // A tile whose input channels come in chunks holds the sums of all its output channels meanwhile.
        const int64_t planes = std::max(demands.resident_planes, single() ? 0 : g.outs);
        return pixels(t) <= most_pixels && pixels(t) * planes * demands.element_bytes <= resident_bytes;
    }
    bool single() const { return bytes_per_channel() * g.in <= patch_bytes; }
    int64_t tiles(const std::array<int64_t, 3>& t) const {
        int64_t n = g.y[0];
        for (size_t a = 0; a < 3; ++a) n *= (g.y[a + 2] + t[a] - 1) / t[a];
        return n;
    }

    void choose() {
        std::array<int64_t, 3> tile{};
        for (size_t a = 0; a < 3; ++a) tile[a] = std::min(unit[a], g.y[a + 2]);
        tile[2] = even_pieces(g.y[4], most_pixels, std::lcm(unit[2], row_padding * g.period[2]));
        while (!fits(tile) && tile[2] > unit[2])
            tile[2] = even_pieces(tile[2], std::max(unit[2], tile[2] / 2), unit[2]);
        // More rows, then more planes; but a tile that is large enough keeps the patch of all its input channels in
        // cache.
        for (size_t a : {size_t{1}, size_t{0}}) {
            for (;;) {
                std::array<int64_t, 3> larger = tile;
                larger[a] = std::min(g.y[a + 2], tile[a] + unit[a]);
                lay_out(tile);
                const bool was_single = single();
                if (larger == tile || !fits(larger)) break;
                if (pixels(tile) >= fewest_pixels && was_single && !single()) break;
                tile = larger;
            }
            tile[a] = even_pieces(g.y[a + 2], tile[a], unit[a]);
        }
        for (size_t a : {size_t{0}, size_t{1}, size_t{2}})
            while (tiles(tile) < enough_tiles && tile[a] >= 2 * unit[a] &&
                   pixels(tile) >= 2 * fewest_pixels / (a == 2 ? 1 : 2) && (a < 2 || tile[a] >= 128))
                tile[a] = even_pieces(tile[a], (tile[a] + 1) / 2, unit[a]);
        lay_out(tile);
        g.tiling = Tiling::of(g.y, tile);
        g.chunk = std::clamp<int64_t>(patch_bytes / bytes_per_channel(), 1, g.in);
        const int64_t chunks = (g.in + g.chunk - 1) / g.chunk;
        g.chunk = (g.in + chunks - 1) / chunks;
    }
};

// What it costs to write parts and to merge them, in products of one output: pairs must save more than that.
constexpr int64_t merging = 20;

bool worth_pairing(const DenseGeometry& g, const std::array<std::vector<Phase>, 3>& phases,
                   const std::vector<std::vector<PairTerm>>& terms, const DenseDemands& demands) {
    if (!demands.pairs || demands.element_bytes != 4 || g.advance[1] != 1 || g.y[3] < 2 * g.period[1] || g.outs < 4)
        return false;
    int64_t saved = 0;  // products of a pair of rows of every phase
    for (const Phase& phase : phases[1]) saved += 2 * static_cast<int64_t>(phase.taps.size());
    for (const std::vector<PairTerm>& of_phase : terms) saved -= static_cast<int64_t>(of_phase.size());
    const int64_t outputs = 2 * g.period[0] * g.period[1] * g.period[2];
    return g.in * g.axis[0].taps * g.axis[2].taps * saved >= merging * outputs;
}

}  // namespace

DenseGeometry dense_geometry(const std::vector<Lattice>& axes, const Sizes& x, const Sizes& y, int64_t groups,
                             const DenseDemands& demands) {
    DenseGeometry g;
    for (size_t a = 0; a < axes.size(); ++a) g.axis[a + 3 - axes.size()] = axes[a];
    g.x = to_five(x, 1);
    g.y = to_five(y, 1);
    g.groups = groups;
    g.in = g.x[1] / groups;
    g.outs = g.y[1] / groups;
    std::array<std::vector<Phase>, 3> phases;
    Chooser chooser{g, demands, {}};
    for (size_t a = 0; a < 3; ++a) {
        phases[a] = g.axis[a].phases();
        g.period[a] = g.axis[a].period();
        g.advance[a] = g.axis[a].advance();
        int64_t least = std::numeric_limits<int64_t>::max(), most = std::numeric_limits<int64_t>::min();
        for (const Phase& phase : phases[a])
            for (const PhaseTap& tap : phase.taps) {
                least = std::min(least, tap.shift);
                most = std::max(most, tap.shift);
            }
        if (least > most) least = most = 0;
        g.shift[a] = least;
        g.span[a] = most - least;
        chooser.unit[a] = std::lcm(g.period[a], demands.window[a]);
    }
    std::vector<std::vector<PairTerm>> paired;  // per phase of the rows
    for (const Phase& phase : phases[1]) paired.push_back(pair_terms(phase.taps, g.shift[1], g.pair_rows));
    g.paired = worth_pairing(g, phases, paired, demands);
    if (g.paired) chooser.unit[1] = std::lcm(2 * g.period[1], demands.window[1]);
    chooser.choose();
    const auto add = [&](const Phase& p1, const Phase& p2, const Phase& p3, PairPart part,
                         const std::vector<PairTerm>& rows) {
        DensePhase phase{{p1.residue, p2.residue, p3.residue}, {}, {}, part};
        for (const PhaseTap& t1 : p1.taps)
            for (const PairTerm& t2 : rows) {
                if (t2.part != part) continue;
                for (const PhaseTap& t3 : p3.taps) {
                    const int64_t column = t3.shift - g.shift[2];
                    const int64_t offset = (t1.shift - g.shift[0]) * g.plane_stride +
                                           t2.row * (g.paired ? g.pair_row_stride : g.row_stride) +
                                           column % g.advance[2] * (g.row_stride / g.advance[2]) +
                                           column / g.advance[2];
                    phase.taps.push_back({t1.tap, t3.tap, t2.weight, offset});
                }
            }
        if (!phase.taps.empty())
            for (const PhaseTap& t1 : p1.taps) phase.shifts.push_back(t1.shift);
        g.phases.push_back(std::move(phase));
    };
    for (const Phase& p1 : phases[0])
        for (size_t r = 0; r < phases[1].size(); ++r)
            for (const Phase& p3 : phases[2]) {
                const Phase& p2 = phases[1][r];
                if (g.paired) {
                    DenseGeometry::Parts parts{{p1.residue, p2.residue, p3.residue}};
                    for (size_t part = 0; part < pair_parts; ++part) {
                        add(p1, p2, p3, static_cast<PairPart>(part), paired[r]);
                        if (g.phases.back().taps.empty())
                            g.phases.pop_back();
                        else
                            parts.phase[part] = static_cast<int64_t>(g.phases.size()) - 1;
                    }
                    g.parts.push_back(parts);
                    continue;
                }
                std::vector<PairTerm> plain;  // every row by itself
                for (const PhaseTap& tap : p2.taps)
                    plain.push_back({PairPart::first, tap.shift - g.shift[1], {{tap.tap, 1}}});
                add(p1, p2, p3, PairPart::first, plain);
            }
    return g;
}

std::string DenseGeometry::describe() const {
    std::ostringstream text;
    text << tiling.tiles() << " tiles of " << tiling.tile[0] << "x" << tiling.tile[1] << "x" << tiling.tile[2] << ", "
         << phases.size() << (paired ? " parts of paired rows" : " phases") << (flat ? ", flat" : "") << ", patch "
         << patch[0] << "x" << patch[1] << "x" << row_stride << " of " << chunk << "/" << in << " channels";
    return text.str();
}

}  // namespace transfuse::cpu
