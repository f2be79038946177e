#include "cuda/dense/choose.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "cuda/dense/box_shape.h"

namespace transfuse::cuda {

namespace {

int round_up(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b * b); }

// What a configuration costs, in cycles of one multiprocessor, and whether it fits.
struct Model {
    const Problem& problem;
    const Needs& needs;
    const Schedule& s;      // geometry; memory is decided here
    Config c;

    int chunk_pixels() const { return s.chunk_rows * c.chunk_width; }
    int chunk_bytes() const {
        if (needs.fragments) return needs.boxed ? boxes_bytes(box_shape(problem, needs, c, s)) : 0;
        const int pixels = chunk_pixels();
        const int pitch = needs.pixel_major ? s.chunk_height + 4 : pixels + (pixels % 16 == 0 ? 8 : 0);
        return (needs.pixel_major ? pixels : s.chunk_height) * pitch * problem.real_bytes();
    }
    int slab_count() const {   // a K step
        const int tiles = s.tile_count() / s.variants;
        return c.resident || c.slab_tiles == 0 ? 1 : (tiles + c.slab_tiles - 1) / c.slab_tiles;
    }
    int weight_bytes() const {
        if (c.resident) return s.k_stages * c.k_steps * s.tile_count() * s.tile_bytes;
        int most = 1;
        for (int tiles : s.variant_tiles) most = std::max(most, slab_of(tiles, c.slab_tiles, s.blocks_per_tile));
        return c.slabs * most * s.tile_bytes;
    }
    // The share of all slabs, over all tiles, whose windows meet the image.
    double share_met() const {
        double met = 0, all = 0;
        for (int v = 0, begin = 0; v < s.variants; ++v) {
            const int end = begin + s.variant_tiles[static_cast<size_t>(v)], slab = slab_of(end - begin, c.slab_tiles, s.blocks_per_tile);
            for (; begin < end; begin += slab) {
                const int next = std::min(end, begin + slab);
                const auto reach = s.reach_of(begin, next);
                double tiles = next - begin;
                for (size_t a = 1; a < 3; ++a) {
                    const int64_t count = (u_extent(problem.axes[a]) + s.tile[a] - 1) / s.tile[a];
                    int64_t meeting = 0;
                    for (int64_t k = 0; k < count; ++k) meeting += reach[a - 1].meets(k * s.tile[a], s.tile[a], problem.axes[a].in, s.advance[a]);
                    tiles *= static_cast<double>(meeting) / static_cast<double>(count);
                }
                met += tiles, all += next - begin;
            }
            begin = end;
        }
        return all > 0 ? met / all : 1;
    }
    double met = 1;         // share_met() where slabs are skipped
    int per_turn() const { return 128 * problem.word_pixels(); }
    int turns() const { return (s.pixels + per_turn() - 1) / per_turn(); }
    int raw_bytes() const { return c.raw * s.raw_piece_bytes(problem, c); }
    int bytes() const {
        return weight_bytes() + c.stages * s.stage_bytes + raw_bytes() + c.buffers * chunk_bytes() + 2 * needs.ahead * s.outputs_of(chunk_pixels()) + needs.table_bytes + c.store_groups * needs.group_bytes + s.places_bytes(problem, c) + 16 + 1024 + (needs.boxed ? 1024 : 0);
    }

