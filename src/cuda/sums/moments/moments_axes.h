// The axes of a tensor as a moments kernel walks them, and the cells that intervals cut out of one.
#pragma once

#include <vector>

#include "cuda/general/emit/emitter.h"
#include "transfuse/graph.h"
#include "transfuse/lattice.h"

namespace transfuse::cuda {

// Indices that belong to the same intervals: lo, lo + step, … <= hi.
struct Cell {
    int64_t lo, hi, step, mask;  // mask: bit i: in interval i
};
std::vector<Cell> cells_of(const std::vector<Interval>& intervals, int64_t extent);

struct Axis {
    std::vector<size_t> logical;  // tensor axes, outermost first: more than one where they were merged
    int64_t extent = 1, stride = 0;
    bool reduced = false;
    std::vector<Interval> intervals;  // reduced only
    bool whole() const { return reduced && intervals.size() == 1 && intervals[0] == Interval{0, extent - 1, 1}; }
};

// The strides of x, or those of the first memory that a computed x pulls, if the shapes agree: the order to walk in.
Sizes walking_strides(const Graph& graph, const Places& places, ValueId x);

// Axes in the order of memory, neighbours merged where nothing tells them apart.
std::vector<Axis> memory_axes(const Node& box, const Type& x, const Sizes& strides, bool merge);

}  // namespace transfuse::cuda
