// A plan: the rewritten graph cut into a short list of passes over memory.
//
// A pass is a set of the graph's nodes that one kernel (or one parallel loop) computes together, so a plan's meaning is
// its graph's meaning: each pass evaluates its values from values earlier passes stored. A value that stands in two
// passes is computed twice (compute twice, store once).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transfuse/algebra.h"
#include "transfuse/graph.h"

namespace transfuse {

struct Machine {                       // what the cost model knows of a device
    std::string name;
    double flops;                      // dense multiply-add rate, flop/s
    double pointwise_flops;            // flop/s outside the product
    double bandwidth;                  // bytes/s, main memory
    double launch;                     // seconds a pass costs however small
    int64_t tile_channels;             // most output channels a tile can hold (channel reductions need all of them)
    static Machine cpu(int threads);
    static Machine h200();
    bool operator==(const Machine&) const = default;
};

enum class PassKind : uint8_t {
    prepare,    // values of parameters and constants alone: folded weights. Small; runs at every call unless frozen.
    moments,    // box_sums of a tensor read once (anchor: the box_sums node), then its tail
    dense,      // lattice-convolution tiles (anchor: the lattice node), a tile program on each, sinks, then the tail
    correlate,  // weight gradients (anchor: the correlate node)
    pointwise,  // a loop over the elements of one domain, reductions included (anchor: the value with the largest domain)
    library,    // a value left to a general routine of the engine (anything no other pass can express), one node a pass
};

// Where in a pass a value lives.
enum class Scope : uint8_t {
    prologue,   // dense: evaluated on input elements while the patch is loaded (padding stays zero)
    tile,       // evaluated on each tile / element
    grid,       // a reduction across tiles: partials in fixed slots, combined in fixed order; complete only when all are done
    tail,       // evaluated after every grid value of the pass is complete; small
};

struct TileStep {
    ValueId value;
    Scope scope;
    bool operator==(const TileStep&) const = default;
};

// `value` is written to memory as the region of `target` that begins at `start` (target == value, start empty: all of it).
struct Store {
    ValueId value;
    ValueId target;
    Sizes start;
    bool operator==(const Store&) const = default;
};

struct Pass {
    PassKind kind;
    ValueId anchor = -1;
    std::vector<TileStep> steps;    // topological order; includes the anchor (scope tile)
    std::vector<ValueId> reads;     // values taken from memory: leaves and what earlier passes stored
    std::vector<Store> stores;      // sinks
    Cost cost;                      // flops and bytes of this pass alone
    std::string why;                // the choice behind it, if there was one ("computed twice: 0.3 ms < 0.9 ms stored")
    bool operator==(const Pass&) const = default;
};

struct Plan {
    Graph graph;                    // rewritten
    std::vector<Pass> passes;
    Machine machine;
    double seconds = 0;             // the cost model's estimate
    // Values that need a buffer of their own: stored by a pass, not outputs or leaves.
    std::vector<ValueId> buffers() const;
};

Plan plan(const Graph& rewritten, const Machine& machine);
std::string print(const Plan& plan);

}  // namespace transfuse