    // What each role and each resource takes for a tile, were it alone.
    struct Parts { double product, load, shared, store, memory; };
    Parts parts() const {
        const double k = s.k_stages * c.k_steps, n = s.run_pixels, terms = problem.terms() == 2 ? 3 : 1;
        double steps = 0, tiles = s.tile_count();
        for (int v : s.variant_steps) steps += v;
        steps *= met * terms / s.variants, tiles *= met / s.variants;     // a K step of one tile
        // Tensor cores; weights must arrive in time: about 2500 cycles from asking, the ring's depth ahead.
        // mma.sync: half the rate (an eighth in fp64), and each warp reads its operands itself.
        const bool warps = problem.family == Family::mma;
        const double multiply = warps ? n * problem.real_bytes() / 4 * (problem.real_bytes() / 4) : n / 2, operands = warps ? 32 + n / 2 : 16 + n / 4;
        double step = std::max(steps * multiply, steps * operands);
        if (!c.resident) {
            const double slabs = met * slab_count(), slab = step / slabs;
            step = (std::max(slab, (2500 + slab) / c.slabs) + (problem.boxed() ? 60 : 100)) * slabs;   // boxes: a warp of its own asks
            step = std::max(step, tiles * s.tile_bytes / (needs.fragments ? 32.0 : 24.0));   // L2 to one multiprocessor, with stores or without
        }
        // Loads: the raw pieces, and what is done with them.
        const double channels = s.vectors * problem.lanes() / 8.0 * (problem.lanes() == 8 ? 0.5 : 1.0);
        const double turn = (problem.load == LoadMode::planar ? 500.0 : problem.load == LoadMode::boxes ? (problem.lanes() == 8 ? 430.0 : 290.0) : problem.load == LoadMode::rows ? 150.0 : problem.load == LoadMode::operand ? 400.0 : problem.load == LoadMode::direct ? 90.0 : problem.load == LoadMode::singles ? 900.0 : 220.0) * channels;
        const double pieces = problem.load == LoadMode::boxes ? s.vectors / c.piece : problem.load == LoadMode::operand ? 0 : (turns() + c.piece - 1) / c.piece;
        const double load = s.k_stages * (s.pixels / static_cast<double>(per_turn()) * turn + (problem.boxed() ? 300.0 : 400.0) * pieces + 250.0);
        // Chunks: what the store role takes, and how long the products wait for room.
        const double chunks = std::ceil(s.row_length / static_cast<double>(c.chunk_width)) * s.sets * (s.joint ? 1 : 2);
        const double outer = static_cast<double>(s.chunk_outer);
        const double rows = s.segments > 1 ? static_cast<double>(problem.cout) * std::min<double>(outer, s.real_outer) * s.phases_w : s.chunk_height;
        const double elements = rows * chunk_pixels() * (s.chunk_outer > s.real_outer ? outer / s.real_outer : 1.0);
        const double inside = static_cast<double>(c.run[0] * c.run[1] * c.run[2] * c.run[3]) / (std::ceil(s.row_length / static_cast<double>(c.chunk_width)) * chunk_pixels());   // of its pixels
        const double pooled = static_cast<double>(needs.pool[1] * needs.pool[2] * needs.pool[3]);
        // Some residues along w only: their pieces fill their sectors in part.
        const double apart = needs.pixel_major || s.phases_w == s.period[3] ? 1.0 : std::min(static_cast<double>(s.period[3]), 32.0 / static_cast<double>(needs.element_bytes)) / s.phases_w;
        double chunk = 350 + elements * 4 / 48 + elements / 128 * needs.epilogue_flops * 1.6 + (needs.stores ? apart * elements / pooled * static_cast<double>(needs.element_bytes) / (needs.vector > 1 || s.phases_w > 1 ? 40 : 24) : 0);
        if (needs.all_channels) chunk += 300;
        if (needs.ahead) chunk = std::max(chunk, 1500.0);   // its tensors were asked for a chunk ago: a memory's latency
        // On fragments two warps a scheduler run the chain, while no products do.
        const double fragments = needs.fragments ? 200 + 2 * s.blocks * s.accumulators * (1 + needs.epilogue_flops) : needs.folded ? 200 + s.blocks * s.accumulators * (3 + needs.epilogue_flops) : 0;
        const double store = needs.fragments ? 0 : chunks * chunk / c.store_groups;
        const double boxed = needs.boxed ? 2.0 * s.blocks * box_shape(problem, needs, c, s).segments * static_cast<double>(std::min<int64_t>(s.segment, problem.cout)) * c.run[0] * c.run[1] * c.run[2] * c.run[3] * needs.boxed : 0;   // bytes
        const double write = needs.boxed ? boxed / 100.0 : chunks * chunk_bytes() / 100.0;
        const double wait = needs.fragments ? 0 : (s.joint ? 0.8 : 0.3) * std::max(0.0, chunks - c.buffers) * chunk / c.store_groups;
        const double product = k * step + s.k_stages * 200.0 + wait + write / 2 + 400 + fragments + (needs.boxed ? 300 * s.blocks : 0);
        const double shared = k * steps * operands + static_cast<double>(s.stage_bytes) * s.k_stages * 3 / 128 + 2 * (needs.boxed ? boxed : chunks * chunk_bytes()) / 128.0;
        const double memory = ((needs.boxed ? boxed : needs.stores ? chunks * elements / pooled * static_cast<double>(needs.element_bytes) : 0.0) + chunks * elements * inside * needs.ahead +
                               static_cast<double>(s.pixels) * static_cast<double>(problem.cin) * (16.0 / problem.lanes()) * 0.75) / 16.5;
        return {product, load, shared, store, memory};
    }

