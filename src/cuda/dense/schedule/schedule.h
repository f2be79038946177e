// The schedule of one tile: which accumulators each warpgroup holds, which windows of the staged patch they multiply
// with which packed weights, and how they reach the store role. Pure arithmetic on lattices; the generator prints it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cuda/dense/schedule/config.h"
#include "cuda/kernel/target.h"
#include "transfuse/lattice.h"
#include "transfuse/tensor.h"

namespace transfuse::cuda {

enum class Arithmetic : uint8_t { tf32, strict, f16, bf16, f64 };  // strict: three TF32 products, fp32 accuracy
enum class Family : uint8_t {
    wgmma,
    mma
};  // whose products: sm_90a's warpgroups (device/machine/hopper.cuh), any warp's (device/machine/portable.cuh)
// How the patch comes: element by element, by vectors of channels, those directly into the operand, two 16-bit pixels
// at once, one at once, 16 bytes of a row at once (device/roles/patches.cuh); or in boxes, to be transposed or
// (operand) as they lie (device/roles/boxes.cuh), or rows that begin anywhere, each in a box of its own
// (device/roles/unaligned_rows.cuh), or vectors of channels in boxes, to be rounded in two terms or changed by a
// prologue (device/roles/vector_boxes.cuh).
enum class LoadMode : uint8_t {
    planar,
    vectors,
    direct,
    pairs,
    singles,
    rows,
    boxes,
    operand,
    unaligned_rows,
    vector_boxes
};

// Rows that begin anywhere come so: no 16 bytes of them together.
inline bool comes_in_elements(LoadMode load) {
    return load == LoadMode::planar || load == LoadMode::pairs || load == LoadMode::singles;
}

using Col2imAxes = unsigned;  // of axes d, h and w those whose taps are rows of their own: bits (parts.h)

// The product: axes n, d, h, w (missing spatial axes and the batch are trivial lattices).
struct Problem {
    std::array<Lattice, 4> axes;
    int64_t groups = 1, cin = 1, cout = 1;  // per group
    std::array<int64_t, 3> tap_rows{
        1, 1, 1};        // taps along d, h, w that are rows of their own: cout counts (channel, tap) (parts.h)
    int64_t slices = 1;  // so many neighbouring groups are slices of one group's channels in (parts.h)
    Arithmetic arithmetic = Arithmetic::tf32;
    Family family = Family::wgmma;
    LoadMode load = LoadMode::planar;
    bool wide_offsets = false;  // input offsets need 64 bits
    bool rows_adjoin = false;   // in memory, and the text may rely on their length
    bool any_size = false;      // the kernel's text must serve images of other sizes as well
    int lanes() const {
        return arithmetic == Arithmetic::f16 || arithmetic == Arithmetic::bf16 ? 8
               : arithmetic == Arithmetic::f64                                 ? 2
                                                                               : 4;
    }  // channels in 16 bytes
    int terms() const { return arithmetic == Arithmetic::strict ? 2 : 1; }
    int real_bytes() const {
        return arithmetic == Arithmetic::f64 ? 8 : 4;
    }                                                              // of sums and of what the tile program computes
    int warps_n() const { return family == Family::mma ? 2 : 1; }  // warps of a warpgroup along the pixels
    int accumulator_registers(int store_groups) const {
        return family == Family::mma ? 80 : store_groups > 1 ? 120 : 144;
    }  // at most
    int longest_run() const { return std::min(192, 2 * accumulator_registers(1) / (terms() * real_bytes() / 4)); }
    // Products that an accumulator is the sum of, at most. Of many, a tile takes so long that what begins and ends it
    // hardly counts.
    int64_t products() const {
        int64_t taps = 1;
        for (const Lattice& axis : axes) taps *= (axis.taps + axis.period() - 1) / axis.period();
        return taps * ((cin + 2 * lanes() - 1) / (2 * lanes()));
    }
    bool sums_are_long() const;
    // Else some outputs have no accumulator: nobody multiplies there.
    bool every_phase_has_taps() const {
        return std::all_of(axes.begin(), axes.end(), [](const Lattice& axis) {
            if (axis.up == 1) return axis.taps > 0;
            const auto phases = axis.phases();
            return std::none_of(phases.begin(), phases.end(), [](const Phase& phase) { return phase.taps.empty(); });
        });
    }
    bool strided() const {
        return std::any_of(axes.begin(), axes.end(), [](const Lattice& axis) { return axis.advance() > 1; });
    }
    bool has_planes() const { return axes[1].in > 1 || axes[1].out > 1; }
    bool has_phases() const {
        return std::any_of(axes.begin(), axes.end(), [](const Lattice& axis) { return axis.period() > 1; });
    }
    // One product's accumulators, and what else it needs, fit the registers a launch gives a thread.
    int longest_strip(bool store_role) const {
        return std::min(store_role ? 200 : 256, 2 * accumulator_registers(1) / terms());
    }
    int grain() const {
        return load == LoadMode::boxes || load == LoadMode::rows ? lanes() : load == LoadMode::pairs ? 2 : 1;
    }  // pixels along w that come together; boxes begin on 16 bytes
    bool boxed() const { return transposed() || load == LoadMode::operand; }
    bool transposed() const {
        return load == LoadMode::boxes || load == LoadMode::unaligned_rows || load == LoadMode::vector_boxes;
    }  // boxes that are, or are changed otherwise
    int word_pixels() const {
        return lanes() == 8 && load != LoadMode::direct && load != LoadMode::operand &&
                       load != LoadMode::unaligned_rows && load != LoadMode::vector_boxes
                   ? 2
                   : 1;
    }  // a load thread's
};

// What the tile program asks of a chunk.
struct Needs {
    bool all_channels = false;                // channel reductions: every output channel of a pixel in one chunk
    bool whole_rows = false;                  // row reductions: a run is one whole row, and all of it in one chunk
    bool pooled = false;                      // chunks are made of whole rows of windows, be those of one output
    std::array<int64_t, 4> pool{1, 1, 1, 1};  // windows side by side that must lie in one chunk
    bool pixel_major = false;                 // channels_last stores
    int vector = 1;                           // outputs along w a store thread takes at once
    bool one_by_one = false;                  // rows begin anywhere: their outputs are stored one by one
    int64_t element_bytes = 4;                // of what is stored
    bool stores = true;                       // tile values go to memory
    double epilogue_flops = 1;                // per output
    int table_bytes = 0;                      // per-channel operands and slots in shared memory
    int group_bytes = 4096;                   // of them, per store group
    bool one_image = false;                   // a tile may not hold several images (partials per image)
    int ahead = 0;                            // bytes an output of the tensors that are asked for a chunk ahead
    int beside = 0;                           // registers of a long chain on accumulators
    Exit exit = Exit::store;
    int added = 0;   // tma: tensors beside the convolution that come in such boxes (added_tensors.h)
    int folded = 0;  // fold: values a warp hands over for a pixel
    bool has_store_role() const { return cuda::has_store_role(exit); }
};

struct OperandTile {  // 64 output rows x one K step of packed weights
    int channel_block = 0;
    std::vector<std::array<int, 2>> taps;  // per segment of rows and per K half: linear tap, −1 = zeros
};
// Where windows point along an axis: from the first to the last shift, in units of u.
struct Reach {
    int first = 0, last = 0;
    void include(const Reach& other) { first = std::min(first, other.first), last = std::max(last, other.last); }
    // Whether any pixel of a tile's windows lies inside `in` pixels (of stride `advance`).
    bool meets(int64_t u, int64_t tile, int64_t in, int64_t advance) const {
        return advance * (u + first) < in && u + tile - 1 + last >= 0;
    }
};
struct WindowStep {
    int block, tile, pixel, halves;
    bool first;
};  // halves: pixels between the K halves' windows, 0 = next vector

struct ChunkPhase {
    int d = -1, h = -1, w = 0;  // outer residues, −1: nothing here; the first along w
    int code() const { return d < 0 ? -1 : d * 65536 + h * 256 + w; }  // in the text's tables
};
struct Schedule {
    // phases
    std::array<int64_t, 4> period{}, advance{}, first{}, extent{}, tile{};
    int phases_w = 1;                                           // residues along w in a bundle
    int segment = 64, segments = 1;                             // rows of M a phase takes; phases side by side in M
    int channel_blocks = 1, blocks_per_tile = 1, m_groups = 1;  // 64-row blocks of cout; in one tile; tiles per pixel
    int bundle_phases = 1, bundle_count = 1;                    // outer phases a bundle; bundles in all
    int planes_per_bundle = 1;                                  // accumulators a bundle (real ones)
    std::vector<int> plane_of_w;  // per residue along w: its accumulator within the bundle, −1 = no taps
    int variants = 1, fixed = 1;
    // pixels
    int run_pitch = 0;  // columns of an accumulator from one row of the patch to the next
    const char* run_pitch_name() const { return run_pitch == extent[3] ? "EXTENT_W" : "RUN_W"; }  // in the text
    int run_pixels = 0, pixels = 0, plane = 0, run_offset = 0;  // run_offset: pixels from run 0 to run 1
    bool unbroken = false;     // swap AB: runs follow one another across the ends of rows, a tile has two
    int operand_rows = 64;     // of an operand tile: channels
    int raw_pixels = 0;        // of the patch as it comes from memory: in flat boxes without the zeros beside the image
    int tail = 0;              // zeros after the patch, where padding is shared
    bool pairs = false;        // two taps in the K halves
    bool interleaved = false;  // segments alternate within a warp's 16 rows, so that it can join them
    int vectors = 2, k_stages = 1;
    // steps
    std::vector<OperandTile> tiles;
    std::vector<std::array<std::vector<WindowStep>, 2>> steps;  // [variant][warpgroup]
    std::vector<std::vector<int>> slabs;                        // [variant]: first tile of each slab, and the end
    std::vector<int> variant_tiles, variant_steps;  // [variant]: operand tiles; products of both warpgroups a K step
    std::vector<std::array<Reach, 2>> reach;        // of every operand tile's windows, along d and h
    std::array<Reach, 2> reach_of(int begin, int end) const;  // of a slab
    int tile_count() const;
    int64_t tiles_along(size_t axis, const Lattice& lattice) const;
    // chunks
    bool joint = false, pixel_major = false;
    int sets = 1, planes = 1, rows_per_plane = 1, rows_per_group = 1;
    int block_rows = 64;  // rows of a chunk an accumulator takes; folded: one or two for each of its warps
    int chunk_rows = 1, chunk_count = 1, chunk_height = 64, row_length = 0, pitch = 72;
    std::vector<int> chunk_row_start;
    int chunk_outer = 1;  // outer phases in a chunk (with room for those without taps)
    int real_outer = 1;   // of them with accumulators
    std::vector<std::vector<std::vector<ChunkPhase>>> phase_table;  // [variant*2+wg][set][outer]
    // The phase of a segment of an accumulator, with its own residue along w. `part`: variant*2+wg.
    ChunkPhase phase_of(size_t part, int block, int segment) const;
    // memory
    int tile_bytes = 2048, slab_bytes = 0, stage_bytes = 0, raw_bytes = 0, chunk_bytes = 0, pieces = 1;
    int ahead_bytes = 0;  // a chunk's part of the tensors that are asked for ahead
    int weights_at = 0, stages_at = 0, raw_at = 0, chunks_at = 0, ahead_at = 0, tables_at = 0, places_at = 0,
        shared_bytes = 0;
    int accumulators = 0;  // registers of one accumulator
    int blocks = 1;        // accumulators a warpgroup
    double cycles = 0;     // estimate for one tile

