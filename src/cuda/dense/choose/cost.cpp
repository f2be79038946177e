#include "cuda/dense/choose/cost.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "cuda/dense/schedule/box_shape.h"
#include "cuda/dense/schedule/figures.h"
#include "cuda/dense/schedule/serpentine.h"
#include "cuda/dense/schedule/swap_ab_shape.h"

namespace transfuse::cuda {

using namespace figures;

int Cost::chunk_bytes() const {
    if (needs.exit == Exit::swap_ab) return swap_ab_bytes(needs, c, s);
    if (!needs.has_store_role()) return needs.exit == Exit::tma ? boxes_bytes(box_shape(problem, needs, c, s)) : 0;
    const int pixels = chunk_pixels();
    const int pitch = needs.pixel_major ? s.chunk_height + 4 : pixels + (pixels % 16 == 0 ? 8 : 0);
    return (needs.pixel_major ? pixels : s.chunk_height) * pitch * problem.real_bytes();
}

int Cost::slab_count() const {
    const int tiles = s.tile_count() / s.variants;
    return c.resident || c.slab_tiles == 0 ? 1 : (tiles + c.slab_tiles - 1) / c.slab_tiles;
}

int Cost::weight_bytes() const {
    if (c.resident) return s.k_stages * c.k_steps * s.tile_count() * s.tile_bytes;
    int most = 1;
    for (int tiles : s.variant_tiles) most = std::max(most, slab_of(tiles, c.slab_tiles, s.blocks_per_tile));
    return c.slabs * most * s.tile_bytes;
}

double Cost::share_met(double waves) const {
    struct Slab {
        std::array<Reach, 2> reach;
        double tiles;
    };
    std::vector<Slab> slabs;
    double all = 0;
    for (int v = 0, begin = 0; v < s.variants; ++v) {
        const int end = begin + s.variant_tiles[static_cast<size_t>(v)],
                  slab = slab_of(end - begin, c.slab_tiles, s.blocks_per_tile);
        for (; begin < end; begin += slab) {
            const int next = std::min(end, begin + slab);
            slabs.push_back({s.reach_of(begin, next), static_cast<double>(next - begin)});
            all += next - begin;
        }
        begin = end;
    }
    if (all == 0) return 1;
    // Along each axis: which slabs a tile meets, and how many tiles meet these.
    std::array<std::map<std::vector<bool>, double>, 2> places;
    for (size_t a = 1; a < 3; ++a) {
        const int64_t count = (u_extent(problem.axes[a]) + s.tile[a] - 1) / s.tile[a];
        for (int64_t k = 0; k < count; ++k) {
            std::vector<bool> met_slabs;
            for (const Slab& one : slabs)
                met_slabs.push_back(one.reach[a - 1].meets(k * s.tile[a], s.tile[a], problem.axes[a].in, s.advance[a]));
            places[a - 1][met_slabs] += 1 / static_cast<double>(count);
        }
    }
    double mean = 0, largest = 0;
    for (const auto& [along_d, d] : places[0])
        for (const auto& [along_h, h] : places[1]) {
            double tiles = 0;
            for (size_t i = 0; i < slabs.size(); ++i) tiles += along_d[i] && along_h[i] ? slabs[i].tiles : 0;
            mean += d * h * tiles / all, largest = std::max(largest, tiles / all);
        }
    return mean + (largest - mean) / std::max(1.0, std::ceil(waves));
}

int Cost::pixels_a_turn() const { return 128 * problem.word_pixels(); }
int Cost::load_turns() const { return (s.pixels + pixels_a_turn() - 1) / pixels_a_turn(); }

int Cost::bytes() const {
    return weight_bytes() + c.stages * s.stage_bytes + c.raw * s.raw_piece_bytes(problem, c) +
           c.buffers * chunk_bytes() + 2 * needs.ahead * s.outputs_of(chunk_pixels()) + needs.table_bytes +
           c.store_groups * needs.group_bytes + s.places_bytes(problem, c) + 16 + 1024 +
           (needs.exit == Exit::tma ? 1024 : 0);
}

double Cost::chunks() const {
    return std::ceil(s.row_length / static_cast<double>(c.chunk_width)) * s.sets * (s.joint ? 1 : 2);
}

bool Cost::ring_holds_tile() const {
    return c.resident && needs.has_store_role() && problem.transposed() && problem.lanes() == 4 && s.k_stages > 2 &&
           c.stages >= s.k_stages;
}

bool Cost::ring_holds_steps() const {
    return c.resident || c.slab_tiles == 0 || c.slabs * c.slab_tiles >= 2 * s.tile_count() / s.variants;
}

bool Cost::operand_without_stores() const {
    return problem.load == LoadMode::operand && !needs.has_store_role() && needs.exit != Exit::swap_ab;
}

// Measured in TF32: in turn is 2 to 8 % faster where the buffers hold half of a tile's chunks or fewer (f1, f6, f8), 2
// to 5 % slower where they hold more (d1, d3); and slower where rows that begin anywhere come in many pieces (f2, d6).
// In 16 bits it was measured where the product warps reduce, and hand over late (f8: 0.246 -> 0.226 ms).
bool Cost::alternates() const {
    return !ring_holds_tile() && needs.has_store_role() && !s.joint &&
           (needs.element_bytes >= 4 || needs.exit == Exit::reduced) && 2 * c.buffers <= chunks() &&
           (!needs.one_by_one || chunks() <= 4);
}

Cost::Step Cost::step() const {
    const double n = needs.exit == Exit::swap_ab ? s.operand_rows : s.run_pixels, terms = problem.terms() == 2 ? 3 : 1;
    const bool warps = problem.family == Family::mma;
    const double multiply = warps ? n * problem.real_bytes() / 4 * (problem.real_bytes() / 4) : n / 2;
    Step step;
    step.reading = warps ? weights_read_by_warps + n / 2 : weights_read + n / 4;
    for (int v : s.variant_steps) step.products += v;
    step.products *= met * terms / s.variants;
    step.tiles = s.tile_count(), step.tiles *= met / s.variants;
    step.cycles = std::max(step.products * multiply, step.products * step.reading);
    if (!c.resident) {  // weights must arrive in time, the ring's depth ahead
        const double slabs = met * slab_count(), slab = step.cycles / slabs;
        const double taken = problem.boxed() ? slab_boxed : slab_copied;
        step.cycles = (std::max(slab, (slab_latency + slab) / c.slabs) + taken) * slabs;
        const double again =
            serpentine(problem, c, s) ? 1 - static_cast<double>(c.slabs) / s.k_stages : 1;  // of the weights
        const double l2 = needs.has_store_role() ? l2_bytes_with_stores : l2_bytes;
        step.cycles = std::max(step.cycles, again * step.tiles * s.tile_bytes / l2);
    }
    if (operand_without_stores()) {  // so must patches that come directly into the operand
        const double stage = c.k_steps * step.cycles;
        step.cycles = std::max(stage, (patch_latency + stage) / c.stages) / c.k_steps;
    }
    return step;
}

double Cost::load_cycles() const {
    const double turn = turn_cycles(problem) * (s.vectors * problem.lanes() / 8.0 * (problem.lanes() == 8 ? 0.5 : 1.0));
    const double pieces = problem.transposed()                ? s.vectors / c.piece
                          : problem.load == LoadMode::operand ? 0
                                                              : (load_turns() + c.piece - 1) / c.piece;
    const double transposing = s.raw_pixels / static_cast<double>(pixels_a_turn()) * turn +
                               (problem.boxed() ? piece_boxed : piece_copied) * pieces + stage_loaded;
    const double asking = problem.load == LoadMode::unaligned_rows
                              ? (row_box_asked + row_box_brought * c.piece) * pieces * problem.lanes() * s.patch_rows()
                              : 0;
    return s.k_stages * std::max(transposing, asking);
}

double Cost::run_pixels() const { return static_cast<double>(c.run[0] * c.run[1] * c.run[2] * c.run[3]); }

Cost::Chunk Cost::chunk() const {
    const double outer = static_cast<double>(s.chunk_outer), element = static_cast<double>(needs.element_bytes);
    const double rows = s.segments > 1
                            ? static_cast<double>(problem.cout) * std::min<double>(outer, s.real_outer) * s.phases_w
                            : s.chunk_height;
    Chunk chunk;
    chunk.elements = rows * chunk_pixels() * (s.chunk_outer > s.real_outer ? outer / s.real_outer : 1.0);
    chunk.inside = run_pixels() / (std::ceil(s.row_length / static_cast<double>(c.chunk_width)) * chunk_pixels());
    const double pooled = static_cast<double>(needs.pool[1] * needs.pool[2] * needs.pool[3]);
    chunk.stored = needs.stores ? chunks() * chunk.elements / pooled * element : 0.0;
    // Some residues along w only: their pieces fill their sectors in part.
    const double in_parts = needs.pixel_major || s.phases_w == s.period[3]
                                ? 1.0
                                : std::min(static_cast<double>(s.period[3]), sector / element) / s.phases_w;
    const double a_cycle = needs.vector > 1 || s.phases_w > 1 ? vectors_stored : singles_stored;  // bytes
    chunk.cycles = chunk_taken + chunk.elements * 4 / chunk_read_bytes +
                   chunk.elements / 128 * needs.epilogue_flops * flop_cycles +
                   (needs.stores ? in_parts * chunk.elements / pooled * element / a_cycle : 0);
    if (needs.all_channels) chunk.cycles += channels_reduced;
    if (needs.ahead) chunk.cycles = std::max(chunk.cycles, memory_latency);
    return chunk;
}

// Two warps a scheduler run the chain, while no products do.
double Cost::chain_cycles() const {
    const double values = s.blocks * s.accumulators;
    if (!needs.has_store_role())
        return chain_begins +
               2 * values * (1 + needs.epilogue_flops + (needs.exit == Exit::swap_ab ? swap_ab_laid : 0));
    return needs.folded ? chain_begins + values * (fold_flops + needs.epilogue_flops) : 0;
}

Cost::Left Cost::left(const Chunk& chunk) const {
    const double element = static_cast<double>(needs.element_bytes), channels = static_cast<double>(problem.cout);
    switch (needs.exit) {
        case Exit::swap_ab: {
            const double laid = 2.0 * s.blocks * swap_ab_pixels * channels * element;
            return {laid, laid, 0};
        }
        case Exit::tma: {
            const double boxed = 2.0 * s.blocks * box_shape(problem, needs, c, s).segments *
                                 std::min<double>(s.segment, channels) * run_pixels() * element * (1 + needs.added);
            return {boxed, boxed, 0};
        }
        case Exit::direct: {
            // Eight of a row's pixels or of a pixel's channels lie together, of several residues along w more.
            const double elements = 2.0 * s.blocks * 64 * run_pixels();
            const double sectors = elements / 8 * (element * s.phases_w <= 4 || needs.pixel_major ? 1 : element / 4.0) *
                                   (needs.pixel_major ? 1.0 : static_cast<double>(s.period[3]) / s.phases_w);
            return {0, elements * element, sectors * (needs.one_by_one ? sectors_shared : 1)};
        }
        default:
            return {chunks() * chunk_bytes(), chunk.stored, 0};
    }
}

Cost::Bounds Cost::bounds() const {
    const double k = s.k_stages * c.k_steps;
    const Step step = this->step();
    const Chunk chunk = this->chunk();
    const Left left = this->left(chunk);
    Bounds bounds;
    bounds.load = load_cycles();
    bounds.store = needs.has_store_role() ? chunks() * chunk.cycles / c.store_groups : 0;
    // The products wait for room where buffers are full. Tensors that come in boxes are asked for when a tile's
    // products begin.
    const double wait = !needs.has_store_role()
                            ? 0
                            : (s.joint ? waits_joint : waits_alone) * std::max(0.0, chunks() - c.buffers) *
                                  chunk.cycles / c.store_groups;
    const double awaited = needs.added ? std::max(0.0, patch_latency - k * step.cycles) : 0;
    bounds.product = k * step.cycles + s.k_stages * stage_change + wait + left.shared / chunk_written / 2 +
                     tile_change + awaited + chain_cycles() + (needs.exit == Exit::tma ? box_sent * s.blocks : 0) +
                     left.sectors / sectors_stored;
    const double staged = static_cast<double>(s.stage_bytes) * s.k_stages;
    bounds.shared = k * step.products * step.reading +
                    (c.resident || !c.strip ? 0 : k * step.tiles * s.tile_bytes / shared_bytes_a_cycle) +
                    staged * patch_passes / shared_bytes_a_cycle + 2 * left.shared / shared_bytes_a_cycle;
    const double patch = static_cast<double>(s.pixels) * static_cast<double>(problem.cin) * (16.0 / problem.lanes());
    bounds.memory = (left.memory + chunks() * chunk.elements * chunk.inside * needs.ahead + patch * patch_from_memory) /
                    memory_bytes;
    return bounds;
}

double Cost::cycles() const {
    const auto [product, load, shared, store, memory] = bounds();
    const double ragged =
        1 + (needs.one_by_one ? short_row_one_by_one : short_row) / static_cast<double>(c.run[3] * s.period[3]);
    double total = std::max({product, load + first_patch, shared, store * ragged, memory * ragged});
    total += disturbance * (product + load + store + memory - total);
    if (!problem.boxed() && bytes() > much_shared) total *= little_l1;
    if (c.piece < s.vectors && problem.transposed()) total *= boxes_in_pieces;
    // Slabs that come in turn keep the two together (measured in fp32, with all residues along w, of rows that do not
    // begin anywhere).
    if (c.split == Split::phases && (c.resident || c.w_phases || problem.lanes() == 8 || needs.one_by_one))
        total *= unlike_warpgroups;
    if (s.blocks == 1 && needs.exit != Exit::swap_ab)
        total *= 1 + short_runs - short_runs * std::min(s.run_pixels, 192) / 192;
    if (c.k_steps == 4) total *= long_stages;
    if (!c.resident && c.slabs == 2) total *= two_slabs;
    if (ring_holds_tile()) total *= tile_in_ring;
    if (needs.added && !ring_holds_steps()) total *= one_after_another;
    if (operand_without_stores()) total *= (1 + few_stages * (4 - c.stages)) * (c.resident ? 1 : streamed);
    total *= 1 + unlike_tiles * std::min(s.variants - 1, 2);
    return total;
}

double seconds_of(double waves, double cycles, bool whole) {
    return (whole || waves < many_waves ? std::ceil(waves) : waves + ragged_end) * cycles / clock_hertz;
}

}  // namespace transfuse::cuda
