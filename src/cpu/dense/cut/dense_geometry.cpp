#include "cpu/dense/cut/dense_geometry.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>

#include "algebra/lattice/integer.h"

namespace transfuse::cpu {
namespace {

constexpr int64_t patch_bytes = 320 << 10;  // leaves room for weights and results in a second-level cache of 1 MiB
constexpr int64_t paired_patch_bytes = 512 << 10;  // one product at a time reads a sixteenth of it
constexpr int64_t resident_bytes = 512 << 10;
constexpr int64_t most_pixels = 1024;   // of a plane: a panel of planes is worth a first-level cache
constexpr int64_t fewest_pixels = 256;  // below this, weights are fetched too often
constexpr int64_t enough_tiles = 48;    // so that many threads have an even share; never depends on their number

// `extent` in pieces of at most `most`, as even as multiples of `unit` allow.
int64_t even_pieces(int64_t extent, int64_t most, int64_t unit) {
    if (extent <= most) return extent;
    const int64_t pieces = ceil_div(extent, most);
    return std::min(extent, std::max(unit, round_up(ceil_div(extent, pieces), unit)));
}

struct Chooser {
    DenseGeometry& g;
    const DenseDemands& demands;
    std::array<int64_t, 3> unit;

    void lay_out(const std::array<int64_t, 3>& tile) {
        std::array<int64_t, 3> u;
        for (size_t a = 0; a < 3; ++a) {
            u[a] = ceil_div(tile[a], g.period[a]);
            if (a == 0 && g.planes_paired) u[a] += u[a] % 2;
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
            g.sum_plane_stride = padded((pairs - 1) * g.sum_row_stride + padded(u[2]));
            g.product_stride = (g.planes_paired ? u[0] / 2 : u[0]) * g.sum_plane_stride;
        }
        g.pair_plane_stride = u[0] / 2 * g.plane_stride;
        g.channel_stride = round_up(g.planes_paired ? static_cast<int64_t>(g.pair_planes.size()) * g.pair_plane_stride
                                                    : g.patch[0] * g.plane_stride,
                                    16);
        if (g.channel_stride * demands.element_bytes % 2048 == 0)
            g.channel_stride += 16;  // channels would share cache sets
    }
    // Rows as wide as the image end in zeros and begin with zeros. One run of them can be both, the end of a row and
    // the beginning of the next, as long as every row has room for its data and for its results.
    int64_t shared_zeros(int64_t results) const {
        const int64_t leading = std::max<int64_t>(0, -g.shift[2]);
        return std::max({results, std::min(g.patch[2], leading + g.x[4]), g.patch[2] - leading});
    }
    int64_t pixels(const std::array<int64_t, 3>& t) const {
        return t[0] * t[1] * (g.planes_paired ? round_up(t[2], 4) : padded(t[2]));
    }
    int64_t bytes_per_channel() const { return g.channel_stride * demands.element_bytes; }
    bool fits(const std::array<int64_t, 3>& t) {
        lay_out(t);
        // A tile whose input channels come in chunks holds the sums of all its output channels meanwhile.
        const int64_t sums = g.planes_paired ? 2 * g.outs : g.outs;  // sixteen parts for four rows, else four for two
        const int64_t planes = std::max(demands.resident_planes, single() ? 0 : sums);
        return pixels(t) <= most_pixels && pixels(t) * planes * demands.element_bytes <= resident_bytes;
    }
    int64_t most_patch() const { return g.planes_paired ? paired_patch_bytes : patch_bytes; }
    int64_t fewest() const { return g.planes_paired ? 2 * fewest_pixels : fewest_pixels; }
    bool single() const { return bytes_per_channel() * g.in <= most_patch(); }
    int64_t tiles(const std::array<int64_t, 3>& t) const {
        int64_t n = g.y[0];
        for (size_t a = 0; a < 3; ++a) n *= ceil_div(g.y[a + 2], t[a]);
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
                if (pixels(tile) >= fewest() && was_single && !single()) break;
                tile = larger;
            }
            tile[a] = even_pieces(g.y[a + 2], tile[a], unit[a]);
        }
        for (size_t a : {size_t{0}, size_t{1}, size_t{2}})
            while (tiles(tile) < enough_tiles && tile[a] >= 2 * unit[a] &&
                   pixels(tile) >= 2 * fewest() / (a == 2 ? 1 : 2) && (a < 2 || tile[a] >= 128))
                tile[a] = even_pieces(tile[a], (tile[a] + 1) / 2, unit[a]);
        lay_out(tile);
        g.tiling = Tiling::of(g.y, tile);
        g.chunk = std::clamp<int64_t>(most_patch() / bytes_per_channel(), 1, g.in);
        const int64_t chunks = ceil_div(g.in, g.chunk);
        g.chunk = ceil_div(g.in, chunks);
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

// Where rows come in pairs, planes may too.
bool worth_pairing_planes(const DenseGeometry& g, const std::vector<Phase>& planes,
                          const std::vector<std::vector<PairTerm>>& plane_terms,
                          const std::vector<std::vector<PairTerm>>& row_terms) {
    if (g.advance[0] != 1 || g.y[2] < 2 * g.period[0]) return false;
    // Packed weights grow with the pairs: not where they are many, and more than the outputs.
    constexpr int64_t many = 1 << 19;
    const int64_t weights = g.in * g.y[1] * g.axis[0].taps * g.axis[1].taps * g.axis[2].taps;
    if (weights > std::max(many, g.y[0] * g.y[1] * g.y[2] * g.y[3] * g.y[4])) return false;
    // The sums of two rows of two planes, all channels of them, must lie in cache.
    if (4 * std::min<int64_t>(g.y[4], 64) * 2 * g.outs * 4 > resident_bytes) return false;
    int64_t saved = 0, rows = 0;  // products of a pair of planes, for every row of it
    for (const Phase& phase : planes) saved += 2 * static_cast<int64_t>(phase.taps.size());
    for (const std::vector<PairTerm>& of_phase : plane_terms) saved -= static_cast<int64_t>(of_phase.size());
    for (const std::vector<PairTerm>& of_phase : row_terms) rows += static_cast<int64_t>(of_phase.size());
    const int64_t outputs = 4 * g.period[0] * g.period[1] * g.period[2];
    return g.in * g.axis[2].taps * rows * saved >= 2 * merging * outputs;
}

// Every plane or row by itself.
std::vector<PairTerm> plain_terms(const Phase& phase, int64_t least) {
    std::vector<PairTerm> terms;
    for (const PhaseTap& tap : phase.taps) terms.push_back({PairPart::first, tap.shift - least, {{tap.tap, 1}}});
    return terms;
}

}  // namespace

DenseGeometry dense_geometry(const Lattices& axes, const Sizes& x, const Sizes& y, int64_t groups,
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
    std::array<std::vector<std::vector<PairTerm>>, 2> terms;  // per phase of the planes, of the rows
    for (const Phase& phase : phases[0]) terms[0].push_back(pair_terms(phase.taps, g.shift[0], g.pair_planes));
    for (const Phase& phase : phases[1]) terms[1].push_back(pair_terms(phase.taps, g.shift[1], g.pair_rows));
    g.paired = worth_pairing(g, phases, terms[1], demands);
    g.planes_paired = g.paired && worth_pairing_planes(g, phases[0], terms[0], terms[1]);
    for (size_t a : {size_t{0}, size_t{1}}) {
        const bool pairs = a == 0 ? g.planes_paired : g.paired;
        if (pairs) chooser.unit[a] = std::lcm(2 * g.period[a], demands.window[a]);
        for (size_t p = 0; p < phases[a].size() && !pairs; ++p) terms[a][p] = plain_terms(phases[a][p], g.shift[a]);
    }
    chooser.choose();
    const auto plane_shift = [&](const PairTerm& term) -> DensePhase::Shift {
        if (!g.planes_paired) return {g.shift[0] + term.row, g.shift[0] + term.row};
        const PairRow& pair = g.pair_planes[static_cast<size_t>(term.row)];
        return {g.shift[0] + pair.a, g.shift[0] + (pair.sign == 0 ? pair.a : pair.b)};
    };
    // One product: what plays the parts `plane` and `row`. Returns its number, −1 where nothing does.
    const auto add = [&](const std::array<int64_t, 3>& residue, const std::vector<PairTerm>& planes, size_t plane,
                         const std::vector<PairTerm>& rows, size_t row, const Phase& columns) -> int64_t {
        DensePhase phase{residue, {}, {}};
        for (const PairTerm& t1 : planes) {
            if (static_cast<size_t>(t1.part) != plane) continue;
            const size_t before = phase.taps.size();
            for (const PairTerm& t2 : rows) {
                if (static_cast<size_t>(t2.part) != row) continue;
                for (const PhaseTap& t3 : columns.taps) {
                    const int64_t column = t3.shift - g.shift[2];
                    const int64_t offset = t1.row * (g.planes_paired ? g.pair_plane_stride : g.plane_stride) +
                                           t2.row * (g.paired ? g.pair_row_stride : g.row_stride) +
                                           column % g.advance[2] * (g.row_stride / g.advance[2]) +
                                           column / g.advance[2];
                    phase.taps.push_back({t1.weight, t2.weight, t3.tap, offset});
                }
            }
            if (phase.taps.size() > before) phase.shifts.push_back(plane_shift(t1));
        }
        if (phase.taps.empty() && g.paired) return -1;  // else it stores its bias
        g.phases.push_back(std::move(phase));
        return static_cast<int64_t>(g.phases.size()) - 1;
    };
    for (size_t p = 0; p < phases[0].size(); ++p)
        for (size_t r = 0; r < phases[1].size(); ++r)
            for (const Phase& columns : phases[2]) {
                DenseGeometry::Parts parts{{phases[0][p].residue, phases[1][r].residue, columns.residue}, {}};
                for (size_t plane = 0; plane < pair_parts; ++plane)
                    for (size_t row = 0; row < pair_parts; ++row) {
                        const bool plain = (plane == 0 || g.planes_paired) && (row == 0 || g.paired);
                        parts.phase[plane][row] =
                            plain ? add(parts.residue, terms[0][p], plane, terms[1][r], row, columns) : -1;
                    }
                if (g.paired) g.parts.push_back(parts);
            }
    return g;
}

double DenseGeometry::cycles(const DenseDemands& demands) const {
    // Two vectors a cycle where all goes well; patches that lie in the second-level cache take a quarter longer.
    constexpr double multiply = 0.5 * 1.25, add = 2, weight = 0.05;
    double vectors = 0;
    int64_t taps = 0;
    for (const DensePhase& phase : phases) {
        std::array<int64_t, 3> u;
        for (size_t a = 0; a < 3; ++a) u[a] = ceil_div(tiling.tile[a], period[a]);
        if (planes_paired) u[0] = ceil_div(u[0], 2);
        if (paired) u[1] = ceil_div(u[1], 2);
        const int64_t line = flat ? ceil_div(u[1] * row_stride, demands.lanes) : u[1] * ceil_div(u[2], demands.lanes);
        const auto terms = static_cast<int64_t>(phase.taps.size());
        const double sums = std::ceil(static_cast<double>(in * terms) / static_cast<double>(chain(in * terms)));
        vectors += static_cast<double>(u[0] * std::max<int64_t>(line, 2)) *
                   (static_cast<double>(in * terms) * multiply + sums * add);
        taps += terms;
    }
    const auto outputs = static_cast<double>(groups * round_up(outs, 4));
    const auto weights = static_cast<double>(in * taps * demands.element_bytes) * outputs * weight;
    // Rows are staged, and their results carried on, one by one.
    const auto row_vectors = [&](int64_t n) { return static_cast<double>(ceil_div(n, demands.lanes)); };
    const auto staged = static_cast<double>(groups * in * patch[0] * patch[1] * advance[2]);
    const auto results = static_cast<double>(y[1] * tiling.tile[0] * tiling.tile[1]);
    const double rows = staged * (paired ? 1.6 : 1) * (40 + 4 * row_vectors(patch[2])) +
                        results * (10 + 5 * row_vectors(tiling.tile[2]));
    const double doubt = (paired ? demands.pair_doubt() : 1) * (planes_paired ? demands.second_pair_doubt() : 1);
    return doubt * static_cast<double>(tiling.tiles()) * (vectors * outputs + weights + rows);
}

std::string DenseGeometry::describe() const {
    std::ostringstream text;
    text << tiling.tiles() << " tiles of " << tiling.tile[0] << "x" << tiling.tile[1] << "x" << tiling.tile[2] << ", "
         << phases.size()
         << (planes_paired ? " parts of paired rows and planes"
             : paired      ? " parts of paired rows"
                           : " phases")
         << (flat ? ", flat" : "") << ", patch " << patch[0] << "x" << patch[1] << "x" << row_stride << " of " << chunk
         << "/" << in << " channels";
    if (paired) text << ", " << products_share() << " of the products";
    return text.str();
}

}  // namespace transfuse::cpu