    double cycles() const {
        const auto [product, load, shared, store, memory] = parts();
        const double n = s.run_pixels;
        const double ragged = 1 + (needs.one_by_one ? 12.0 : 6.0) / static_cast<double>(c.run[3] * s.period[3]);   // short rows fill their sectors badly
        double total = std::max({product, load + 300, shared, store * ragged, memory * ragged});
        total += 0.08 * (product + load + store + memory - total);        // they disturb one another
        if (!problem.boxed() && bytes() > 200 * 1024) total *= 1.06;      // little L1 is left
        if (c.piece < s.vectors && problem.load == LoadMode::boxes) total *= 1.04; // more hand-overs a stage
        if (c.split == Split::phases) total *= 1.05;                      // warpgroups of unlike work
        if (s.blocks == 1) total *= 1.12 - 0.12 * n / 192;                // long runs: fewer hand-overs than are counted here
        if (c.k_steps == 4) total *= 1.05;                                // few, long stages
        if (!c.resident && c.slabs == 2) total *= 1.04;                   // the next slab is asked for late
        total *= 1 + 0.1 * std::min(s.variants - 1, 2);                   // tiles of unlike work that load the same patch
        return total;
    }
};

// Few tiles: their number is rounded up.
double seconds_of(double waves, double cycles) { return (waves < 6 ? std::ceil(waves) : waves + 0.4) * cycles / 1.75e9; }

// The memory plans: of all that fit, the one with the fewest cycles, and with `several` the best of each kind: resident and
// streamed weights, wide and narrow chunks, many slabs and few.
struct Fit {
    Config config;
    double cycles;
};
std::vector<Fit> fit(const Problem& problem, const Needs& needs, const Schedule& s, const Config& base, int limit, bool several, bool tight) {
    std::map<std::array<int, 3>, Fit> best;
    Model m{problem, needs, s, base};
    const int turns = m.turns(), step_tiles = s.tile_count() / s.variants;
    const bool direct = problem.load == LoadMode::direct || problem.load == LoadMode::operand;
    m.c.stages = direct ? 4 : base.stages;
    // The whole patch in one piece where it is small: then a thread's place in it never changes.
    const int whole = std::max(1, 6 * 8 / (s.vectors * 4));
    m.c.piece = problem.load == LoadMode::boxes ? s.vectors : turns <= whole ? turns : std::max(1, std::min(2 * whole / 3, 4));
    const int piece = m.c.piece;
    struct Weights { bool resident; int tiles, slabs; };
    std::vector<Weights> weights;
    if (s.fixed <= 16) weights.push_back({true, 0, 1});
    for (int parts : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128}) {
        if (parts > 32 && !tight) break;
        const int tiles = (step_tiles + parts - 1) / parts;
        if (tiles * s.tile_bytes > 66 << 10) continue;
        if (parts > 1 && tiles * s.tile_bytes < (tight ? 2 : 6) << 10) break;
        for (int slabs : {2, 3, 4, 6}) weights.push_back({false, parts == 1 ? 0 : tiles, slabs});
    }
    // Slabs of whole rows of taps, which can be skipped where they lie outside the image: few pixels, many taps.
    int row_tiles = 0;
    while (row_tiles < step_tiles && s.reach[static_cast<size_t>(row_tiles)][0].first == s.reach[0][0].first && s.reach[static_cast<size_t>(row_tiles)][1].first == s.reach[0][1].first) ++row_tiles;
    m.c.slab_tiles = row_tiles;
    if (row_tiles < step_tiles && m.share_met() < 0.95)
        for (int rows = 1; rows * row_tiles * s.tile_bytes <= 40 << 10; ++rows)
            for (int slabs : {2, 3, 4, 6}) weights.push_back({false, rows * row_tiles, slabs});
    static constexpr std::pair<int, int> chunks[] = {{64, 6}, {64, 4}, {64, 3}, {64, 2}, {32, 8}, {32, 6}, {32, 4}, {32, 3}, {32, 2}, {16, 8}, {16, 4}, {16, 2}, {8, 4}, {8, 2}};
    for (const Weights& w : weights) {
        m.c.resident = w.resident, m.c.slab_tiles = w.tiles, m.c.slabs = w.slabs;
        m.met = w.resident ? 1 : m.share_met();
        m.c.skips = m.met < 0.95;   // asking costs a little: 3.3 % fewer products were 2 % slower (d2)
        if (!m.c.skips) m.met = 1;
        if (m.weight_bytes() > limit - 40 * 1024) continue;
        for (auto [width, buffers] : chunks) {
            if (needs.fragments && (width != 64 || buffers != 2)) continue;
            if (needs.folded && width != 64) continue;
            if (!needs.fragments && !needs.folded && width > 8 && s.row_length <= width / 2) continue;
            if (needs.pool[3] > 1 && width % (needs.pool[3] / s.period[3]) != 0) continue;
            m.c.chunk_width = needs.folded ? round_up(s.row_length, 32) : width, m.c.buffers = buffers;   // folded: whole runs are small
            for (int raw : {4, 3, 2}) {
                m.c.raw = raw, m.c.store_groups = needs.fragments ? 0 : 1;
                if (problem.load == LoadMode::boxes) {   // a large patch comes vector by vector
                    m.c.piece = s.vectors;
                    if (m.bytes() > limit) m.c.piece = 1;
                }
                if (tight)
                    for (m.c.piece = piece; m.bytes() > limit && m.c.piece > 1;) m.c.piece = (m.c.piece + 1) / 2;
                if (m.bytes() > limit) continue;
                // Alike in cycles: wide chunks, and for threads that fetch themselves more in flight and weights that stay.
                double cycles = m.cycles() * (width == 64 ? 1.0 : width == 32 ? 1.03 : width == 16 ? 1.08 : 1.12);
                cycles *= problem.boxed() ? (raw == 3 ? 1.0 : 1.003) : (raw == 4 ? 1.0 : raw == 3 ? 1.01 : 1.04) * (w.resident ? 1.0 : 1.05);
                const std::array<int, 3> kind = several ? std::array<int, 3>{w.resident ? -1 : w.tiles, width >= 32, buffers > 2} : std::array<int, 3>{};
                const auto at = best.find(kind);
                if (at == best.end()) best.emplace(kind, Fit{m.c, cycles});
                else if (cycles < at->second.cycles) at->second = {m.c, cycles};
            }
        }
    }
    std::vector<Fit> list;
    for (auto& [kind, one] : best) list.push_back(one), list.back().config.share_registers();
    return list;
}

