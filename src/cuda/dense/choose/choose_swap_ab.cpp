#include "cuda/dense/choose/choose_swap_ab.h"

#include <algorithm>
#include <vector>

#include "algebra/lattice/integer.h"
#include "cuda/dense/schedule/figures.h"
#include "cuda/dense/schedule/serpentine.h"
#include "cuda/dense/schedule/swap_ab_shape.h"

namespace transfuse::cuda {

namespace {

// Windows that go on from row to row, of rows whose length is known, or that are parts of one row; with so many
// residues along w.
std::vector<Config> runs(const Problem& problem, int phases) {
    std::vector<Config> list;
    const int columns = static_cast<int>(round_up(u_extent(problem.axes[3]), problem.grain()));
    Config c;
    c.exit = Exit::swap_ab, c.split = Split::pixels, c.store_groups = 0, c.chunk_width = 16;
    c.share_registers();
    c.w_phases = phases == problem.axes[3].period() ? 0 : phases;
    c.run = {1, 1, 2 * swap_ab_pixels / columns + 2, columns};
    for (const bool shared : {true, false})
        if (!problem.any_size) c.shared_padding = shared, list.push_back(c);
    c.shared_padding = false, c.run = {1, 1, 1, swap_ab_pixels}, c.runs[3] = 2;
    list.push_back(c);
    return list;
}

// To and fro: half the steps' weights in the ring, patches as deep as they fit, then more weights (f11 channels last:
// eight stages and four slabs 0.657 ms, five and five 0.663, three and six 0.729). Rows of results are laid down
// sixteen channels at a time, or eight where that leaves room for more stages (f11 in planes 0.823 -> 0.778 ms; where
// it does not, in fp16, 0.653 -> 0.683).
std::optional<Schedule> fit_serpentine(const Problem& problem, const Needs& needs, Config& c, const Target& target,
                                       int larger) {
    const int steps = static_cast<int>((problem.cin + 2 * problem.lanes() - 1) / (2 * problem.lanes()));
    std::optional<Schedule> best;
    c.slab_tiles = 0, c.slabs = (steps + 1) / 2;
    for (c.stages = std::min(8, std::max(2, steps)); c.stages > 1 && !best; c.stages -= !best)
        for (const int laid : {16, 8}) {
            c.chunk_width = laid, best = schedule(problem, needs, c, target);
            if (best) break;
        }
    if (!best || !serpentine(problem, c, *best) || best->fixed * best->variants > tiles_a_round(target, larger))
        return std::nullopt;  // a block keeps to one part
    while (c.slabs < steps) {
        ++c.slabs;
        auto more = schedule(problem, needs, c, target);
        if (!more || !serpentine(problem, c, *more)) {
            --c.slabs;
            break;
        }
        best = std::move(more);
    }
    return best;
}

std::optional<Schedule> fit(const Problem& problem, const Needs& needs, Config& c, const Target& target, int larger) {
    const int channels = static_cast<int>(round_up(problem.cout, 8));
    const bool operand = problem.load == LoadMode::operand || problem.load == LoadMode::direct;
    c.raw = problem.boxed() ? 2 : 3;
    c.piece = problem.transposed() && problem.cin > problem.lanes() ? 2 : 1;
    for (const int bundles : {4, 2, 1}) {
        c.bundles = bundles;
        auto serves = [&](const std::optional<Schedule>& s) {
            return s && (bundles == 1 || bundles <= s->bundle_count);
        };
        if (auto s = fit_serpentine(problem, needs, c, target, larger); serves(s)) return s;
        c.chunk_width = 16;
        c.slab_tiles = std::max(1, figures::swap_ab_slab_bytes / (32 * channels)), c.stages = operand ? 4 : 3;
        for (const int slabs : {8, 7, 6, 5, 4, 3, 2}) {
            c.slabs = slabs;
            if (auto s = schedule(problem, needs, c, target); serves(s)) return s;
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<Choice> choose_swap_ab(const Problem& problem, const Needs& needs, const Target& target, int larger) {
    std::optional<Choice> best;
    // All residues along w where accumulators have room for them: their outputs lie side by side.
    const int period = static_cast<int>(problem.axes[3].period());
    for (int phases = period; phases > 0 && !best; phases = phases % 2 ? 0 : phases / 2)
        for (Config& c : runs(problem, phases)) {
            auto s = fit(problem, needs, c, target, larger);
            if (!s) continue;
            const double seconds = estimate(problem, needs, c, *s, tiles_a_round(target, larger));
            if (best && best->seconds <= seconds) continue;
            best.emplace();
            best->config = c, best->schedule = std::move(*s), best->seconds = seconds;
        }
    return best;
}

}  // namespace transfuse::cuda
