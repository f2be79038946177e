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
    double tile_flops = 0;             // of tile programs, which run beside the product; 0: pointwise_flops
    double bandwidth;                  // bytes/s, main memory
    double launch;                     // seconds a pass costs however small
    int64_t tile_channels;             // most output channels a tile can hold (channel reductions need all of them)
    int64_t tile_row = 0;              // most outputs of a row along the last axis that a tile can hold (reductions of rows need all of them) …
    int64_t tile_row_values = 1 << 20; // … of tensors of at most so many: more are stored and reduced by a loop, in no more time
    int64_t row_elements = 1 << 14;    // most elements of a reduction a pointwise pass may hold at once (softmax, norms)
    int64_t tail_elements = 1 << 18;   // a tail value has at most so many elements …
    double tail_flops = 1 << 23;       // … and takes at most so many flops
    int pools_in_tile = 1;             // pools a tile program may contain (0: every pool is a pass of its own)
    bool sinks_before_pool = true;     // false: before a tile's pool only pointwise steps, none of them stored or reduced
    bool prologue_casts = true;        // a prologue may read x in another dtype; else that of a pool, or of a thin product alone:
    int64_t thin_work = 0;             // of so many multiply-adds a pixel or fewer, which ordinary arithmetic makes
    bool any_rows = false;             // row reductions over any axes; else over [1], all spatial axes, or both
    bool grid_var = true;              // dense passes take var across tiles (counts, means and squares, combined)
    bool grid_rows = true;             // false: grid reductions of a dense pass cover every spatial axis
    int64_t pool_outputs = 1 << 20;    // most elements a window of a tile's pool may have
    bool pools_in_loop = false;        // a loop may take windows of a pool, and what they are made of, where it reads
    int concat_sources = 0;            // a dense pass reads the channels of x from so many tensors: concat as a prologue
    Prices prices = {};                // for the algebra, before there is a plan
    static Machine cpu(int threads);
    static Machine h200();
    bool operator==(const Machine&) const = default;
};

enum class PassKind : uint8_t {
    prepare,    // values of parameters and constants alone: folded weights. Small; runs at every call unless frozen.
    moments,    // box_sums of a tensor read once (anchor: the box_sums node), then its tail
    dense,      // lattice-convolution tiles (anchor: the lattice node), a tile program on each, sinks, then the tail
    correlate,  // products of two tensors summed over pixels: weight gradients, covariances (anchor: that node)
    pointwise,  // a loop over the elements of one domain, reductions included (anchor: a step or read of that shape)
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
// The target is the value itself, a concat it is a piece of, or (outputs only) a reshape of it: the same elements in
// row-major order.
struct Store {
    ValueId value;
    ValueId target;
    Sizes start;
    bool operator==(const Store&) const = default;
};

// What holds of every pass, and which steps may share one, is written down in src/plan/fusion.h (and docs/design/plan.md).
struct Pass {
    PassKind kind;
    ValueId anchor = -1;
    std::vector<TileStep> steps;    // topological order; includes the anchor (scope tile; grid in a moments pass)
    std::vector<ValueId> reads;     // values taken from memory: leaves, what earlier passes stored, and views of both
    std::vector<Store> stores;      // sinks
    Cost cost;                      // flops and bytes of this pass alone
    double seconds = 0;             // the cost model's estimate
    std::string why;                // the choice behind it, if there was one ("computed twice: 0.3 ms < 0.9 ms stored")
    bool operator==(const Pass&) const = default;
};

struct Plan {
    Graph graph;                    // rewritten; with shifts gathered where a convolution is computed twice
    std::vector<Pass> passes;
    Machine machine;
    double seconds = 0;             // the cost model's estimate
    std::vector<bool> views;        // per value: read through its root's memory
    std::vector<ValueId> gathered;  // values of the rewritten graph whose shifts are (src/plan/shifts.h)
    // Values that need a buffer of their own: stored by a pass, not outputs or leaves.
    std::vector<ValueId> buffers() const;
    size_t bytes() const;           // of memory that it takes, about
};

Plan plan(const Graph& rewritten, const Machine& machine);
std::string print(const Plan& plan);

// Literals (scalar, full) are never reads, and steps only where they are stored: every pass writes them into its code.
bool is_literal(const Graph& graph, ValueId id);

// Views (slice, permute, expand, flip, and reshapes that only need strides) are never steps: a pass reads them where their
// root lies. view_root follows them to the leaf or stored value; view_strides turns the root's strides into the view's.
struct StridedView {
    int64_t offset = 0;             // elements from the root's first element
    Sizes strides;
    bool operator==(const StridedView&) const = default;
};
ValueId view_root(const Plan& plan, ValueId id);      // id itself where it is no view
StridedView view_strides(const Plan& plan, ValueId id, const Sizes& root_strides);

}  // namespace transfuse
