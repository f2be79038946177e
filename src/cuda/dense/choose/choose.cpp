#include "cuda/dense/choose/choose.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "cuda/dense/choose/cost.h"
#include "cuda/dense/schedule/figures.h"
#include "cuda/dense/schedule/scheduler.h"
#include "cuda/runtime/side_by_side.h"

namespace transfuse::cuda {

using namespace figures;

namespace {

int round_up(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b * b); }

// The memory plans: of all that fit, the one with the fewest cycles, and with `several` the best of each kind: resident
// and streamed weights, wide and narrow chunks, many slabs and few.
struct Fit {
    Config config;
    double cycles;
};
std::vector<Fit> fit(const Problem& problem, const Needs& needs, const Schedule& s, const Config& base, int limit,
                     bool several, bool tight, double waves) {
    std::map<std::array<int, 3>, Fit> best;
    Cost m{problem, needs, s, base};
    const int turns = m.load_turns(), step_tiles = s.tile_count() / s.variants;
    const bool direct = problem.load == LoadMode::direct || problem.load == LoadMode::operand;
    // Raw pieces and stages. Boxes that come directly into the operand have stages alone, of which large patches leave
    // room for few; a ring may hold a whole tile.
    const int stages = direct ? 4 : base.stages;
    std::vector<std::pair<int, int>> rings{{4, stages}, {3, stages}, {2, stages}};
    if (m.operand_without_stores()) rings = {{3, 4}, {3, 3}, {3, 2}};
    if (problem.transposed() && problem.lanes() == 4 && s.k_stages > stages && s.k_stages <= most_stages)
        rings.push_back({2, s.k_stages});
    // The whole patch in one piece where it is small: then a thread's place in it never changes.
    const int whole = std::max(1, 6 * 8 / (s.vectors * 4));
    m.c.piece = problem.transposed() ? s.vectors : turns <= whole ? turns : std::max(1, std::min(2 * whole / 3, 4));
    const int piece = m.c.piece;
    struct Weights {
        bool resident;
        int tiles, slabs;
    };
    std::vector<Weights> weights;
    if (s.fixed <= most_resident_parts) weights.push_back({true, 0, 1});
    for (int parts : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128}) {
        if (parts > 32 && !tight) break;
        const int tiles = (step_tiles + parts - 1) / parts;
        if (tiles * s.tile_bytes > largest_slab) continue;
        if (parts > 1 && tiles * s.tile_bytes < (tight ? smallest_tight_slab : smallest_slab)) break;
        for (int slabs : {2, 3, 4, 6}) weights.push_back({false, parts == 1 ? 0 : tiles, slabs});
    }
    // Slabs of whole rows of taps, which can be skipped where they lie outside the image: few pixels, many taps.
    int row_tiles = 0;
    while (row_tiles < step_tiles && s.reach[static_cast<size_t>(row_tiles)][0].first == s.reach[0][0].first &&
           s.reach[static_cast<size_t>(row_tiles)][1].first == s.reach[0][1].first)
        ++row_tiles;
    m.c.slab_tiles = row_tiles;
    if (row_tiles < step_tiles && m.share_met(waves) < worth_skipping)
        for (int rows = 1; rows * row_tiles * s.tile_bytes <= largest_skipped; ++rows)
            for (int slabs : {2, 3, 4, 6}) weights.push_back({false, rows * row_tiles, slabs});
    static constexpr std::pair<int, int> chunks[] = {{64, 6}, {64, 4}, {64, 3}, {64, 2}, {48, 4}, {48, 3},
                                                     {48, 2}, {32, 8}, {32, 6}, {32, 4}, {32, 3}, {32, 2},
                                                     {16, 8}, {16, 4}, {16, 2}, {8, 4},  {8, 2}};
    // A chunk of 48 pixels that is all of a run, where outputs are stored one by one (L2_100 of KernelBench: 2.94
    // -> 2.62 ms).
    const bool just_a_run = needs.one_by_one && needs.element_bytes == 4 && s.phases_w == s.period[3] &&
                            s.phases_w % 2 == 0 && s.row_length > 32 && s.row_length <= 48;
    for (const Weights& w : weights) {
        m.c.resident = w.resident, m.c.slab_tiles = w.tiles, m.c.slabs = w.slabs;
        m.met = w.resident ? 1 : m.share_met(waves);
        m.c.skips = m.met < worth_skipping;
        if (!m.c.skips) m.met = 1;
        if (m.weight_bytes() > limit - beside_weights) continue;
        for (auto [width, buffers] : chunks) {
            if (!needs.has_store_role() && (width != 64 || buffers != 2)) continue;
            if ((needs.folded || needs.whole_rows) && width != 64) continue;
            if (width == 48 && !just_a_run) continue;
            if (needs.has_store_role() && !needs.folded && !needs.whole_rows && width > 8 && s.row_length <= width / 2)
                continue;
            if (needs.pool[3] > 1 && width % (needs.pool[3] / s.period[3]) != 0) continue;
            m.c.chunk_width = needs.folded || needs.whole_rows ? round_up(s.row_length, 32) : width,
            m.c.buffers = buffers;  // folded: whole runs are small
            struct {
                int piece = 0, stages = 0;
                double cycles = 0;
            } counted;  // of boxes the number of raw pieces costs memory alone
            for (auto [raw, ring] : rings) {
                if (ring > stages && !w.resident) continue;
                m.c.raw = raw, m.c.stages = ring, m.c.store_groups = needs.has_store_role();
                if (problem.transposed()) {  // a large patch comes vector by vector
                    m.c.piece = s.vectors;
                    if (m.bytes() > limit) m.c.piece = 1;
                }
                if (tight)
                    for (m.c.piece = piece; m.bytes() > limit && m.c.piece > 1;) m.c.piece = (m.c.piece + 1) / 2;
                if (m.bytes() > limit) continue;
                m.c.alternates = m.alternates();
                // Alike in cycles: wide chunks, and for threads that fetch themselves more in flight and weights that
                // stay.
                if (!problem.boxed() || counted.piece != m.c.piece || counted.stages != m.c.stages)
                    counted = {m.c.piece, m.c.stages, m.cycles()};
                const int across = width * (m.c.w_phases >= 4 ? m.c.w_phases : 1);  // of them 16 bytes lie together
                double cycles = counted.cycles * narrow_chunk(across);
                cycles *= problem.boxed() ? (raw == 3 ? 1.0 : two_boxes)
                                          : copies_in_flight(raw) * (w.resident ? 1.0 : streamed_beside_copies);
                const std::array<int, 3> kind =
                    several ? std::array<int, 3>{w.resident ? -1 : w.tiles, width >= 32, buffers > 2}
                            : std::array<int, 3>{};
                const auto at = best.find(kind);
                if (at == best.end())
                    best.emplace(kind, Fit{m.c, cycles});
                else if (cycles < at->second.cycles)
                    at->second = {m.c, cycles};
            }
        }
    }
    std::vector<Fit> list;
    for (auto& [kind, one] : best) {
        list.push_back(one);
        Config& c = list.back().config;
        c.share_registers();
        if (needs.exit == Exit::reduced) c.store_registers -= 16, c.product_registers += 8;  // the work moves as well
    }
    return list;
}

