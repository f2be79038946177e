#include "cuda/dense/choose.h"

#include <algorithm>
#include <cmath>

namespace transfuse::cuda {

thread_local size_t choice_rank = 0;

namespace {

int round_up(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b * b); }

// Cycles of one tile on one multiprocessor: the slowest of tensor cores, shared memory, load role, store role and memory.
double tile_cycles(const Problem& problem, const Needs& needs, const Config& c, const Schedule& s) {
    double steps = 0;
    for (const auto& groups : s.steps) steps += static_cast<double>(groups[0].size() + groups[1].size());
    steps *= s.k_steps(c) * (problem.terms() == 2 ? 3.0 : 1.0) / s.variants;
    const double n = s.run_pixels;
    const double tensor = steps * n / 2 + (c.resident ? 1 : static_cast<double>(s.slabs[0].size() - 1)) * s.k_steps(c) * 60.0;
    const double turns = static_cast<double>(s.pieces) * c.piece;
    const double patch = static_cast<double>(s.stage_bytes) * s.k_stages;
    const double chunk = 2.0 * s.chunk_count * s.sets * s.planes * 2 * 64 * s.chunk_rows * c.chunk_width * 4;
    const double shared = (steps * (16 + n / 4) * 128 + patch * 3 + chunk) / 128;
    const double channels = s.vectors * problem.lanes() / 8.0 * (problem.lanes() == 8 ? 0.5 : 1.0);
    const double turn_cost = (problem.load == LoadMode::planar ? 560.0 : problem.load == LoadMode::rows || problem.load == LoadMode::direct ? 110.0 : problem.load == LoadMode::singles ? 900.0 : 200.0) * channels;
    const double load = s.k_stages * (turns * turn_cost + 200.0 * s.pieces + 150.0);
    // Outputs of the tile: what the store role and memory see.
    double outputs = 64.0 * s.phases_w * s.tile[0] * s.tile[1] * s.tile[2] * s.tile[3] / (c.split == Split::channels ? 0.5 : 1.0);
    outputs *= static_cast<double>(s.period[1] * s.period[2]) / s.variants;
    if (s.segments > 1) outputs *= static_cast<double>(problem.cout) / 64.0;
    const double pooled = static_cast<double>(needs.pool[1] * needs.pool[2] * needs.pool[3]);
    const double store = outputs * (0.035 * (1.0 + 0.25 * needs.epilogue_flops) + (needs.stores ? 0.05 / pooled : 0.0)) + 120.0 * s.chunk_count * s.sets * 2;
    const double bytes = (needs.stores ? outputs / pooled * static_cast<double>(needs.element_bytes) : 0.0) +
                         static_cast<double>(s.pixels) * static_cast<double>(problem.cin) * (16.0 / problem.lanes()) * 0.8;
    const double memory = bytes / 17.0;   // 4 TB/s over 132 multiprocessors at 1.75 GHz
    const double stream = c.resident ? 0 : static_cast<double>(s.tiles.size()) / s.variants * s.tile_bytes * s.k_steps(c) / 22.0;
    return std::max({tensor, shared, load, store, memory, stream}) + 0.12 * (tensor + load + store) + 250;
}

// Fills in what memory allows: resident weights if they fit, then slabs, raw pieces, chunks.
std::optional<Schedule> fit(const Problem& problem, const Needs& needs, Config& c, int limit) {
    Config base = c;
    base.resident = false, base.slab_tiles = 0, base.slabs = 2, base.chunk_width = 16, base.buffers = 2, base.stages = 2, base.raw = 2, base.piece = 1;
    auto probe = schedule(problem, needs, base, 1 << 30);
    if (!probe) return std::nullopt;
    const int per_turn = 128 * (problem.lanes() == 8 && problem.load != LoadMode::direct ? 2 : 1);
    const int turns = (probe->pixels + per_turn - 1) / per_turn;
    const int weights = probe->k_steps(base) * static_cast<int>(probe->tiles.size()) * probe->tile_bytes;
    const int step_tiles = static_cast<int>(probe->tiles.size()) / probe->variants;
    const bool direct = problem.load == LoadMode::direct;
    struct Option { bool resident; int slab_bytes, slabs, width, buffers, raw, stages; };
    std::vector<Option> options;
    for (bool resident : {true, false}) {
        if (resident && (weights > 150 * 1024 || probe->fixed > 16)) continue;
        for (auto [bytes, slabs] : resident ? std::vector<std::pair<int, int>>{{0, 2}} : std::vector<std::pair<int, int>>{{64 << 10, 2}, {32 << 10, 3}, {20 << 10, 3}, {12 << 10, 3}, {8 << 10, 2}})
            for (auto [width, buffers] : {std::pair{64, 4}, {64, 3}, {64, 2}, {32, 4}, {32, 3}, {32, 2}, {16, 3}, {16, 2}, {8, 2}})
                for (int raw : {4, 3}) options.push_back({resident, bytes, slabs, width, buffers, raw, direct ? 4 : 2});
    }
    const double budget_soft = 196 * 1024;
    std::optional<std::pair<Config, Schedule>> best;
    double best_score = 1e30;
    for (const Option& o : options) {
        Config k = base;
        k.resident = o.resident, k.chunk_width = o.width, k.buffers = o.buffers, k.raw = o.raw, k.stages = o.stages, k.slabs = o.slabs;
        k.piece = turns >= 3 ? 4 : turns;
        if (k.piece > 2 && probe->vectors * problem.lanes() > 8 && problem.lanes() == 4) k.piece = 2;
        if (turns > 8) k.piece = 2;
        if (problem.load != LoadMode::rows && turns <= 4) k.piece = turns;
        if (!o.resident) {
            const int tiles = std::max(1, o.slab_bytes / probe->tile_bytes);
            if (tiles < step_tiles) k.slab_tiles = tiles;
            else if (o.slab_bytes > 12 << 10 && tiles / 2 >= step_tiles && o.slab_bytes != 64 << 10) continue;
        }
        // A run shorter than the chunk needs no wider chunk.
        if (k.chunk_width > 8 && probe->row_length <= k.chunk_width / 2) continue;
        auto s = schedule(problem, needs, k, limit);
        if (!s) continue;
        double score = 0;
        if (s->shared_bytes > budget_soft) score += 1.5;
        score += o.resident ? 0 : 1.0 + (o.slab_bytes < 20 << 10 ? 0.6 : 0);
        score += o.width == 64 ? 0 : o.width == 32 ? 0.4 : o.width == 16 ? 0.8 : 2;
        if (needs.all_channels && o.width == 64) score += 0.3;
        score -= 0.25 * o.buffers + 0.15 * o.raw;
        if (score < best_score) best_score = score, best = {k, *s};
    }
    if (!best) return std::nullopt;
    c = best->first;
    return best->second;
}

}  // namespace

