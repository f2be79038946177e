// What was measured or fitted for dense kernels: what each figure stands for, and where it comes from. Where nothing is
// said it was fitted with the others of its group to some 300 kernels on an H200; of a few nobody knows more.
#pragma once

#include "cuda/dense/schedule/schedule.h"

namespace transfuse::cuda::figures {

// Measured on an H200 in cycles of 1.75 GHz, over some 300 kernels; see "What bounds a dense kernel" in
// docs/design/dense.md.
inline constexpr double clock_hertz = 1.75e9;
inline constexpr double many_waves = 6;    // fewer rounds of tiles end together, more spread out:
inline constexpr double ragged_end = 0.4;  // of a round is lost at the end

// Streamed weights.
inline constexpr double slab_latency = 2500;  // from asking for a slab to having it, while everybody asks
inline constexpr double
    slab_boxed = 60,
    slab_copied = 100;  // to take a slab over: a warp asks for nothing else, or the load threads do beside their copies
inline constexpr double l2_bytes = 32,
                        l2_bytes_with_stores = 24;  // from L2 to one multiprocessor in a cycle, when all of them ask

// Tensor cores: one product of 64 rows with n pixels takes n / 2 cycles and reads its operands in 16 + n / 4; mma.sync
// has half the rate (an eighth in fp64), and each warp reads its operands itself.
inline constexpr double weights_read = 16, weights_read_by_warps = 32;
inline constexpr double stage_change = 200;  // waiting for the next stage's barrier, issuing its first product
inline constexpr double tile_change = 400;

// Load role: cycles for the pixels of one turn and 8 channels of fp32, by the way they come.
inline double turn_cycles(const Problem& problem) {
    switch (problem.load) {
        case LoadMode::planar:
            return 500;
        case LoadMode::boxes:
            return problem.lanes() == 8 ? 430 : 290;
        case LoadMode::unaligned_rows:
            return problem.lanes() == 8 ? 520 : 330;
        case LoadMode::vector_boxes:
            return problem.lanes() == 8 ? 300 : 220;
        case LoadMode::rows:
            return 150;
        case LoadMode::operand:
            return 400;
        case LoadMode::direct:
            return 90;
        case LoadMode::singles:
            return 900;
        default:
            return 220;
    }
}
inline constexpr double piece_boxed = 300, piece_copied = 400,
                        stage_loaded = 250;                        // beside the pixels: each piece, each stage
inline constexpr double row_box_asked = 90, row_box_brought = 18;  // where rows begin anywhere: a row of a lane's
                                                                   // channels, and each of these
inline constexpr double patch_latency = 2500;  // from asking for a stage to having it, without transposing
inline constexpr double first_patch = 300;     // a tile's, which the products wait for

// Store role: per chunk, and per element.
inline constexpr double chunk_taken = 350;      // its barriers, the places of its columns
inline constexpr double chunk_read_bytes = 48;  // of shared memory in a cycle
inline constexpr double flop_cycles = 1.6;      // of one of the chain's operations, on 128 threads
inline constexpr double vectors_stored = 40,
                        singles_stored = 24;     // bytes in a cycle: vectors of a row, or element by element
inline constexpr double channels_reduced = 300;  // a chunk's channels meet
inline constexpr double memory_latency = 1500;   // of the tensors that were asked for a chunk ago
inline constexpr double sector = 32;             // bytes: what memory writes at once

// Hand-over of accumulators: bytes written in a cycle, and how much of the store role's time the products wait for when
// buffers are full.
inline constexpr double chunk_written = 100;
inline constexpr double waits_joint = 0.8, waits_alone = 0.3;
inline constexpr double box_sent = 300;         // an accumulator that leaves in boxes
inline constexpr double chain_begins = 200;     // on accumulators
inline constexpr double swap_ab_laid = 6;       // instructions of a result that is laid down, and stored with its row
inline constexpr double sectors_stored = 0.56;  // in a cycle, by product warps that have nothing else to do
inline constexpr double sectors_shared = 4.7;  // as long where rows begin anywhere: a sector is two lanes' or two rows'
inline constexpr double fold_flops = 3;        // of a value, to join it with its neighbours'

inline constexpr double shared_bytes_a_cycle = 128;
inline constexpr double patch_passes = 3;          // over shared memory: raw patch in, out, operand in
inline constexpr double memory_bytes = 16.5;       // device memory, in a cycle, of one multiprocessor
inline constexpr double patch_from_memory = 0.75;  // of a patch; the rest its neighbours left in L2

// Kinds of configuration that measure otherwise than the sums above say.
inline constexpr double disturbance = 0.08;                        // of what the other roles do
inline constexpr double short_row = 6, short_row_one_by_one = 12;  // outputs' worth of sectors that a row fills badly
inline constexpr double little_l1 = 1.06, much_shared = 200 * 1024;
inline constexpr double boxes_in_pieces = 1.04, unlike_warpgroups = 1.05, long_stages = 1.05, two_slabs = 1.04;
// Boxes that come directly into the operand, and no store role: each stage less than four, and weights that do not stay
// (D in fp16, the same tiles: 0.734 ms, streamed 0.766; f3 in TF32 1.757, streamed 1.830).
inline constexpr double few_stages = 0.04, streamed = 1.04;
// Tensors come in boxes, and the ring of weights does not hold two K steps': warpgroups wait for one another's slabs,
// so that one's chain and stores follow the other's (L2_26 of KernelBench, 16 images, in TF32: 0.239 ms; tiles of half
// the pixels, with such a ring, 0.112 to 0.130).
inline constexpr double one_after_another = 2;
inline constexpr double short_runs = 0.12;  // of one accumulator: more hand-overs than are counted
inline constexpr double tile_in_ring =
    0.9;  // a ring of stages that holds a whole tile, beside resident weights: the
          // warpgroups hardly wait for one another (measured at d4 only: 0.511 -> 0.485 ms)
inline constexpr double unlike_tiles =
    0.1;  // each variant beyond the first, up to two: tiles of unlike work that load the same patch

// Kinds of memory plan that are alike in cycles otherwise: columns of a chunk that lie together in memory; raw pieces
// that are under way, in boxes or as copies of the load threads, which also fetch streamed weights.
inline constexpr double narrow_chunk(int columns) {
    return columns >= 48 ? 1.0 : columns >= 32 ? 1.03 : columns >= 16 ? 1.08 : 1.12;
}
inline constexpr double two_boxes = 1.003, streamed_beside_copies = 1.05;
inline constexpr double copies_in_flight(int pieces) { return pieces == 4 ? 1.0 : pieces == 3 ? 1.01 : 1.04; }

// What is tried. Slabs of streamed weights in bytes: one larger leaves no room for a second, smaller ones are handed
// over too often.
inline constexpr int largest_slab = 66 << 10, smallest_slab = 6 << 10, smallest_tight_slab = 2 << 10;
inline constexpr int largest_skipped = 40 << 10;  // slabs of whole rows of taps
inline constexpr int beside_weights = 40 << 10;   // shared memory that patch and chunks need at least
inline constexpr int most_resident_parts = 16;    // of channels, each with its CTAs: more leave CTAs idle
inline constexpr double worth_skipping =
    0.948;  // share of slabs met; asking costs: 5 % fewer products were 15 to 22 % slower (32 -> 64, 3x3x3, stride 2)
inline constexpr int64_t narrow_image = 32;  // columns; wider ones are not cut into runs shorter than these
inline constexpr int shortest_run = 16, shortest_tight_run = 8;
inline constexpr int most_stages = 4;        // of a ring that shall hold a whole tile
inline constexpr int shortest_strips = 128;  // pixels of a warpgroup's accumulators
inline constexpr int longest_tma = 96;       // registers of an accumulator; with more, a chain before boxes spills
inline constexpr int runs_of_a_length = 16, strips_of_a_length = 4;  // kept of each length

// What measurements agree on. Long runs beat short ones: those that hold less than this share of the longest's pixels
// are out.
inline constexpr double long_enough = 0.72,
                        long_enough_beside_others = 0.5;  // to be measured, or with tensors in boxes
inline constexpr double clearly_better = 0.92;  // than any long run: a short one with weights that stay is taken. Long
                                                // ones are better than estimated; measured at f5 only (144 -> 128 us)
inline constexpr double few_waves = 4;          // tiles a multiprocessor; with fewer the machine must be filled first
inline constexpr double far_better =
    1.25;  // than a division of channels, which loads the patch once for both warpgroups

// Where products are few the store role is what bounds the kernel; where they are many, tensor cores would wait for the
// reductions. Measured at one place only: f8, 108 products an output, gains (0.33 → 0.29 ms); the bound lies somewhat
// beyond it.
inline constexpr double few_products = 192;

// What swap-AB products may be estimated to take, of the choice's time, to be taken; measured both ways for 48 to 128
// channels, one to three axes, both layouts (docs/measured.md). Store roles are estimated too fast where they gather
// channels that lie apart: channels last, and in 16 bits of more than 64. Up to 64 in planes they are as fast.
inline constexpr double swap_ab_last = 1.6, swap_ab_last_words = 1.15, swap_ab_planes = 1.2, swap_ab_planes_words = 0.9;

// Texts. A heavy chain is written out for few values: its code must compile in a second, and fit the instruction cache.
inline constexpr int most_instructions = 1500;
inline constexpr int long_chain = 24;                // instructions: more are written out once, and need registers
inline constexpr size_t most_written = 100;          // products, else slabs alike share their text
inline constexpr size_t most_of_variants = 150;      // and beyond this variants alike as well
inline constexpr int swap_ab_slab_bytes = 16 << 10;  // of streamed weights, about
inline constexpr int64_t shortest_line = 32;         // pixels of a row that is asked for by itself
inline constexpr int64_t most_tap_rows = 256;  // of channels and taps, in products of each tap: more are stored than
                                               // are read

// Tile programs.
inline constexpr int64_t long_sum = 128;            // products behind one another: what begins and ends a tile hardly
                                                    // counts, and results are stored directly
inline constexpr int longest_on_accumulators = 60;  // instructions of a chain written out for every accumulator
inline constexpr int beside_long_chain = 32;        // registers
inline constexpr int most_reduced_boxes = 170;      // accumulators beside a row's exponentials, before boxes
inline constexpr int most_folded = 128;             // accumulators beside a fold
inline constexpr int64_t most_maps = 24;  // of results and of tensors that come in boxes: a kernel's arguments are few
// Operations that a reduction along rows takes as long as, of each value: 268 M outputs in rows of 64 took 0.84 ms with
// a layer norm, 1.45 with a gelu behind it.
inline constexpr int row_reduced = 6;
inline constexpr int most_table_entries = 2048;  // of values per channel, or per image and channel, in shared memory
inline constexpr int64_t many_pixels = 256;      // of an image: its values per channel are worth a table
// Threads that pack neighbours in memory: of a warp's loads each meets so many fewer lines, of its stores so many more.
inline constexpr int64_t packing_neighbours = 8;

// Of a product's channels in, in slices.
inline constexpr double worth_slicing = 6e-6;  // seconds: of less, to begin twice takes what slices could gain
inline constexpr double most_slices = 32;      // more sums are stored than are worth reading

// Products of each tap, and their sums. Of the other's time: what is estimated .32 and .66 of it was measured .43 and
// .68. Products that a multiprocessor adds up in a second (H200, 3 to 12 million of them: 7.2e11 to 9.2e11 of 132).
inline constexpr double parts_clearly_faster = 0.7, gather_rate = 8e11 / 132;

// An input that is copied to channels last: of the other's time, of which what comes element by element takes 1.7
// to 5.5 times as long as is estimated (docs/measured.md); and the share of the memory's bandwidth that the copy has.
inline constexpr double copied_clearly = 0.9, in_elements = 2, copy_share = 0.5;

}  // namespace transfuse::cuda::figures
