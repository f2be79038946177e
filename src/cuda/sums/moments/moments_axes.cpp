#include "cuda/sums/moments/moments_axes.h"

#include <algorithm>
#include <numeric>

#include "cuda/general/pull/pull.h"

namespace transfuse::cuda {

std::vector<Cell> cells_of(const std::vector<Interval>& intervals, int64_t extent) {
    std::vector<int64_t> edges = {0, extent};
    int64_t period = 1;
    for (const Interval& interval : intervals) {
        if (interval.empty()) continue;
        edges.push_back(interval.lo);
        edges.push_back(interval.hi + 1);
        period = std::lcm(period, interval.step);
    }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    std::vector<Cell> cells;
    for (size_t e = 0; e + 1 < edges.size(); ++e)
        for (int64_t r = 0; r < std::min(period, edges[e + 1] - edges[e]); ++r) {
            Cell cell{edges[e] + r, edges[e + 1] - 1, period, 0};
            cell.hi = cell.lo + (cell.hi - cell.lo) / period * period;
            for (size_t i = 0; i < intervals.size(); ++i)
                if (intervals[i].contains(cell.lo)) cell.mask |= int64_t{1} << i;
            if (cell.mask != 0) cells.push_back(cell);  // nobody wants the others: they are not read
        }
    return cells;
}

Sizes walking_strides(const Graph& graph, const Places& places, ValueId x) {
    const Sizes& shape = graph[x].type.shape;
    ValueId v = x;
    while (!places.contains(v) && is_pointwise(graph[v].op)) {
        ValueId next = -1;
        for (ValueId arg : graph[v].args)
            if (graph[arg].type.shape == shape) next = arg;
        if (next < 0) break;
        v = next;
    }
    if (places.contains(v) && graph[v].type.shape == shape) return places.at(v).strides;
    return contiguous_strides(shape);
}

std::vector<Axis> memory_axes(const Node& box, const Type& x, const Sizes& strides, bool merge) {
    const Sizes& dims = box.attributes.integers(Key::dims);
    std::vector<Axis> axes;
    for (size_t a : memory_order(x.shape, strides)) {
        Axis axis{{a}, x.shape[a], strides[a], false, {}};
        size_t at = 0;
        for (size_t j = 0; j < dims.size(); ++j)
            for (int64_t i = 0; i < box.attributes.integers(Key::counts)[j]; ++i, ++at)
                if (static_cast<size_t>(dims[j]) == a) {
                    axis.reduced = true;
                    axis.intervals.push_back({box.attributes.integers(Key::los)[at],
                                              box.attributes.integers(Key::his)[at],
                                              box.attributes.integers(Key::steps)[at]});
                }
        if (!axis.reduced && axis.extent == 1) continue;
        if (merge && !axes.empty()) {
            Axis& last = axes.back();
            const bool adjacent = last.stride == axis.stride * axis.extent;
            // Channels may lie behind the pixels they belong to.
            const bool kept = !last.reduced && !axis.reduced && last.logical.back() >= 2;
            const bool alike = (last.whole() && axis.whole()) || (kept && (a == 1 || last.logical.back() < a));
            if (adjacent && alike) {
                last.logical.push_back(a);
                last.extent *= axis.extent, last.stride = axis.stride;
                if (last.reduced) last.intervals = {{0, last.extent - 1, 1}};
                continue;
            }
        }
        axes.push_back(std::move(axis));
    }
    return axes;
}

}  // namespace transfuse::cuda
