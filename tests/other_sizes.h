// A graph's leaves with inputs of other extents: the same program at another size.
#pragma once

#include <vector>

#include "transfuse/graph.h"

namespace transfuse::tests {

// extent(axis): of every input and every axis but the channels; parameters stay as they are.
template <class Extent>
std::vector<Type> types_at(const Graph& graph, const Extent& extent) {
    std::vector<Type> types;
    for (ValueId leaf : graph.leaves()) {
        types.push_back(graph[leaf].type);
        if (graph[leaf].op != Op::input) continue;
        Sizes& shape = types.back().shape;
        for (size_t axis = 0; axis < shape.size(); ++axis)
            if (axis != 1) shape[axis] = extent(static_cast<int64_t>(axis));
    }
    return types;
}

}  // namespace transfuse::tests