// tight: short rows, thin slabs and small pieces as well, for patches of many taps in little shared memory.
std::vector<Choice> search(const Problem& problem, const Needs& needs, const Target& target, size_t most, int larger,
                           bool tight) {
    Target roomy = target;  // only to see the shape
    roomy.shared_bytes = 1 << 30;
    std::array<int64_t, 4> u;
    for (size_t a = 0; a < 4; ++a) u[a] = u_extent(problem.axes[a]);
    const int grain = std::max(problem.grain(), needs.vector);
    std::array<int, 4> step;  // runs are whole windows of a pool
    for (size_t a = 0; a < 4; ++a)
        step[a] = static_cast<int>(std::max<int64_t>(1, needs.pool[a] / problem.axes[a].period()));
    const int blocks = static_cast<int>((problem.cout + 63) / 64);
    struct Rough {
        Config config;
        double score;
        int pixels;
    };
    std::vector<Rough> rough;
    const int longest = problem.longest_run();  // strict keeps its sums beside the accumulators
    const int w_grain = round_up(grain, step[3]);
    auto add_runs = [&](std::vector<Rough>& to, int w, int most_pixels, bool strip) {  // of one width
        for (int h = step[2]; h <= std::max<int64_t>(u[2] + step[2] - 1, step[2]); h += step[2]) {
            if (static_cast<int64_t>(h) * w > most_pixels) break;
            for (int d = step[1]; d <= std::max<int64_t>(u[1] + step[1] - 1, step[1]); d += step[1]) {
                if (static_cast<int64_t>(d) * h * w > most_pixels) break;
                if (d > step[1] && h < u[2]) break;
                for (int n = 1; n <= u[0]; ++n) {
                    if (static_cast<int64_t>(n) * d * h * w > most_pixels) break;
                    if (n > 1 && (d < u[1] || h < u[2] || w < u[3] || needs.one_image)) break;
                    Config c;
                    c.run = {n, d, h, w}, c.strip = strip, c.exit = needs.exit;
                    // Useful share of all tiles.
                    double useful = 1;
                    for (size_t a = 0; a < 4; ++a) useful *= static_cast<double>(u[a]) / round_up(u[a], c.run[a]);
                    to.push_back({c, useful * (1 - 4.0 / (w + 4.0)), n * d * h * w});
                }
            }
        }
    };
    for (int64_t pieces = 1; pieces <= u[3]; ++pieces) {
        const int w = round_up((u[3] + pieces - 1) / pieces, w_grain);
        if (w > longest) continue;
        if (pieces > 1 && w < (tight ? shortest_tight_run : shortest_run) && u[3] > narrow_image) break;
        add_runs(rough, w, longest, false);
        if (w <= w_grain) break;
    }
    auto by_score = [](const Rough& a, const Rough& b) { return a.score > b.score; };
    std::sort(rough.begin(), rough.end(), by_score);
    std::set<std::array<int, 4>> seen;  // a long row is cut into thousands of numbers of pieces
    std::erase_if(rough, [&](const Rough& r) { return !seen.insert(r.config.run).second; });
    // The best of every length: which of them fits depends on how many accumulators stand side by side.
    std::array<int, 4> taken{};  // by length
    std::erase_if(rough, [&](const Rough& r) {
        return ++taken[r.pixels > 120 ? 0 : r.pixels > 80 ? 1 : r.pixels > 48 ? 2 : 3] > runs_of_a_length;
    });
    // Measured: in TF32 any, but where they cut rows of planes that leave through chunks, few tiles alone (D, of many:
    // 1.45 -> 1.95 ms); channels last long sums, and in 16 bits any of images without phases. Elsewhere for results
    // that go directly, or to be measured.
    const bool rows_in_parts = needs.exit != Exit::direct && problem.load != LoadMode::operand && u[3] > strip_width;
    const bool strips_leave_in_boxes =
        needs.exit == Exit::tma && !needs.all_channels && problem.load == LoadMode::operand &&
        (problem.sums_are_long() || (problem.lanes() == 8 && !problem.has_phases() && !problem.has_planes()));
    if (problem.family == Family::wgmma && strip_width % w_grain == 0 && !tight &&
        (needs.exit == Exit::direct || strips_leave_in_boxes || problem.arithmetic == Arithmetic::tf32 || most > 1)) {
        std::vector<Rough> strips;
        add_runs(strips, strip_width, problem.longest_strip(needs.has_store_role()), true);
        std::erase_if(strips, [](const Rough& r) { return r.pixels < 2 * strip_width; });
        std::stable_sort(strips.begin(), strips.end(), by_score);
        std::array<int, 4> kept{};
        for (const Rough& r : strips)
            if (++kept[r.pixels > 192 ? 0 : r.pixels > 96 ? 1 : r.pixels > 48 ? 2 : 3] <= strips_of_a_length)
                rough.push_back(r);
    }
    std::vector<std::pair<int, int>> bundlings{{4, 0}, {2, 0}, {1, 0}};  // bundles, and residues along w in each
    for (int64_t part = problem.axes[3].period() / 2;
         part > 0 && problem.axes[3].period() >= 2 && problem.axes[3].period() % part == 0; part /= 2)
        for (int bundles : {2, 1}) bundlings.push_back({bundles, static_cast<int>(part)});
    struct Division {
        Split split;
        int bundles, w_phases, k_steps;
    };
    std::vector<Division> divisions;
    for (Split split : {Split::channels, Split::phases, Split::pixels}) {
        if (split == Split::channels && (blocks < 2 || (blocks % 2 && !needs.all_channels && blocks < 5))) continue;
        for (const auto& [bundles, w_phases] : bundlings)
            for (int k_steps : {4, 2, 1})
                if (k_steps == 1 || problem.cin > problem.lanes() * k_steps)
                    divisions.push_back({split, bundles, w_phases, k_steps});
    }
    std::vector<std::vector<Choice>> found(divisions.size());
    side_by_side(
        divisions.size(),
        [&](size_t number) {
            const auto [split, bundles, w_phases, k_steps] = divisions[number];
            std::optional<Schedule> like;  // steps do not depend on the run
            for (const Rough& r : rough) {
                if (w_phases && problem.axes[3].period() < 4 && !r.config.strip) continue;
                Config c = r.config;
                c.split = split, c.bundles = bundles, c.w_phases = w_phases, c.k_steps = k_steps;
                c.chunk_width = needs.folded || needs.whole_rows ? 192 : 8, c.piece = 1, c.slab_tiles = 1, c.slabs = 2,
                c.raw = 3;  // little memory: only to see the shape
                if (split == Split::pixels) {
                    if (u[2] > c.run[2])
                        c.runs[2] = 2;
                    else if (u[1] > c.run[1])
                        c.runs[1] = 2;
                    else if (u[0] > c.run[0] && !needs.one_image)
                        c.runs[0] = 2;
                    else if (u[3] > c.run[3])
                        c.runs[3] = 2;
                    else
                        c.runs[2] = 2;
                }
                std::optional<Schedule> s;  // rows come as one where they can, and share padding where they can
                for (const auto& [flat, shared] :
                     {std::pair{true, true}, std::pair{true, false}, std::pair{false, true}, std::pair{false, false}}) {
                    if (s || (flat && (!problem.rows_adjoin || !needs.has_store_role() || needs.ahead > 0)) ||
                        ((flat || shared) && c.run[0] * c.run[1] * c.run[2] == 1))
                        continue;
                    c.flat = flat, c.shared_padding = shared;
                    s = schedule(problem, needs, c, roomy, like ? &*like : nullptr);
                }
                if (!s) continue;
                if (!like) like = s;
                // More bundles than there are: only empty work.
                const int groups = split == Split::phases ? 2 : 1;
                if (bundles > 1 && (bundles - 1) * groups >= s->bundle_count) continue;
                const bool chain = needs.epilogue_flops > 1;
                if (c.strip && most == 1 && needs.exit == Exit::tma && chain && s->accumulators > longest_tma) continue;
                double tiles = static_cast<double>(s->fixed) * s->variants, useful = 1;
                for (size_t a = 0; a < 4; ++a) {
                    const double along = std::ceil(static_cast<double>(u[a]) / static_cast<double>(s->tile[a]));
                    tiles *= along, useful *= static_cast<double>(u[a]) / (along * static_cast<double>(s->tile[a]));
                }
                const double waves = tiles / tiles_a_round(target, larger);
                if (c.strip && most == 1 && waves >= few_waves &&
                    (rows_in_parts || s->blocks * s->run_pixels < shortest_strips))
                    continue;
                for (const Fit& f : fit(problem, needs, *s, c, target.shared_bytes, most > 1, tight, waves)) {
                    Choice choice;
                    choice.config = f.config;
                    choice.pixels = s->blocks * r.pixels * useful;
                    choice.waves = waves, choice.variants = s->variants;
                    choice.seconds = seconds_of(waves, f.cycles);
                    found[number].push_back(std::move(choice));
                }
            }
        },
        2);
    std::vector<Choice> choices;
    for (auto& some : found) std::move(some.begin(), some.end(), std::back_inserter(choices));
    // Warpgroups divide channels where they can unless another division is estimated far better, or loads the patch for
    // fewer parts of the phases.
    auto few = [most](const Choice& c) { return most == 1 && c.waves < few_waves; };
    double most_pixels = 0;
    for (const Choice& c : choices)
        if (!c.config.strip) most_pixels = std::max(most_pixels, c.pixels);
    // Where weights stay, short runs read them no more often; where outputs are stored one by one, a run that fills its
    // chunks is worth more. Tensors that come in boxes leave long runs little room for weights.
    const double share = most == 1 && !needs.added ? long_enough : long_enough_beside_others;
    double best_long = 1e30;
    for (const Choice& c : choices)
        if (c.pixels >= share * most_pixels && !c.config.strip) best_long = std::min(best_long, c.seconds);
    const bool alone = needs.one_by_one && needs.has_store_role() && problem.cin >= 2 * problem.lanes();
    auto pays = [&](const Choice& c) { return alone && c.config.resident && c.seconds < clearly_better * best_long; };
    std::erase_if(choices, [&](const Choice& c) {
        return c.pixels < share * most_pixels && !few(c) && !pays(c) && !c.config.strip;
    });
    const Choice* channels = nullptr;
    for (const Choice& c : choices)
        if (c.config.split == Split::channels && (!channels || c.seconds < channels->seconds)) channels = &c;
    if (most == 1 && channels) {
        auto rival = [variants = channels->variants, &few](const Choice& c) {
            return c.config.split != Split::channels && c.variants >= variants && !few(c);
        };
        double best = 1e30;
        for (const Choice& c : choices)
            if (rival(c)) best = std::min(best, c.seconds);
        if (channels->seconds < far_better * best) std::erase_if(choices, rival);
    }
    std::stable_sort(choices.begin(), choices.end(),
                     [](const Choice& a, const Choice& b) { return a.seconds < b.seconds; });
    // For measuring: first the best of each division of the work and length of run, then what else is estimated well,
    // of one run and division two memory plans only.
    if (most > 1) {
        std::map<std::tuple<Split, int, int, int>, int> seen_class;
        std::map<std::tuple<std::array<int, 4>, Split, int, int>, int> seen_run;
        auto rank = [&](const Choice& c) {
            const int length = c.config.run[0] * c.config.run[1] * c.config.run[2] * c.config.run[3];
            if (seen_class[{c.config.split, c.config.bundles, c.config.k_steps, length / 40}]++ == 0) return 0;
            return ++seen_run[{c.config.run, c.config.split, c.config.bundles, c.config.k_steps}] <= 2 ? 1 : 2;
        };
        std::vector<std::pair<int, size_t>> order;
        for (size_t i = 0; i < choices.size(); ++i) order.push_back({rank(choices[i]), i});
        std::stable_sort(order.begin(), order.end(), [](auto& a, auto& b) { return a.first < b.first; });
        // No more than half for the sake of variety.
        size_t varied = 0;
        for (auto& [kind, i] : order)
            if (kind == 0 && ++varied > most / 2) kind = 1;
        std::stable_sort(order.begin(), order.end());
        std::vector<Choice> sorted;
        for (auto& [kind, i] : order)
            if (kind < 2) sorted.push_back(std::move(choices[i]));
        choices = std::move(sorted);
    }
    std::vector<Choice> kept;
    for (Choice& choice : choices) {
        if (kept.size() == most) break;
        auto s = schedule(problem, needs, choice.config, target);
        if (!s) continue;
        choice.schedule = std::move(*s);
        kept.push_back(std::move(choice));
    }
    return kept;
}

}  // namespace

std::vector<Choice> choose(const Problem& problem, const Needs& needs, const Target& target, size_t most, int larger) {
    auto choices = search(problem, needs, target, most, larger, false);
    return choices.empty() ? search(problem, needs, target, most, larger, true) : choices;
}

double estimate(const Problem& problem, const Needs& needs, const Config& config, const Schedule& s, int tiles_a_round,
                bool whole) {
    Cost cost{problem, needs, s, config};
    double tiles = static_cast<double>(s.fixed) * s.variants;
    for (size_t a = 0; a < 4; ++a) tiles *= static_cast<double>(s.tiles_along(a, problem.axes[a]));
    const double waves = tiles / tiles_a_round;
    if (config.skips) cost.met = cost.share_met(waves);
    return seconds_of(waves, cost.cycles(), whole);
}

}  // namespace transfuse::cuda
