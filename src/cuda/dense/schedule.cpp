#include "cuda/dense/schedule.h"

#include <algorithm>
#include <map>

#include "algebra/integer.h"
#include "cuda/dense/box_shape.h"

namespace transfuse::cuda {

namespace {

int round_up(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b * b); }

}  // namespace

int64_t u_extent(const Lattice& axis) { return (axis.out + axis.period() - 1) / axis.period(); }

int slab_of(int tiles, int most, int blocks_per_tile) {
    const int slab = std::max(1, most > 0 ? most : tiles), count = std::max(1, (tiles + slab - 1) / slab);
    return std::max(1, round_up((tiles + count - 1) / count, blocks_per_tile));
}

int Schedule::raw_piece_bytes(const Problem& problem, const Config& c) const {
    switch (problem.load) {
        case LoadMode::direct:
        case LoadMode::operand: return 0;
        case LoadMode::boxes: return round_up(c.piece * 16 * raw_pixels, 128);
        default: return c.piece * vectors * 16 * 128 * problem.word_pixels();
    }
}

int Schedule::places_bytes(const Problem& problem, const Config& c) const {
    if (problem.load != LoadMode::rows) return 0;
    const int per_turn = 128 * problem.word_pixels(), turns = (pixels + per_turn - 1) / per_turn;
    const int pieces_now = (turns + c.piece - 1) / c.piece, copies = c.piece * per_turn / problem.lanes();
    return pieces_now > 1 ? pieces_now * ((copies + 127) / 128) * 128 * (problem.wide_offsets ? 8 : 4) : 0;
}

std::array<Reach, 2> Schedule::reach_of(int begin, int end) const {
    if (begin >= end) return {};
    std::array<Reach, 2> all = reach[static_cast<size_t>(begin)];
    for (int k = begin + 1; k < end; ++k)
        for (size_t a = 0; a < 2; ++a) all[a].include(reach[static_cast<size_t>(k)][a]);
    return all;
}

int Schedule::tile_count() const {
    int count = 0;
    for (int n : variant_tiles) count += n;
    return count;
}

int Schedule::row_of(int outer, int w) const {
    if (outer >= real_outer) return -1;
    const int bundle = outer / bundle_phases, within = outer % bundle_phases;
    const int plane = plane_of_w[w];
    if (plane < 0) return -1;
    const int seg = phases_w <= segments ? within * phases_w + w : w % segments;
    // Joint chunks of split phases hold the bundles of both warpgroups one after the other.
    const int per_group = planes / planes_per_bundle;
    const int group = joint && rows_per_plane == 1 ? bundle / per_group : 0;
    const int local = joint && rows_per_plane == 1 ? bundle % per_group : bundle;
    return ((local * planes_per_bundle + plane) * rows_per_plane + group * rows_per_group) * block_rows + seg * segment;
}

int Schedule::residue_of(int row) const {
    const int seg = row % block_rows / segment;
    return phases_w <= segments ? seg % phases_w : row / block_rows % planes_per_bundle * segments + seg;
}

bool Schedule::lacks_rows() const {
    for (int q = 0; q < chunk_outer; ++q)
        for (int w = 0; w < phases_w; ++w)
            if (row_of(q, w) < 0) return true;
    return false;
}