    int raw_piece_bytes(const Problem& problem, const Config& c) const;
    // Rows of the patch, and the elements of a box for one that begins anywhere: the row, and what may lie before it.
    int patch_rows() const { return static_cast<int>(pixels / (extent[3] * advance[3])); }
    int row_box(const Problem& problem) const {
        const int lanes = problem.lanes();
        return static_cast<int>((extent[3] * advance[3] + 2 * lanes - 2) / lanes * lanes);
    }
    int places_bytes(const Problem& problem,
                     const Config& c) const;  // the load threads' places in a patch of several pieces
    int k_steps(const Config& c) const { return k_stages * c.k_steps; }
    int row_of(int outer, int w) const;  // first row of a phase in the chunk, −1 without taps
    int residue_of(int row)
        const;  // along w, of a chunk's row: the inverse, where every residue has rows and chunks are not joint
    bool lacks_rows() const;  // some phase of a chunk has none
    int outputs_of(int chunk_pixels) const {
        return chunk_outer * (joint && rows_per_plane == 2 ? 128 : 64) * chunk_pixels * phases_w;
    }  // of a chunk, at most
};

// The schedule of a configuration, or nullopt where it does not fit (registers, shared memory, instruction shapes, the
// number of multiprocessors).
// Given a schedule `like` it of the same split and bundles, the steps are only counted, not made: enough to choose by.
std::optional<Schedule> schedule(const Problem& problem, const Needs& needs, const Config& config, const Target& target,
                                 const Schedule* like = nullptr);

// Operand tiles in each slab of a K step's `tiles`, none larger than the configuration's, all of them alike.
int slab_of(int tiles, int most, int blocks_per_tile);

// The number of u along an axis.
int64_t u_extent(const Lattice& axis);

}  // namespace transfuse::cuda
