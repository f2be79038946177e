// Smaller sizes of the same program, so that the plain reference can check it in about a second.
#include <algorithm>
#include <optional>

#include "cli/commands.h"
#include "transfuse/algebra.h"
#include "transfuse/error.h"

namespace transfuse::cli {

namespace {

// The graph with the extents that `chosen(axis, extent)` names halved (rounded up: odd sizes find more) in every input.
template <class Chosen>
std::optional<Graph> halved(const Graph& graph, Chosen chosen) {
    std::vector<Type> types;
    for (ValueId leaf : graph.leaves()) {
        Type type = graph[leaf].type;
        if (graph[leaf].op == Op::input && type.shape.size() > 1)
            for (size_t axis = 0; axis < type.shape.size(); ++axis)
                if (chosen(axis, type.shape[axis])) type.shape[axis] = (type.shape[axis] + 1) / 2;
        types.push_back(std::move(type));
    }
    try {
        return graph.with_leaf_types(types);
    } catch (const Error&) {
        return std::nullopt;  // a shape further down depends on it
    }
}

// The largest extent of `axis` among the inputs; an axis past 1 is spatial, axis 1 (channels) stays.
int64_t largest(const Graph& graph, size_t axis) {
    int64_t extent = 0;
    for (ValueId leaf : graph.leaves()) {
        const Sizes& shape = graph[leaf].type.shape;
        if (graph[leaf].op == Op::input && shape.size() > std::max<size_t>(axis, 1))
            extent = std::max(extent, shape[axis]);
    }
    return extent;
}

}  // namespace

Graph shrink(const Graph& graph, double flops) {
    Graph small = graph;
    // Down to a batch of two and extents of four, where every border is still met; further only if that is not enough.
    for (const auto& [least_batch, least_extent] : {std::pair<int64_t, int64_t>{2, 4}, {1, 2}})
        for (bool progress = true; progress && cost(small).flops > flops;) {
            progress = false;
            for (size_t axis : {0, 2, 3, 4}) {
                const int64_t extent = largest(small, axis);
                if (extent <= (axis == 0 ? least_batch : least_extent)) continue;
                std::optional<Graph> next =
                    halved(small, [&](size_t a, int64_t e) { return a == axis && e == extent; });
                // Inputs of several levels (skip connections) only fit each other if all are cut.
                if (!next && axis == 2) next = halved(small, [&](size_t a, int64_t e) { return a >= 2 && e > 1; });
                if (!next) continue;
                small = std::move(*next);
                progress = true;
                if (axis == 0 || cost(small).flops <= flops) break;  // the batch first: it changes no border
            }
        }
    return small;
}

}  // namespace transfuse::cli
