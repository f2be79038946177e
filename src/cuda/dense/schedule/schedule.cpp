#include "cuda/dense/schedule/schedule.h"

#include <algorithm>

#include "cuda/dense/schedule/figures.h"
#include "cuda/dense/schedule/scheduler.h"

namespace transfuse::cuda {

bool Problem::sums_are_long() const { return products() >= figures::long_sum; }

int64_t u_extent(const Lattice& axis) { return (axis.out + axis.period() - 1) / axis.period(); }

int slab_of(int tiles, int most, int blocks_per_tile) {
    const int slab = std::max(1, most > 0 ? most : tiles), count = std::max(1, (tiles + slab - 1) / slab);
    return std::max(1, rounded_up((tiles + count - 1) / count, blocks_per_tile));
}

int Schedule::raw_piece_bytes(const Problem& problem, const Config& c) const {
    switch (problem.load) {
        case LoadMode::direct:
        case LoadMode::operand:
            return 0;
        case LoadMode::boxes:
            return rounded_up(c.piece * 16 * raw_pixels, 128);
        case LoadMode::vector_boxes:
            return c.piece * 16 * rounded_up(raw_pixels, 8);
        case LoadMode::unaligned_rows:
            return problem.lanes() * patch_rows() * rounded_up(c.piece * row_box(problem) * 16 / problem.lanes(), 128);
        default:
            return c.piece * vectors * 16 * 128 * problem.word_pixels();
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

int64_t Schedule::tiles_along(size_t axis, const Lattice& lattice) const {
    const int64_t u = u_extent(lattice);
    return unbroken && axis == 2 ? (u * extent[3] + 2 * run_pixels - 1) / (2 * run_pixels)
                                 : (u + tile[axis] - 1) / tile[axis];
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
    return phases_w <= segments ? seg % phases_w
                                : row / (block_rows * rows_per_plane) % planes_per_bundle * segments + seg;
}

ChunkPhase Schedule::phase_of(size_t part, int block, int segment) const {
    const bool side = phases_w <= segments;  // several outer phases share an accumulator
    const int within = side ? segment / phases_w : 0,
              w = side ? segment % phases_w : block % planes_per_bundle * segments + segment;
    const auto& outer = phase_table[part][static_cast<size_t>(block / planes_per_bundle)];
    if (within >= bundle_phases || w >= phases_w || outer[static_cast<size_t>(within)].d < 0) return {};
    const ChunkPhase& first = outer[static_cast<size_t>(within)];
    return {first.d, first.h, first.w + w};
}

bool Schedule::lacks_rows() const {
    for (int q = 0; q < chunk_outer; ++q)
        for (int w = 0; w < phases_w; ++w)
            if (row_of(q, w) < 0) return true;
    return false;
}

std::optional<Schedule> schedule(const Problem& problem, const Needs& needs, const Config& config, const Target& target,
                                 const Schedule* like) {
    Scheduler scheduler(problem, needs, config, like);
    if (!scheduler.fits(target)) return std::nullopt;
    return scheduler.take();
}

}  // namespace transfuse::cuda