std::vector<Choice> choose(const Problem& problem, const Needs& needs, int multiprocessors, int shared_limit, size_t most) {
    std::array<int64_t, 4> u;
    for (size_t a = 0; a < 4; ++a) u[a] = u_extent(problem.axes[a]);
    const int grain = std::max({1, problem.load == LoadMode::rows ? problem.lanes() : problem.load == LoadMode::pairs ? 2 : 1, needs.vector});
    std::array<int, 4> step;                     // runs are whole windows of a pool
    for (size_t a = 0; a < 4; ++a) step[a] = static_cast<int>(std::max<int64_t>(1, needs.pool[a] / problem.axes[a].period()));
    const int blocks = static_cast<int>((problem.cout + 63) / 64);
    struct Rough { Config config; double score; };
    std::vector<Rough> rough;
    const int w_grain = round_up(grain, step[3]);
    for (int64_t pieces = 1; pieces <= u[3]; ++pieces) {
        const int w = round_up((u[3] + pieces - 1) / pieces, w_grain);
        if (w > 192) continue;
        if (pieces > 1 && w < 16 && u[3] > 32) break;
        for (int h = step[2]; h <= std::max<int64_t>(u[2] + step[2] - 1, step[2]); h += step[2]) {
            if (static_cast<int64_t>(h) * w > 192) break;
            for (int d = step[1]; d <= std::max<int64_t>(u[1] + step[1] - 1, step[1]); d += step[1]) {
                if (static_cast<int64_t>(d) * h * w > 192) break;
                if (d > step[1] && h < u[2]) break;
                for (int n = 1; n <= u[0]; ++n) {
                    if (static_cast<int64_t>(n) * d * h * w > 192) break;
                    if (n > 1 && (d < u[1] || h < u[2] || w < u[3] || needs.one_image)) break;
                    Config c;
                    c.run = {n, d, h, w};
                    // Useful share of all tiles.
                    double useful = 1;
                    for (size_t a = 0; a < 4; ++a) useful *= static_cast<double>(u[a]) / round_up(u[a], c.run[a]);
                    rough.push_back({c, useful * std::min(1.0, n * d * h * w / 128.0)});
                }
            }
        }
        if (w <= w_grain) break;
    }
    std::sort(rough.begin(), rough.end(), [](const Rough& a, const Rough& b) { return a.score > b.score; });
    if (rough.size() > 24) rough.resize(24);
    std::vector<Choice> choices;
    for (const Rough& r : rough)
        for (Split split : {Split::channels, Split::phases, Split::pixels}) {
            if (split == Split::channels && (blocks < 2 || (blocks % 2 && blocks > 1 && !needs.all_channels && blocks < 5))) continue;
            for (int bundles : {4, 2, 1})
                for (int k_steps : {2, 1}) {
                    Config c = r.config;
                    c.split = split, c.bundles = bundles, c.k_steps = k_steps;
                    if (k_steps > 1 && problem.cin <= problem.lanes() * 2) continue;
                    if (split == Split::pixels) {
                        if (u[2] > c.run[2]) c.runs[2] = 2;
                        else if (u[1] > c.run[1]) c.runs[1] = 2;
                        else if (u[0] > c.run[0] && !needs.one_image) c.runs[0] = 2;
                        else if (u[3] > c.run[3]) c.runs[3] = 2;
                        else c.runs[2] = 2;
                    }
                    auto s = fit(problem, needs, c, shared_limit);
                    if (!s) continue;
                    // More bundles than there are: only empty work.
                    const int groups = split == Split::phases ? 2 : 1;
                    if (bundles > 1 && (bundles - 1) * groups >= s->bundle_count) continue;
                    double tiles = static_cast<double>(s->fixed) * s->variants;
                    for (size_t a = 0; a < 4; ++a) tiles *= std::ceil(static_cast<double>(u[a]) / static_cast<double>(s->tile[a]));
                    const double waves = tiles / multiprocessors;
                    s->cycles = tile_cycles(problem, needs, c, *s);
                    const double cycles = (waves < 4 ? std::ceil(waves) : waves + 0.4) * s->cycles;
                    choices.push_back({c, std::move(*s), cycles / 1.75e9});
                }
        }
    std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) { return a.seconds < b.seconds; });
    if (choices.size() > most) choices.resize(most);
    return choices;
}

}  // namespace transfuse::cuda
