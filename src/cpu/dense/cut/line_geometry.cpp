#include "cpu/dense/cut/line_geometry.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <sstream>

#include "algebra/lattice/integer.h"

namespace transfuse::cpu {
namespace {

constexpr int64_t patch_bytes = 448 << 10;  // of a second-level cache of 1 MiB
constexpr int64_t sums_bytes = 1 << 20;     // beyond it adding to sums takes longer
constexpr int64_t resident_bytes = 1 << 20;
constexpr int64_t most_pixels = 1536;
constexpr int64_t enough_tiles = 16;
// Lines cost a copy for every tap: each number must meet this many output channels, and sums be this long.
constexpr int64_t fewest_outputs = 24, fewest_inputs = 16;
constexpr int64_t page_bytes = 4 << 10, near_pages = 48;  // of 64 whose places the first level of translation holds
constexpr int64_t gathered_channels = 16;                 // what a transposing load takes
constexpr int64_t gathered_bytes = 64 << 10;
constexpr int64_t channel_bytes = 24 << 10;  // of one channel, input and output: both stay in the first-level cache

// Terms that are summed in registers. PyTorch adds over input channels first: sums over few of them must be short to be
// as exact; so must those of pairs, whose parts are larger than the results.
int64_t most_summed(const LineGeometry& g) {
    if (g.in > 48) {
        if (g.any_pairs()) return 48;
        // PyTorch's chains hold 16 channels of few taps.
        if (g.most_terms > 1) return std::min<int64_t>(80, 20 * g.most_terms);
        return g.outs < 4 ? 32 : 128;
    }
    return g.any_pairs() ? (g.in > 32 ? 40 : g.in > 16 ? 24 : 12) : 64;
}

struct Term : PairTerm {
    int64_t at = 0;  // where in the line it begins
};

// Which axes come in pairs, and whether taps share lines, decides lines and products.
void set_products(LineGeometry& g, const std::array<std::vector<Phase>, 3>& phases) {
    std::array<std::vector<std::vector<Term>>, 3> terms;  // per axis and phase
    for (size_t a = 0; a < 3; ++a) {
        g.lines[a].clear();
        g.reach[a] = 0;
        g.out_step[a] = g.period[a] * (g.paired[a] ? 2 : 1);
        g.in_step[a] = g.axis[a].advance() * (g.paired[a] ? 2 : 1);
        for (const Phase& phase : phases[a]) {
            std::vector<Term>& of_phase = terms[a].emplace_back();
            if (g.paired[a]) {
                for (PairTerm& term : pair_terms(phase.taps, g.least[a], g.lines[a]))
                    of_phase.push_back({std::move(term)});
                continue;
            }
            for (const PhaseTap& tap : phase.taps) {
                const int64_t shift = tap.shift - g.least[a];
                g.reach[a] = std::max(g.reach[a], shift);
                const PairRow row{g.shared ? shift % g.in_step[a] : shift};
                const auto found = std::find(g.lines[a].begin(), g.lines[a].end(), row);
                of_phase.push_back({{PairPart::first, found - g.lines[a].begin(), {{tap.tap, 1}}},
                                    g.shared ? shift / g.in_step[a] : 0});
                if (found == g.lines[a].end()) g.lines[a].push_back(row);
            }
        }
        if (g.lines[a].empty()) g.lines[a].push_back({0});
        for (const PairRow& row : g.lines[a]) g.reach[a] = std::max({g.reach[a], row.a, row.sign ? row.b : 0});
    }
    g.products.clear();
    g.residues.clear();
    g.all_terms = g.most_terms = 0;
    const auto of_part = [](const std::vector<Term>& all, size_t part) {
        std::vector<const Term*> found;
        for (const Term& term : all)
            if (static_cast<size_t>(term.part) == part) found.push_back(&term);
        return found;
    };
    const auto count1 = static_cast<int64_t>(g.lines[1].size()), count2 = static_cast<int64_t>(g.lines[2].size());
    const auto add = [&](const std::vector<const Term*>& t0, const std::vector<const Term*>& t1,
                         const std::vector<const Term*>& t2) -> int64_t {
        LineGeometry::Product product;
        product.first.push_back(0);
        for (const Term* a : t0)
            for (const Term* b : t1)
                for (const Term* c : t2) {
                    product.line.push_back((a->row * count1 + b->row) * count2 + c->row);
                    product.at.push_back({a->at, b->at, c->at});
                    for (const PairTerm::Share& i : a->weight)
                        for (const PairTerm::Share& j : b->weight)
                            for (const PairTerm::Share& k : c->weight) {
                                product.tap.push_back(
                                    static_cast<int32_t>((i.tap * g.axis[1].taps + j.tap) * g.axis[2].taps + k.tap));
                                product.factor.push_back(i.factor * j.factor * k.factor);
                            }
                    product.first.push_back(static_cast<int32_t>(product.tap.size()));
                }
        if (product.line.empty() && g.any_pairs()) return -1;  // else it stores its bias
        g.all_terms += product.terms();
        g.most_terms = std::max(g.most_terms, product.terms());
        g.products.push_back(std::move(product));
        return static_cast<int64_t>(g.products.size()) - 1;
    };
    for (size_t r0 = 0; r0 < phases[0].size(); ++r0)
        for (size_t r1 = 0; r1 < phases[1].size(); ++r1)
            for (size_t r2 = 0; r2 < phases[2].size(); ++r2) {
                LineGeometry::Residue of{{phases[0][r0].residue, phases[1][r1].residue, phases[2][r2].residue}, {}};
                for (size_t part = 0; part < of.product.size(); ++part) {
                    const std::array<size_t, 3> q{part / 16, part / 4 % 4, part % 4};
                    bool plays = true;
                    for (size_t a = 0; a < 3; ++a) plays = plays && (q[a] == 0 || g.paired[a]);
                    of.product[part] = plays ? add(of_part(terms[0][r0], q[0]), of_part(terms[1][r1], q[1]),
                                                   of_part(terms[2][r2], q[2]))
                                             : -1;
                }
                g.residues.push_back(of);
            }
}

// Estimated cycles decide how a convolution is cut; what matters is that they say which of two ways is shorter.
struct Chooser {
    LineGeometry& g;
    const DenseDemands& demands;

