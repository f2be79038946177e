// What a configuration costs: cycles of one multiprocessor for one tile, and bytes of shared memory. Fitted to measured
// kernels; nothing here is needed for correctness.
#pragma once

#include "cuda/dense/schedule/schedule.h"

namespace transfuse::cuda {

struct Cost {
    const Problem& problem;
    const Needs& needs;
    const Schedule& s;  // geometry; memory is decided by the configuration
    Config c;
    double met = 1;  // share_met() where slabs are skipped

    // Memory.
    int bytes() const;
    int weight_bytes() const;
    int load_turns() const;  // pieces of the patch that all load threads take once

    // The share of all slabs whose windows meet the image, for the multiprocessor that has most to do: in so many
    // rounds of tiles it has one that meets most, and else what tiles meet on average.
    double share_met(double waves) const;

    // Whether all patches of a tile have room at once, beside resident weights (measured in fp32).
    bool ring_holds_tile() const;

    // Whether the weights of two K steps have room at once.
    bool ring_holds_steps() const;

    // Boxes come directly into the operand, and product warps keep or send what they make.
    bool operand_without_stores() const;

    // Whether the store role shall take the warpgroups' chunks in turn.
    bool alternates() const;

    // A tile, all roles together.
    double cycles() const;

private:
    // What each role and each resource takes for a tile, were it alone.
    struct Bounds {
        double product = 0, load = 0, shared = 0, store = 0, memory = 0;
    };
    Bounds bounds() const;
    struct Step {                        // of K, for both product warpgroups
        double products = 0, tiles = 0;  // and operand tiles
        double reading = 0;              // cycles in which a product reads its operands from shared memory
        double cycles = 0;               // until the next can begin
    };
    Step step() const;
    double load_cycles() const;
    struct Chunk {
        double elements = 0, inside = 0;  // and the share of its pixels that are in the run
        double stored = 0;                // bytes to memory, of all chunks
        double cycles = 0;                // of the store role
    };
    Chunk chunk() const;
    double chain_cycles() const;        // on accumulators
    struct Left {                       // what product warps make of their accumulators
        double shared = 0, memory = 0;  // bytes that go there
        double sectors = 0;             // that they store themselves
    };
    Left left(const Chunk& chunk) const;
    double run_pixels() const;
    int chunk_pixels() const { return s.chunk_rows * c.chunk_width; }
    int chunk_bytes() const;
    double chunks() const;   // of both warpgroups
    int slab_count() const;  // a K step
    int pixels_a_turn() const;
};

// So many rounds of tiles on a device, of so many cycles each: few tiles are rounded up, or all (whole).
double seconds_of(double waves, double cycles, bool whole = false);

}  // namespace transfuse::cuda
