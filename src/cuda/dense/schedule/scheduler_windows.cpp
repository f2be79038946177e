// The products of a tile: which windows of the patch meet which operand tiles, and how these are cut into slabs.
#include <algorithm>

#include "cuda/dense/schedule/scheduler.h"

namespace transfuse::cuda {

void Scheduler::windows() {
    if (like_) {
        s_.variant_tiles = like_->variant_tiles, s_.variant_steps = like_->variant_steps, s_.reach = like_->reach;
        return;
    }
    s_.steps.resize(static_cast<size_t>(s_.variants));
    for (int v = 0; v < s_.variants; ++v) {
        std::array<Products, 2> each;
        for (int g = 0; g < groups(); ++g) each[g] = side_by_side(products(v, g));
        const int first_tile = static_cast<int>(s_.tiles.size());
        if (groups() == 2)
            alternate(each);
        else
            share(each, first_tile);
        s_.variant_tiles.push_back(static_cast<int>(s_.tiles.size()) - first_tile);
        s_.variant_steps.push_back(static_cast<int>(each[0].steps.size() + each[1].steps.size()));
        s_.steps[v] = {std::move(each[0].steps), std::move(each[1].steps)};
    }
}

// Bundle by bundle, accumulator by accumulator.
Scheduler::Products Scheduler::products(int variant, int group) const {
    Products all;
    for (int b = 0; b < c_.bundles; ++b)
        for (int plane = 0; plane < s_.planes_per_bundle; ++plane)
            add_products(b * s_.planes_per_bundle + plane,
                         windows_of((variant * groups() + group) * c_.bundles + b, plane), all);
    return all;
}

std::map<int, Scheduler::Window> Scheduler::windows_of(int bundle, int plane) const {
    std::map<int, Window> windows;
    for (int i = 0; i < s_.bundle_phases; ++i) {
        const size_t outer = static_cast<size_t>(bundle * s_.bundle_phases + i);
        if (outer >= real_.size()) continue;
        for (int w = 0; w < s_.phases_w; ++w)
            if (s_.plane_of_w[w] == plane)
                add_window(windows, real_[outer], w,
                           s_.phases_w <= s_.segments ? i * s_.phases_w + w : w % s_.segments);
    }
    return windows;
}

// The window of a tap begins where its shift points; segments that have no tap there multiply zeros.
void Scheduler::add_window(std::map<int, Window>& windows, const ChunkPhase& outer, int w, int segment) const {
    const int64_t taps_h = problem_.axes[2].taps, taps_w = problem_.axes[3].taps;
    for (const PhaseTap& td : phases_[1][outer.d].taps)
        for (const PhaseTap& th : phases_[2][outer.h].taps)
            for (const PhaseTap& tw : phases_[3][static_cast<size_t>(outer.w + w)].taps) {
                const int64_t sub =
                    (floor_mod(td.shift, s_.advance[1]) * s_.advance[2] + floor_mod(th.shift, s_.advance[2])) *
                        s_.advance[3] +
                    floor_mod(tw.shift, s_.advance[3]);
                const int64_t to_d = floor_div(td.shift, s_.advance[1]), to_h = floor_div(th.shift, s_.advance[2]),
                              to_w = floor_div(tw.shift, s_.advance[3]);
                const int64_t at =
                    ((sub * s_.extent[0] * s_.extent[1] + to_d - s_.first[1]) * s_.extent[2] + to_h - s_.first[2]) *
                        s_.extent[3] +
                    to_w - s_.first[3];
                const int d = static_cast<int>(to_d), h = static_cast<int>(to_h);
                Window& window = windows
                                     .try_emplace(static_cast<int>(at),
                                                  Window{std::vector<int>(static_cast<size_t>(s_.segments), -1),
                                                         {Reach{d, d}, Reach{h, h}}})
                                     .first->second;
                window.taps[static_cast<size_t>(segment)] =
                    static_cast<int>((td.tap * taps_h + th.tap) * taps_w + tw.tap);
            }
}

// One product a window, or one for two of them in the K halves.
void Scheduler::add_products(int block, const std::map<int, Window>& windows, Products& to) const {
    bool first = true;
    for (auto one = windows.begin(); one != windows.end(); ++one) {
        const auto before = one;
        const bool two = s_.pairs && std::next(one) != windows.end();
        if (two) ++one;
        Made made{{}, before->second.reach};
        for (size_t segment = 0; segment < static_cast<size_t>(s_.segments); ++segment)
            made.tile.taps.push_back({before->second.taps[segment], s_.pairs && !two ? -1 : one->second.taps[segment]});
        for (size_t a = 0; a < 2 && two; ++a) made.reach[a].include(one->second.reach[a]);
        to.steps.push_back(
            {block, static_cast<int>(to.tiles.size()), before->first, two ? one->first - before->first : 0, first});
        to.tiles.push_back(std::move(made));
        first = false;
    }
}

// The k-th window of every accumulator before the next, so that none waits for itself.
Scheduler::Products Scheduler::side_by_side(const Products& in) const {
    std::vector<int> seen(static_cast<size_t>(s_.blocks), 0);
    std::vector<std::pair<int, const WindowStep*>> rank;
    for (const WindowStep& step : in.steps) rank.push_back({seen[static_cast<size_t>(step.block)]++, &step});
    std::stable_sort(rank.begin(), rank.end(), [](auto& a, auto& b) { return a.first < b.first; });
    Products out;
    for (const auto& [k, step] : rank) {
        out.steps.push_back(*step);
        out.steps.back().tile = static_cast<int>(out.tiles.size());
        out.tiles.push_back(in.tiles[static_cast<size_t>(step->tile)]);
    }
    return out;
}

// Operand tiles in the order they are used: the warpgroups' own alternate, so that a slab serves both.
void Scheduler::alternate(std::array<Products, 2>& each) {
    const size_t n0 = each[0].tiles.size(), n1 = each[1].tiles.size();
    std::array<std::vector<int>, 2> moved;
    for (size_t i0 = 0, i1 = 0; i0 < n0 || i1 < n1;) {
        const bool first = i1 >= n1 || (i0 < n0 && i0 * std::max<size_t>(n1, 1) <= i1 * std::max<size_t>(n0, 1));
        moved[first ? 0 : 1].push_back(static_cast<int>(s_.tiles.size()));
        use(first ? each[0].tiles[i0++] : each[1].tiles[i1++]);
    }
    for (size_t g = 0; g < 2; ++g)
        for (WindowStep& step : each[g].steps) step.tile = moved[g][static_cast<size_t>(step.tile)];
}

// Both warpgroups have the same windows: with the same tiles, or each with its block of channels.
void Scheduler::share(std::array<Products, 2>& each, int first_tile) {
    for (const Made& made : each[0].tiles)
        for (int block = 0; block < s_.blocks_per_tile; ++block) {
            use(made);
            s_.tiles.back().channel_block = block;
        }
    each[1].steps = each[0].steps;
    for (int g = 0; g < 2; ++g)
        for (WindowStep& step : each[static_cast<size_t>(g)].steps)
            step.tile = first_tile + step.tile * s_.blocks_per_tile + (c_.split == Split::channels ? g : 0);
}

void Scheduler::slabs() {
    s_.slabs.resize(static_cast<size_t>(s_.variants));
    for (int v = 0, first_tile = 0; v < s_.variants; first_tile += s_.variant_tiles[static_cast<size_t>(v++)]) {
        const int mine = s_.variant_tiles[static_cast<size_t>(v)], end = first_tile + mine;
        const int slab = slab_of(mine, c_.slab_tiles, s_.blocks_per_tile);
        auto& slabs = s_.slabs[static_cast<size_t>(v)];
        for (int at = first_tile; at < end; at += slab) slabs.push_back(at);
        if (slabs.empty()) slabs.push_back(first_tile);
        slabs.push_back(end);
        s_.slab_bytes = std::max(s_.slab_bytes, slab * s_.tile_bytes);
    }
}

}  // namespace transfuse::cuda