std::optional<Schedule> schedule(const Problem& problem, const Needs& needs, const Config& config, int shared_limit, const Schedule* like) {
    Schedule s;
    std::array<std::vector<Phase>, 4> phases;
    std::array<int64_t, 4> last{};
    for (int a = 0; a < 4; ++a) {
        const Lattice& axis = problem.axes[a];
        phases[a] = axis.phases();
        s.period[a] = axis.period(), s.advance[a] = axis.advance();
        bool any = false;
        for (const Phase& phase : phases[a])
            for (const PhaseTap& tap : phase.taps) {
                const int64_t q = floor_div(tap.shift, s.advance[a]);
                s.first[a] = any ? std::min(s.first[a], q) : q;
                last[a] = any ? std::max(last[a], q) : q;
                any = true;
            }
        if (!any) return std::nullopt;
        s.tile[a] = static_cast<int64_t>(config.run[a]) * config.runs[a];
    }
    // Copies of several neighbouring pixels begin and end on their own multiples.
    const int grain = config.flat ? 1 : problem.grain();
    s.first[3] = floor_div(s.first[3], grain) * grain;
    if (s.tile[3] % grain != 0) return std::nullopt;
    for (int a = 0; a < 4; ++a) s.extent[a] = s.tile[a] + last[a] - s.first[a];
    const bool tall = needs.pooled && config.run[0] * config.run[1] * config.run[2] > 1;
    const int pitch_grain = std::max({tall ? 8 : 2, needs.vector, grain});
    const int64_t used = u_extent(problem.axes[3]) + last[3];   // end of what stored outputs read, from column 0
    s.extent[3] = round_up(s.extent[3], pitch_grain);
    if (config.shared_padding) {
        // A row begins `first` columns before the image. What it reads beyond its pitch is the beginning of the next row: zeros, up
        // to column 0 of the image, and there is no pixel of its own any more. After the last row the kernel keeps zeros.
        const int pitch = round_up(std::max({used - std::max<int64_t>(s.first[3], 0), std::min(problem.axes[3].in, used) - s.first[3], s.tile[3]}), pitch_grain);
        if (problem.any_size || s.advance[3] > 1 || u_extent(problem.axes[3]) > s.tile[3] || pitch >= s.extent[3]) return std::nullopt;
        s.extent[3] = pitch;
        s.tail = static_cast<int>(std::max<int64_t>(0, used - s.first[3] - pitch));
    }
    const int64_t in_w = problem.axes[3].in;
    if (config.flat && (problem.load != LoadMode::boxes || !problem.rows_adjoin || problem.any_size || u_extent(problem.axes[3]) > s.tile[3] || s.first[3] > 0 || in_w - s.first[3] > s.extent[3] || s.extent[2] * in_w > 256)) return std::nullopt;
    for (int a = 0; a < 4; ++a)
        if (problem.boxed() && (s.extent[a] > 256 || s.advance[a] > 1)) return std::nullopt;
    const int64_t sub_patches = s.advance[0] * s.advance[1] * s.advance[2] * s.advance[3];
    s.pixels = static_cast<int>(sub_patches * s.extent[0] * s.extent[1] * s.extent[2] * s.extent[3]);
    s.raw_pixels = static_cast<int>(config.flat ? s.pixels / s.extent[3] * in_w : s.pixels);
    s.plane = round_up(s.pixels + s.tail, 8);

    // Rows of the run lie one after another; the columns between them are computed and not stored.
    const int64_t row_span = s.extent[3], plane_span = s.extent[2] * row_span, batch_span = s.extent[1] * plane_span;
    s.run_pixels = round_up((config.run[0] - 1) * batch_span + (config.run[1] - 1) * plane_span + (config.run[2] - 1) * row_span + config.run[3], 8);
    if (s.run_pixels > problem.longest_run()) return std::nullopt;
    s.run_offset = static_cast<int>(config.runs[0] > 1   ? config.run[0] * batch_span
                                    : config.runs[1] > 1 ? config.run[1] * plane_span
                                    : config.runs[2] > 1 ? config.run[2] * row_span
                                    : config.runs[3] > 1 ? config.run[3]
                                                         : 0);
    s.accumulators = round_up(s.run_pixels, 8 * problem.warps_n()) / 2;

    // M: channels, and with few of them phases side by side.
    s.phases_w = config.w_phases ? config.w_phases : static_cast<int>(s.period[3]);
    s.segment = problem.cout <= 8 ? 8 : problem.cout <= 16 ? 16 : problem.cout <= 32 ? 32 : 64;
    int64_t phase_count = s.phases_w;
    for (size_t a = 1; a < 3; ++a) phase_count *= s.period[a];
    // Very few channels of many phases: as many side by side as there are.
    while (!needs.fragments && s.segment / 2 >= problem.cout && 64 / s.segment < phase_count) s.segment /= 2;
    s.segments = 64 / s.segment;
    s.channel_blocks = static_cast<int>((problem.cout + 63) / 64);
    std::vector<bool> w_real(phases[3].size());
    for (size_t r = 0; r < phases[3].size(); ++r) w_real[r] = !phases[3][r].taps.empty();
    // Many residues along w leave few pixels to each: then bundles of some of them, which all have taps.
    const int parts_w = static_cast<int>(s.period[3]) / s.phases_w;
    if (config.w_phases && (s.period[3] % s.phases_w || parts_w < 2 || s.segments > 1 || needs.fragments || needs.pool[3] > 1 || std::find(w_real.begin(), w_real.end(), false) != w_real.end())) return std::nullopt;
    s.plane_of_w.assign(static_cast<size_t>(s.phases_w), -1);
    s.planes_per_bundle = 0;
    for (int w = 0; w < s.phases_w; w += s.segments) {
        bool any = false;
        for (int r = w; r < std::min(s.phases_w, w + s.segments); ++r) any = any || w_real[r];
        if (!any) continue;
        for (int r = w; r < std::min(s.phases_w, w + s.segments); ++r) s.plane_of_w[r] = s.planes_per_bundle;
        ++s.planes_per_bundle;
    }
    s.bundle_phases = s.phases_w <= s.segments ? std::max(1, s.segments / s.phases_w) : 1;
    std::vector<ChunkPhase> real, empty;
    for (size_t d = 0; d < phases[1].size(); ++d)
        for (size_t h = 0; h < phases[2].size(); ++h)
            for (int part = 0; part < parts_w; ++part)
                (phases[1][d].taps.empty() || phases[2][h].taps.empty() ? empty : real).push_back({static_cast<int>(d), static_cast<int>(h), part * s.phases_w});
    const int outer = static_cast<int>(real.size());
    s.bundle_phases = std::min(s.bundle_phases, outer);
    s.bundle_count = (outer + s.bundle_phases - 1) / s.bundle_phases;
    const int groups = config.split == Split::phases ? 2 : 1;
    const int bundles = config.bundles;
    s.variants = (s.bundle_count + bundles * groups - 1) / (bundles * groups);
    s.blocks_per_tile = config.split == Split::channels ? 2 : 1;
    s.m_groups = (s.channel_blocks + s.blocks_per_tile - 1) / s.blocks_per_tile;
    s.fixed = static_cast<int>(problem.groups) * s.m_groups;
    s.blocks = bundles * s.planes_per_bundle;
    if (s.blocks * s.accumulators * problem.terms() * problem.real_bytes() / 4 > problem.accumulator_registers(config.store_groups) - (needs.fragments && !needs.boxed ? needs.beside : 0)) return std::nullopt;   // strict: sums beside the accumulators
    if (needs.boxed && needs.all_channels && (s.blocks + 1) * s.accumulators * problem.terms() > 170) return std::nullopt;   // exponentials beside them
    if (needs.folded && s.blocks * s.accumulators * problem.terms() > 128) return std::nullopt;   // the fold needs some beside them
    if (config.store_groups > 1 && (s.accumulators > 64 || config.buffers % (2 * config.store_groups))) return std::nullopt;   // a buffer may not come round before its group does
    if (config.split == Split::channels && s.channel_blocks < 2) return std::nullopt;
    if (config.split == Split::phases && s.bundle_count < 2) return std::nullopt;
    if (needs.all_channels && s.fixed > 1) return std::nullopt;   // a tile holds one group's channels
    const bool pool_outer = needs.pool[1] > 1 || needs.pool[2] > 1;
    for (int a = 0; a < 4; ++a)
        if (needs.pool[a] > 1 && (needs.pool[a] % s.period[a] != 0 || config.run[a] % (needs.pool[a] / s.period[a]) != 0)) return std::nullopt;
    const bool outer_together = pool_outer && (s.period[1] > 1 || s.period[2] > 1);
    if (outer_together && s.variants > 1) return std::nullopt;
    if (needs.fragments && outer_together && config.split == Split::phases) return std::nullopt;
    s.interleaved = needs.fragments && !needs.boxed && s.segments > 1;

    // K: pairs of channel vectors, or two taps of one vector.
    s.pairs = problem.cin <= problem.lanes();
    s.vectors = s.pairs ? 1 : 2 * config.k_steps;
    if (s.pairs && config.k_steps != 1) return std::nullopt;
    s.k_stages = static_cast<int>((problem.cin + s.vectors * problem.lanes() - 1) / (s.vectors * problem.lanes()));
    s.tile_bytes = 2048 * problem.terms();

    // Steps. The window of a tap begins where its shift points; segments that have no tap there multiply zeros.
    if (like) s.variant_tiles = like->variant_tiles, s.variant_steps = like->variant_steps, s.reach = like->reach;
    s.steps.resize(like ? 0 : static_cast<size_t>(s.variants));
    const int64_t taps_h = problem.axes[2].taps, taps_w = problem.axes[3].taps;
    for (int v = 0; v < s.variants && !like; ++v) {
        std::array<std::vector<WindowStep>, 2> lists;
        struct Made { OperandTile tile; std::array<Reach, 2> reach; };
        std::array<std::vector<Made>, 2> made;
        auto take = [&](const Made& one) { s.tiles.push_back(one.tile), s.reach.push_back(one.reach); };
        for (int g = 0; g < groups; ++g)
            for (int b = 0; b < bundles; ++b) {
                const int bundle = (v * groups + g) * bundles + b;
                for (int plane = 0; plane < s.planes_per_bundle; ++plane) {
                    struct Window { std::vector<int> taps; std::array<Reach, 2> reach; };   // tap of each segment
                    std::map<int, Window> windows;            // by first pixel
                    for (int i = 0; i < s.bundle_phases; ++i) {
                        const int o = bundle * s.bundle_phases + i;
                        if (o >= outer) continue;
                        for (int w = 0; w < s.phases_w; ++w) {
                            if (s.plane_of_w[w] != plane) continue;
                            const int seg = s.phases_w <= s.segments ? i * s.phases_w + w : w % s.segments;
                            for (const PhaseTap& td : phases[1][real[o].d].taps)
                                for (const PhaseTap& th : phases[2][real[o].h].taps)
                                    for (const PhaseTap& tw : phases[3][static_cast<size_t>(real[o].w + w)].taps) {
                                        const int64_t sub = (floor_mod(td.shift, s.advance[1]) * s.advance[2] + floor_mod(th.shift, s.advance[2])) * s.advance[3] + floor_mod(tw.shift, s.advance[3]);
                                        const int64_t at = ((sub * s.extent[0] * s.extent[1] + floor_div(td.shift, s.advance[1]) - s.first[1]) * s.extent[2] + floor_div(th.shift, s.advance[2]) - s.first[2]) * s.extent[3] + floor_div(tw.shift, s.advance[3]) - s.first[3];
                                        const int to_d = static_cast<int>(floor_div(td.shift, s.advance[1])), to_h = static_cast<int>(floor_div(th.shift, s.advance[2]));
                                        auto& window = windows.try_emplace(static_cast<int>(at), Window{std::vector<int>(static_cast<size_t>(s.segments), -1), {Reach{to_d, to_d}, Reach{to_h, to_h}}}).first->second;
                                        window.taps[static_cast<size_t>(seg)] = static_cast<int>((td.tap * taps_h + th.tap) * taps_w + tw.tap);
                                    }
                        }
                    }
                    const int block = b * s.planes_per_bundle + plane;
                    bool first = true;
                    std::vector<std::pair<int, Window>> ordered(windows.begin(), windows.end());
                    for (size_t k = 0; k < ordered.size(); k += s.pairs ? 2 : 1) {
                        OperandTile tile;
                        tile.taps.assign(static_cast<size_t>(s.segments), {-1, -1});
                        const bool two = s.pairs && k + 1 < ordered.size();
                        for (int seg = 0; seg < s.segments; ++seg) {
                            tile.taps[seg][0] = ordered[k].second.taps[seg];
                            tile.taps[seg][1] = s.pairs ? (two ? ordered[k + 1].second.taps[seg] : -1) : ordered[k].second.taps[seg];
                        }
                        std::array<Reach, 2> reach = ordered[k].second.reach;
                        for (size_t a = 0; a < 2 && two; ++a) reach[a].include(ordered[k + 1].second.reach[a]);
                        lists[g].push_back({block, static_cast<int>(made[g].size()), ordered[k].first, two ? ordered[k + 1].first - ordered[k].first : 0, first});
                        made[g].push_back({std::move(tile), reach});
                        first = false;
                    }
                }
            }
        // Blocks side by side: the k-th window of every block before the next, so that no accumulator waits for itself.
        for (int g = 0; g < groups; ++g) {
            std::vector<int> seen(static_cast<size_t>(s.blocks), 0);
            std::vector<std::pair<int, size_t>> rank;
            for (size_t k = 0; k < lists[g].size(); ++k) rank.push_back({seen[lists[g][k].block]++, k});
            std::stable_sort(rank.begin(), rank.end(), [](auto& a, auto& b) { return a.first < b.first; });
            std::vector<WindowStep> list;
            std::vector<Made> tiles;
            for (auto& [r, k] : rank) {
                list.push_back(lists[g][k]);
                list.back().tile = static_cast<int>(tiles.size());
                tiles.push_back(made[g][static_cast<size_t>(lists[g][k].tile)]);
            }
            lists[g] = std::move(list), made[g] = std::move(tiles);
        }
        // Operand tiles in the order they are used: the warpgroups' own alternate, so that a slab serves both.
        const int first_tile = static_cast<int>(s.tiles.size());
        if (config.split == Split::phases) {
            const size_t n0 = made[0].size(), n1 = made[1].size();
            std::array<std::vector<int>, 2> moved{std::vector<int>(n0), std::vector<int>(n1)};
            for (size_t i0 = 0, i1 = 0; i0 < n0 || i1 < n1;) {
                const bool take0 = i1 >= n1 || (i0 < n0 && i0 * std::max<size_t>(n1, 1) <= i1 * std::max<size_t>(n0, 1));
                if (take0) moved[0][i0] = static_cast<int>(s.tiles.size()), take(made[0][i0++]);
                else moved[1][i1] = static_cast<int>(s.tiles.size()), take(made[1][i1++]);
            }
            for (int g = 0; g < 2; ++g)
                for (WindowStep& step : lists[g]) step.tile = moved[g][static_cast<size_t>(step.tile)];
        } else {
            for (size_t k = 0; k < made[0].size(); ++k)
                for (int block = 0; block < s.blocks_per_tile; ++block) {
                    take(made[0][k]);
                    s.tiles.back().channel_block = block;
                }
            lists[1] = lists[0];
            for (int g = 0; g < 2; ++g)
                for (WindowStep& step : lists[g]) step.tile = first_tile + step.tile * s.blocks_per_tile + (config.split == Split::channels ? g : 0);
        }
        s.variant_tiles.push_back(static_cast<int>(s.tiles.size()) - first_tile);
        s.variant_steps.push_back(static_cast<int>(lists[0].size() + lists[1].size()));
        s.steps[v] = std::move(lists);
    }
    s.slabs.resize(static_cast<size_t>(s.variants));
    for (int v = 0, first_tile = 0; v < s.variants; first_tile += s.variant_tiles[static_cast<size_t>(v++)]) {
        const int mine = s.variant_tiles[static_cast<size_t>(v)], end = first_tile + mine;
        const int slab = slab_of(mine, config.slab_tiles, s.blocks_per_tile);
        auto& slabs = s.slabs[static_cast<size_t>(v)];
        for (int at = first_tile; at < end; at += slab) slabs.push_back(at);
        if (slabs.empty()) slabs.push_back(first_tile);
        slabs.push_back(end);
        s.slab_bytes = std::max(s.slab_bytes, slab * s.tile_bytes);
    }

    // Chunks.
    s.joint = (needs.all_channels && config.split == Split::channels) || (outer_together && config.split == Split::phases);
    if (outer_together) {
        s.sets = 1, s.planes = s.blocks;
        s.rows_per_plane = 1, s.rows_per_group = s.blocks;
        if (config.split == Split::channels && bundles > 1) return std::nullopt;
    } else {
        s.sets = bundles, s.planes = s.planes_per_bundle;
        s.rows_per_plane = s.joint ? 2 : 1, s.rows_per_group = 1;
    }
    if (s.joint && config.split == Split::channels && outer_together) return std::nullopt;
    if (needs.folded) s.block_rows = 4 * needs.folded;
    s.chunk_height = s.planes * (s.joint ? 2 : 1) * s.block_rows;
    const int slots = s.variants * (config.split == Split::phases && !s.joint ? 2 : 1) * s.sets;
    s.real_outer = s.bundle_phases * (outer_together ? bundles * groups : 1);
    const int riders = (static_cast<int>(empty.size()) + slots - 1) / slots;
    s.chunk_outer = s.real_outer + riders;
    s.phase_table.assign(static_cast<size_t>(s.variants) * 2, std::vector<std::vector<ChunkPhase>>(static_cast<size_t>(s.sets), std::vector<ChunkPhase>(static_cast<size_t>(s.chunk_outer))));
    for (int v = 0; v < s.variants; ++v)
        for (int g = 0; g < 2; ++g)
            for (int set = 0; set < s.sets; ++set) {
                auto& list = s.phase_table[static_cast<size_t>(v) * 2 + g][set];
                const int mine = config.split == Split::phases && !s.joint ? g : 0;
                const int per = config.split == Split::phases && !s.joint ? 2 : 1;
                const int begin = outer_together ? 0 : ((v * (config.split == Split::phases ? 2 : 1) + mine) * bundles + set) * s.bundle_phases;
                for (int i = 0; i < s.real_outer; ++i)
                    if (begin + i < outer) list[i] = real[static_cast<size_t>(begin + i)];
                const int slot = (v * per + mine) * s.sets + set;
                for (int i = 0; i < riders; ++i)
                    if (slot * riders + i < static_cast<int>(empty.size())) list[s.real_outer + i] = empty[static_cast<size_t>(slot * riders + i)];
            }
    s.pixel_major = needs.pixel_major;
    s.chunk_row_start.clear();
    if (tall) {
        for (int n = 0; n < config.run[0]; ++n)
            for (int d = 0; d < config.run[1]; ++d)
                for (int h = 0; h < config.run[2]; ++h) s.chunk_row_start.push_back(static_cast<int>(n * batch_span + d * plane_span + h * row_span));
        s.row_length = static_cast<int>(s.extent[3]);
        // the last row may end with the run
    } else {
        s.chunk_row_start.push_back(0);
        s.row_length = s.run_pixels;
    }
    s.chunk_rows = static_cast<int>(s.chunk_row_start.size());
    s.chunk_count = (s.row_length + config.chunk_width - 1) / config.chunk_width;
    if (needs.pool[3] > 1 && config.chunk_width % (needs.pool[3] / s.period[3]) != 0) return std::nullopt;
    const int chunk_pixels = s.chunk_rows * config.chunk_width;
    s.pitch = needs.pixel_major ? s.chunk_height + 4 : chunk_pixels + (chunk_pixels % 16 == 0 ? 8 : 0);
    s.chunk_bytes = (needs.pixel_major ? chunk_pixels : s.chunk_height) * s.pitch * problem.real_bytes();
    if (needs.folded && (s.segments > 1 || s.chunk_count > 1 || !empty.empty() || needs.pooled || needs.pixel_major)) return std::nullopt;
    if (needs.fragments) s.chunk_bytes = needs.boxed ? boxes_bytes(box_shape(problem, needs, config, s)) : 0;
    else if (!s.joint && config.buffers < 2) return std::nullopt;

    if (config.skips && config.resident) return std::nullopt;

    // Shared memory.
    const int turn = 128 * problem.word_pixels(), turns = (s.pixels + turn - 1) / turn;
    if (problem.load == LoadMode::boxes && s.vectors % config.piece != 0) return std::nullopt;
    s.pieces = problem.load == LoadMode::boxes ? s.vectors / config.piece : (turns + config.piece - 1) / config.piece;
    // Portable warps load blocks of 8 pixels two or four at a time: what the furthest window meets beyond the last plane, and makes nothing
    // of, is not the next stage, which may be being written.
    const int at_once = problem.arithmetic == Arithmetic::f64 ? 16 : 32;
    const int64_t furthest = s.pixels - s.pixels / sub_patches + (last[1] - s.first[1]) * plane_span + (last[2] - s.first[2]) * row_span + last[3] - s.first[3] + s.run_offset;
    const int64_t beyond = problem.family == Family::wgmma ? 0 : std::max<int64_t>(0, furthest + round_up(s.run_pixels, at_once) - s.plane);
    s.stage_bytes = (s.vectors * problem.terms() * s.plane + static_cast<int>(beyond)) * 16;
    s.raw_bytes = s.raw_piece_bytes(problem, config);
    int at = 0;
    s.weights_at = at;
    at += config.resident ? s.k_steps(config) * s.tile_count() * s.tile_bytes : config.slabs * s.slab_bytes;
    s.stages_at = at, at += config.stages * s.stage_bytes;
    s.raw_at = at, at += config.raw * s.raw_bytes;
    if (needs.boxed) at = round_up(at, 1024);
    s.chunks_at = at, at += config.buffers * s.chunk_bytes;
    s.ahead_bytes = needs.ahead * s.outputs_of(chunk_pixels);
    s.ahead_at = at, at += 2 * s.ahead_bytes;
    s.tables_at = at, at += needs.table_bytes + config.store_groups * needs.group_bytes;
    s.places_at = (at + 15) / 16 * 16, at = s.places_at + s.places_bytes(problem, config);
    s.shared_bytes = at;
    if (at + 1024 > shared_limit) return std::nullopt;
    if (config.resident && config.split == Split::phases && s.fixed > 1 && s.variants > 1 && 132 % (s.fixed * s.variants)) return std::nullopt;
    if (s.plane * 16 > 262128) return std::nullopt;
    return s;
}

}  // namespace transfuse::cuda
