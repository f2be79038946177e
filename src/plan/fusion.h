// Which steps may share a pass: what every engine may rely on, and what the planner keeps to.
//
// Every pass
//   * A step's operands are literals (scalar, full: written into the code; w and bias of a lattice may be literals,
//   too),
//     earlier steps of the same pass, or reads. steps are ordered by scope, then by id, which is a topological order.
//     reads lists each operand that is no literal and no step of the pass, once. A read lies in memory: it is a leaf, a
//     value an earlier pass stored, or a view of one (slice, permute, expand, flip, or a reshape that only needs
//     strides; view_root and view_strides of plan.h resolve it). Views are never steps.
//   * memory of a read: a leaf's own tensor; else the output's tensor where the value is an output; else its buffer.
//     memory of a store: the output's tensor where the target is an output; else its buffer. Buffers are contiguous.
//     An output that is a leaf or a view is copied by a pointwise pass without steps (value == target == the output).
//     A value that stands twice among the outputs is stored once; the engine copies it to its second place.
//   * Scopes within a pass only look back: prologue <- prologue; tile <- prologue (through the anchor), tile; grid <-
//   tile;
//     tail <- grid, tail. A tile value never depends on a grid or tail value of its own pass; where the mathematics
//     needs that (normalisation), there is a second pass.
//
// prepare: at most one, the first pass. Values of params and constants alone, all of scope tail, any primitive. Stores
// what
//   later passes (or the outputs) need.
//
// dense: one lattice, the anchor y = lattice(x, w[, bias]), y: [N, C, S…].
//   prologue  Pointwise ops on the elements of x before the product; every value has x's shape exactly or broadcasts to
//             it, the last one has x's shape. Positions outside x contribute zero whatever the prologue makes of zero.
//             Unless machine.prologue_casts, what it reads of x's shape has x's dtype, but for thin products
//             (machine.thin_work) and depthwise ones of few taps, in passes of pointwise steps.
//             Where machine.concat_sources allows it, one of them may be a concat along axis 1 of that many reads or
//             fewer: channel c of x is read from the piece it belongs to.
//   tile      The grid of a tile value is y's shape, [N, C, S…], or after a pool the pooled [N, C, S'…]. Tile steps are
//               - the anchor;
//               - pointwise ops (casts included) whose result, under PyTorch's right-aligned broadcasting, is a value
//               on
//                 its grid (every extent the grid's or 1; rank at most the grid's). Reads among their operands
//                 broadcast to the grid the same way: scalar, per-channel [C,1,1], per-(n,c) [N,C,1,1], full tensor,
//                 anything;
//               - channel reductions: a reduction with dims = [1], keepdim = 1, result [N, 1, S…], where
//                 C <= machine.tile_channels; ops sum mean amax amin logsumexp var (also of a value that is [N, 1,
//                 S…]);
//               - row reductions: the same ops with dims = the last axis, keepdim = 1, result [N, C, …, 1], of a value
//                 of the grid's shape whose rows have at most machine.tile_row elements, itself
//                 machine.tile_row_values. A pass with them has no channel reductions, no pool and nothing of scope
//                 grid or tail;
//               - pools (at most machine.pools_in_tile, all tile values after it on the pooled grid, none of the values
//                 after it uses one before it): tile_pool(graph, id) of this header says which nodes qualify: max_pool,
//                 min_pool, or an average pool (lattice with C groups and a literal weight), with kernel == stride, no
//                 padding, no dilation, floor mode: windows that lie side by side, of at most machine.pool_outputs
//                 elements. Unless machine.sinks_before_pool, the values before the pool are pointwise ones that are
//                 neither stored nor reduced.
//   grid      A reduction (sum mean amax amin logsumexp var) of a tile value over any other axes: any subset of batch,
//             channel and spatial axes; keepdim 0 or 1; var only where machine.grid_var. Unless machine.grid_rows, of a
//             value with several channels all spatial axes are reduced. Several may share a pass. Along the reduced
//             axes the value has the extent of its grid, or 1 (which counts once). Combined in fixed order.
//   tail      Any primitive, at most machine.tail_elements elements and machine.tail_flops flops, whose operands are
//   grid
//             or tail values, reads or literals; at least one is a grid or tail value. The collapsed product (a lattice
//             on extents of 1) is a tail step, not a dense pass.
//   stores    Tile, grid and tail values.
//
// moments: box_sums of one tensor x (anchor: the first of them), all of scope grid; each reads x, or the same prologue
// of x
//   (rules as in a dense pass). Then tail. Stores grid and tail values.
//
// correlate: one correlate(x, g), the anchor, of scope grid. prologue: pointwise ops on the elements of x and, apart
// from
//   them, on those of g. Then tail. Or one covariance(x).
//
// pointwise: the domain D is the shape of the anchor, a step or a read. Two sorts:
//   loop      tile: pointwise ops whose result broadcasts to D (as above); row reductions: reductions of a tile value
//             with keepdim = 1 over a set R of axes that is the same for all row reductions of the pass and covers at
//             most machine.row_elements elements; their results may be used with values of D again (softmax, norms).
//             Unless machine.any_rows, R is [1], all spatial axes (2 and up), or both.
//             grid: any other reduction of a tile value. tail as above. No steps at all: a copy (views, concat pieces).
//   small     every step has scope tail: any primitives, evaluated one after another (limits of tail apply to each).
//
// library: one node of any primitive op, scope tile, stored. Everything no other pass can express.
//   Where machine.pools_in_loop, a pool whose windows lie side by side has a chain: a prologue on the elements of what
//   it reads, as in a dense pass, and behind it pointwise steps whose result broadcasts to the pool's.
#pragma once

#include <optional>

#include "transfuse/plan.h"

namespace transfuse {

// A pool whose windows lie side by side: out[o] = max | min | scale·Σ over window^d of in, spatial axes only.
struct TilePool {
    enum class Kind : uint8_t { max, min, sum } kind;
    Sizes window;      // per spatial axis; kernel and stride alike
    double scale = 1;  // sum only: the literal weight
    bool operator==(const TilePool&) const = default;
};
std::optional<TilePool> tile_pool(const Graph& graph, ValueId id);

// Whether a dense pass has row reductions.
bool reduces_rows(const Graph& graph, const Pass& pass);

}  // namespace transfuse