    double vectors(int64_t n) const { return static_cast<double>(ceil_div(n, demands.lanes)); }
    int64_t rows() const { return round_up(g.outs, g.outs > 4 ? demands.panel_rows : 1); }

    // How far rows (planes, images) of t places lie apart where taps share lines. Those as large as the image end in
    // zeros and begin with zeros: one run of them can be both, the end of one and the beginning of the next.
    int64_t room(size_t a, int64_t t) const {
        int64_t room = t;
        for (const PairRow& line : g.lines[a]) {
            const int64_t read = t + (g.reach[a] - line.a) / g.in_step[a];
            if (g.out_step[a] * t < g.y[a + 2]) {
                room = std::max(room, read);
                continue;
            }
            const auto before = [&](int64_t place) {  // of the inputs, at this line
                return std::clamp<int64_t>(ceil_div(place - g.least[a] - line.a, g.in_step[a]), 0, read);
            };
            room = std::max({room, before(g.x[a + 2]), read - before(0)});
        }
        return room;
    }

    // Channels that products may read where they lie, each on another page, before pages are translated anew.
    int64_t pages_at_once() const {
        const int64_t channel = g.x[2] * g.x[3] * g.x[4] * demands.element_bytes;
        return std::max<int64_t>(1, near_pages * page_bytes / std::min(page_bytes, channel));
    }