// tight: short rows, thin slabs and small pieces as well, for patches of many taps in little shared memory.
std::vector<Choice> search(const Problem& problem, const Needs& needs, int multiprocessors, int shared_limit, size_t most, bool tight) {
    std::array<int64_t, 4> u;
    for (size_t a = 0; a < 4; ++a) u[a] = u_extent(problem.axes[a]);
    const int grain = std::max(problem.grain(), needs.vector);
    std::array<int, 4> step;                     // runs are whole windows of a pool
    for (size_t a = 0; a < 4; ++a) step[a] = static_cast<int>(std::max<int64_t>(1, needs.pool[a] / problem.axes[a].period()));
    const int blocks = static_cast<int>((problem.cout + 63) / 64);
    struct Rough { Config config; double score; int pixels; };
    std::vector<Rough> rough;
    const int longest = problem.longest_run();   // strict keeps its sums beside the accumulators
    const int w_grain = round_up(grain, step[3]);
    for (int64_t pieces = 1; pieces <= u[3]; ++pieces) {
        const int w = round_up((u[3] + pieces - 1) / pieces, w_grain);
        if (w > longest) continue;
        if (pieces > 1 && w < (tight ? 8 : 16) && u[3] > 32) break;
        for (int h = step[2]; h <= std::max<int64_t>(u[2] + step[2] - 1, step[2]); h += step[2]) {
            if (static_cast<int64_t>(h) * w > longest) break;
            for (int d = step[1]; d <= std::max<int64_t>(u[1] + step[1] - 1, step[1]); d += step[1]) {
                if (static_cast<int64_t>(d) * h * w > longest) break;
                if (d > step[1] && h < u[2]) break;
                for (int n = 1; n <= u[0]; ++n) {
                    if (static_cast<int64_t>(n) * d * h * w > longest) break;
                    if (n > 1 && (d < u[1] || h < u[2] || w < u[3] || needs.one_image)) break;
                    Config c;
                    c.run = {n, d, h, w};
                    // Useful share of all tiles.
                    double useful = 1;
                    for (size_t a = 0; a < 4; ++a) useful *= static_cast<double>(u[a]) / round_up(u[a], c.run[a]);
                    rough.push_back({c, useful * (1 - 4.0 / (w + 4.0)), n * d * h * w});
                }
            }
        }
        if (w <= w_grain) break;
    }
    std::sort(rough.begin(), rough.end(), [](const Rough& a, const Rough& b) { return a.score > b.score; });
    std::vector<std::array<int, 4>> seen;
    std::erase_if(rough, [&](const Rough& r) {
        const bool known = std::find(seen.begin(), seen.end(), r.config.run) != seen.end();
        seen.push_back(r.config.run);
        return known;
    });
    // The best of every length: which of them fits depends on how many accumulators stand side by side.
    std::array<int, 4> taken{};   // by length
    std::erase_if(rough, [&](const Rough& r) { return ++taken[r.pixels > 120 ? 0 : r.pixels > 80 ? 1 : r.pixels > 48 ? 2 : 3] > 16; });
    std::vector<std::pair<int, int>> bundlings{{4, 0}, {2, 0}, {1, 0}};   // bundles, and residues along w in each
    for (int64_t part = problem.axes[3].period() / 2; part > 0 && problem.axes[3].period() >= 4 && problem.axes[3].period() % part == 0; part /= 2)
        for (int bundles : {2, 1}) bundlings.push_back({bundles, static_cast<int>(part)});
    std::vector<Choice> choices;
    for (Split split : {Split::channels, Split::phases, Split::pixels}) {
        if (split == Split::channels && (blocks < 2 || (blocks % 2 && !needs.all_channels && blocks < 5))) continue;
        for (const auto& [bundles, w_phases] : bundlings)
            for (int k_steps : {4, 2, 1}) {
                if (k_steps > 1 && problem.cin <= problem.lanes() * k_steps) continue;
                std::optional<Schedule> like;   // steps do not depend on the run
                for (const Rough& r : rough) {
                    Config c = r.config;
                    c.split = split, c.bundles = bundles, c.w_phases = w_phases, c.k_steps = k_steps;
                    c.chunk_width = needs.folded ? 192 : 8, c.piece = 1, c.slab_tiles = 1, c.slabs = 2, c.raw = 3;   // little memory: only to see the shape
                    if (split == Split::pixels) {
                        if (u[2] > c.run[2]) c.runs[2] = 2;
                        else if (u[1] > c.run[1]) c.runs[1] = 2;
                        else if (u[0] > c.run[0] && !needs.one_image) c.runs[0] = 2;
                        else if (u[3] > c.run[3]) c.runs[3] = 2;
                        else c.runs[2] = 2;
                    }
                    c.shared_padding = true;
                    auto s = c.run[0] * c.run[1] * c.run[2] > 1 ? schedule(problem, needs, c, 1 << 30, like ? &*like : nullptr) : std::nullopt;
                    if (!s) {
                        c.shared_padding = false;
                        s = schedule(problem, needs, c, 1 << 30, like ? &*like : nullptr);
                    }
                    if (!s) continue;
                    if (!like) like = s;
                    // More bundles than there are: only empty work.
                    const int groups = split == Split::phases ? 2 : 1;
                    if (bundles > 1 && (bundles - 1) * groups >= s->bundle_count) continue;
                    double tiles = static_cast<double>(s->fixed) * s->variants, useful = 1;
                    for (size_t a = 0; a < 4; ++a) {
                        const double along = std::ceil(static_cast<double>(u[a]) / static_cast<double>(s->tile[a]));
                        tiles *= along, useful *= static_cast<double>(u[a]) / (along * static_cast<double>(s->tile[a]));
                    }
                    const double waves = tiles / multiprocessors;
                    for (const Fit& f : fit(problem, needs, *s, c, shared_limit, most > 1, tight)) {
                        Choice choice;
                        choice.config = f.config;
                        choice.pixels = s->blocks * r.pixels * useful;
                        choice.waves = waves, choice.variants = s->variants;
                        choice.seconds = seconds_of(waves, f.cycles);
                        choices.push_back(std::move(choice));
                    }
                }
            }
    }
    // What measurements agree on: long runs beat short ones, and warpgroups divide channels where they can (the patch is loaded once
    // for both) unless another division is estimated far better, or loads it for fewer parts of the phases. Few tiles are another
    // matter: the machine must be filled.
    auto few = [most](const Choice& c) { return most == 1 && c.waves < 4; };
    double most_pixels = 0;
    for (const Choice& c : choices) most_pixels = std::max(most_pixels, c.pixels);
    std::erase_if(choices, [&](const Choice& c) { return c.pixels < (most == 1 ? 0.72 : 0.5) * most_pixels && !few(c); });
    const Choice* channels = nullptr;
    for (const Choice& c : choices)
        if (c.config.split == Split::channels && (!channels || c.seconds < channels->seconds)) channels = &c;
    if (most == 1 && channels) {
        auto rival = [variants = channels->variants, &few](const Choice& c) { return c.config.split != Split::channels && c.variants >= variants && !few(c); };
        double best = 1e30;
        for (const Choice& c : choices)
            if (rival(c)) best = std::min(best, c.seconds);
        if (channels->seconds < 1.25 * best) std::erase_if(choices, rival);
    }
    std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) { return a.seconds < b.seconds; });
    // For measuring: first the best of each division of the work and length of run, then what else is estimated well, of one run
    // and division two memory plans only.
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
        auto s = schedule(problem, needs, choice.config, shared_limit);
        if (!s) continue;
        choice.schedule = std::move(*s);
        kept.push_back(std::move(choice));
    }
    return kept;
}

}  // namespace

std::vector<Choice> choose(const Problem& problem, const Needs& needs, int multiprocessors, int shared_limit, size_t most) {
    auto choices = search(problem, needs, multiprocessors, shared_limit, most, false);
    return choices.empty() ? search(problem, needs, multiprocessors, shared_limit, most, true) : choices;
}

double estimate(const Problem& problem, const Needs& needs, const Config& config, const Schedule& s, int multiprocessors) {
    Model model{problem, needs, s, config};
    if (config.skips) model.met = model.share_met();
    double tiles = static_cast<double>(s.fixed) * s.variants;
    for (size_t a = 0; a < 4; ++a) tiles *= std::ceil(static_cast<double>(u_extent(problem.axes[a])) / static_cast<double>(s.tile[a]));
    return seconds_of(tiles / multiprocessors, model.cycles());
}

}  // namespace transfuse::cuda