    // Sets the rest for tiles of t × images.
    void estimate(const std::array<int64_t, 3>& t) {
        g.pixels = g.results(t, g.images);
        std::array<int64_t, 3> staged = t;
        for (size_t a = 0; a < 3 && g.shared; ++a) staged[a] += g.reach[a] / g.in_step[a];
        // Lines an even number of cache lines apart would share cache sets.
        g.line_pitch = padded(g.results(staged, g.images)) + row_padding;
        if (g.line_pitch / row_padding % 2 == 0) g.line_pitch += row_padding;
        const int64_t channel = g.all_lines() * g.line_pitch * demands.element_bytes;
        g.gathered = 1;
        if (g.outs <= demands.panel_rows)
            g.gathered = std::clamp<int64_t>(
                std::min(gathered_channels / std::max(g.in, g.outs), gathered_bytes / (g.in * channel)), 1, g.groups);
        const int64_t most = std::clamp<int64_t>(patch_bytes / channel, 1, g.in);
        g.chunk = ceil_div(g.in, ceil_div(g.in, most));
        const int64_t terms = std::max<int64_t>(1, g.most_terms);
        int64_t together = std::clamp<int64_t>(most_summed(g) / terms, 1, g.chunk);
        if (g.one_tap()) together = std::min(together, pages_at_once());
        g.block = ceil_div(g.chunk, ceil_div(g.chunk, together));

        const double in = static_cast<double>(g.in), outs = static_cast<double>(rows());
        const double line = vectors(g.pixels), products = static_cast<double>(g.products.size());
        const bool few = outs < 4;  // each pixel is loaded for one or two products
        const double full = few        ? line * (outs > 1 ? 1.2 : 2)
                            : line < 2 ? 1.5
                            : line < 3 ? 2.2
                                       : line + (static_cast<int64_t>(line) % 3 ? 0.2 : 0);
        const double multiply = in * static_cast<double>(g.all_terms) * outs * full / 2;
        const double rounds = static_cast<double>(ceil_div(g.in, g.chunk) * ceil_div(g.chunk, g.block));
        const double sums = products * outs * line;  // vectors
        const double held = sums * static_cast<double>(demands.lanes * demands.element_bytes);
        const double add = rounds * (sums * (held > sums_bytes ? 4 : 2) + products * outs * line * 2 / 3);
        // Rows are read and written one by one, but where those of an image follow one another.
        const auto image = static_cast<double>(g.images);
        double read = image, written = image, combined = 0;  // rows
        for (size_t a = 0; a < 2; ++a) {
            read *=
                static_cast<double>(std::min(g.input_extent(a, t[a]), static_cast<int64_t>(g.lines[a].size()) * t[a]));
            written *= static_cast<double>(g.out_step[a] * t[a]);
        }
        double stage = read * (15 + 5 * vectors(g.input_extent(2, t[2])));
        const bool copies = g.shared && g.all_lines() == 1 && g.room == t && t[2] == g.x[4];
        if (copies) stage = image * (15 + 3 * vectors(g.pixels / g.images));
        if (copies && g.images == 1 && g.one_tap()) stage = 0;
        if (!g.shared) combined = static_cast<double>(g.all_lines() * g.images * t[0] * t[1]) * (6 + 3 * vectors(t[2]));
        stage = in * (stage + combined);
        const double weights = in * static_cast<double>(g.all_terms * demands.element_bytes) * outs * 0.05;
        double merge = written * (10 + 5 * vectors(g.out_step[2] * t[2]));
        if (g.direct()) merge = image * (10 + 2 * vectors(g.pixels / g.images));
        if (g.any_pairs()) merge += 5 * products * line;
        merge *= outs;
        double tiles = static_cast<double>(g.image_groups() * g.groups);
        for (size_t a = 0; a < 3; ++a)
            tiles *= static_cast<double>(ceil_div(ceil_div(g.y[a + 2], g.out_step[a]), t[a]));
        g.cycles = tiles * (multiply + add + stage + weights + merge);
        const auto pairs = std::count(g.paired.begin(), g.paired.end(), true);
        if (pairs > 0) g.cycles *= demands.pair_doubt();
        if (pairs > 1) g.cycles *= demands.second_pair_doubt();
        if (!demands.cuts_channels && tiles < enough_tiles) g.cycles *= 1 + (enough_tiles - tiles) / enough_tiles;
    }
    bool allowed(const std::array<int64_t, 3>& t) const {
        int64_t outputs = g.images, sums = g.images;
        for (size_t a = 0; a < 3; ++a) {
            outputs *= std::min(g.y[a + 2], g.out_step[a] * t[a]);
            sums *= t[a];
        }
        sums *= static_cast<int64_t>(g.products.size()) * rows() * demands.element_bytes;
        return sums <= 8 * sums_bytes && outputs * demands.resident_planes * demands.element_bytes <= resident_bytes &&
               g.images * g.image_places(t) <= most_pixels;
    }
    // Pieces of an axis, as even as pool windows allow; ever smaller.
    std::vector<int64_t> pieces(size_t a) const {
        const int64_t all = ceil_div(g.y[a + 2], g.out_step[a]);
        const int64_t unit = std::lcm(g.out_step[a], demands.window[a]) / g.out_step[a];
        std::vector<int64_t> sizes;
        for (int64_t n = 1; n <= 64; n = n < 4 ? n + 1 : n + n / 2) {
            const int64_t size = std::min(all, round_up(ceil_div(all, n), unit));
            if (sizes.empty() || sizes.back() != size) sizes.push_back(size);
        }
        return sizes;
    }
    // For channels by themselves: whole rows as many as the first-level cache holds.
    void by_channels() {
        std::array<std::vector<int64_t>, 3> sizes{pieces(0), pieces(1), pieces(2)};
        std::array<int64_t, 3> t{sizes[0][0], sizes[1][0], sizes[2][0]}, tile;
        const auto fits = [&] {
            for (size_t a = 0; a < 3; ++a) g.room[a] = room(a, t[a]);
            estimate(t);
            const int64_t results = t[0] * t[1] * padded(t[2]) * static_cast<int64_t>(g.products.size()) * g.outs;
            return (g.all_lines() * g.line_pitch + results) * demands.element_bytes <= channel_bytes && allowed(t);
        };
        for (size_t a : {size_t{0}, size_t{1}, size_t{2}})
            for (size_t i = 1; !fits() && i < sizes[a].size(); ++i) t[a] = sizes[a][i];
        for (size_t a = 0; a < 3; ++a) tile[a] = std::min(g.y[a + 2], g.out_step[a] * t[a]);
        g.tiling = Tiling::of(g.y, tile);
    }
    // The best of all tiles, with the lines that g has.
    LineGeometry best() {
        LineGeometry least = g;
        constexpr double infinite = std::numeric_limits<double>::infinity();
        least.cycles = infinite;
        const std::array<std::vector<int64_t>, 3> sizes{pieces(0), pieces(1), pieces(2)};
        std::array<int64_t, 3> t, all{sizes[0][0], sizes[1][0], sizes[2][0]}, tile{};
        const auto consider = [&] {
            // Where an image is cut, a tile of a few vectors is never the best, if there is another.
            const int64_t pixels = g.images * t[0] * t[1] * t[2];
            if (pixels > most_pixels || (pixels < 4 * demands.lanes && t != all && least.cycles < infinite)) return;
            for (size_t a = 0; a < 3; ++a) g.room[a] = room(a, t[a]);
            if (!allowed(t)) return;
            estimate(t);
            if (g.cycles >= least.cycles) return;
            for (size_t a = 0; a < 3; ++a) tile[a] = std::min(g.y[a + 2], g.out_step[a] * t[a]);
            g.tiling = Tiling::of(g.y, tile);
            least = g;
        };
        for (int64_t t0 : sizes[0])
            for (int64_t t1 : sizes[1])
                for (int64_t t2 : sizes[2]) {
                    t = {t0, t1, t2};
                    g.images = 1;
                    consider();
                }
        t = all;
        for (int64_t n = 1; n <= g.y[0]; ++n) {
            g.images = ceil_div(g.y[0], ceil_div(g.y[0], n));
            if (g.images == n) consider();
        }
        return least;
    }
};

}  // namespace

LineGeometry line_geometry(const Lattices& axes, const Sizes& x, const Sizes& y, int64_t groups,
                           const DenseDemands& demands, DenseWay way) {
    LineGeometry g;
    for (size_t a = 0; a < axes.size(); ++a) g.axis[a + 3 - axes.size()] = axes[a];
    g.x = to_five(x, 1);
    g.y = to_five(y, 1);
    g.groups = groups;
    g.in = g.x[1] / groups;
    g.outs = g.y[1] / groups;
    std::array<std::vector<Phase>, 3> phases;
    std::array<bool, 3> pairs;
    for (size_t a = 0; a < 3; ++a) {
        phases[a] = g.axis[a].phases();
        g.period[a] = g.axis[a].period();
        int64_t least = std::numeric_limits<int64_t>::max(), taps = 0;
        for (const Phase& phase : phases[a]) {
            taps = std::max(taps, static_cast<int64_t>(phase.taps.size()));
            for (const PhaseTap& tap : phase.taps) least = std::min(least, tap.shift);
        }
        g.least[a] = taps ? least : 0;
        // (Of fewer inputs than taps an output meets but a part: the others would add nothing but rounding.)
        pairs[a] = demands.pairs && demands.element_bytes == 4 && g.axis[a].advance() == 1 && taps >= 2 &&
                   g.y[a + 2] >= 2 * g.period[a] && g.x[a + 2] >= taps;
    }
    if (way == DenseWay::channels) {
        g.shared = true;
        set_products(g, phases);
        Chooser{g, demands}.by_channels();
        return g;
    }
    LineGeometry best;
    best.cycles = std::numeric_limits<double>::infinity();
    const auto consider = [&] {
        set_products(g, phases);
        LineGeometry found = Chooser{g, demands}.best();
        if (found.cycles < best.cycles) best = std::move(found);
    };
    g.shared = true;
    if (way != DenseWay::lines) consider();
    g.shared = false;
    const bool many = g.outs >= fewest_outputs && g.in >= fewest_inputs;
    for (unsigned set = 0; set < 7; ++set) {  // never all three axes
        bool possible = way == DenseWay::lines || (many && way != DenseWay::shared_lines);
        for (size_t a = 0; a < 3; ++a) {
            g.paired[a] = set >> a & 1;
            possible = possible && (!g.paired[a] || pairs[a]);
        }
        if (possible) consider();
    }
    return best;
}

std::array<int64_t, 3> LineGeometry::extent(const Box& box) const {
    std::array<int64_t, 3> t;
    for (size_t a = 0; a < 3; ++a) t[a] = ceil_div(box.extent[a], out_step[a]);
    return t;
}

std::string LineGeometry::describe() const {
    std::ostringstream text;
    text << tiles() << " tiles of " << images << " images of " << tiling.tile[0] << "x" << tiling.tile[1] << "x"
         << tiling.tile[2] << " in lines of " << pixels << ", " << products.size() << " products, " << all_lines()
         << (shared ? " shared lines of " : " lines of ") << chunk << "/" << in << " channels, " << block
         << " at a time";
    if (gathered > 1) text << ", " << gathered << " groups together";
    if (any_pairs()) {
        double share = static_cast<double>(all_terms) / static_cast<double>(axis[0].taps * axis[1].taps * axis[2].taps);
        text << ", pairs along";
        for (size_t a = 0; a < 3; ++a) {
            if (!paired[a]) continue;
            text << " " << a + 1;
            share /= 2;
        }
        text << ", " << share << " of the products";
    }
    return text.str();
}

}  // namespace transfuse::cpu
