// A mean, or a sum, comes out of the slots of a variance of the same elements.
#pragma once

#include <vector>

#include "transfuse/graph.h"

namespace transfuse::cuda {

// The var among these values whose sums hold those of v; -1: none.
inline ValueId variance_beside(const Graph& graph, ValueId v, const std::vector<ValueId>& among) {
    const Node& mean = graph[v];
    if (mean.op != Op::mean && mean.op != Op::sum) return -1;
    for (ValueId other : among) {
        const Node& var = graph[other];
        if (var.op == Op::var && mean.args == var.args &&
            mean.attributes.integers(Key::dims) == var.attributes.integers(Key::dims) &&
            mean.attributes.flag(Key::keepdim) == var.attributes.flag(Key::keepdim))
            return other;
    }
    return -1;
}

}  // namespace transfuse::cuda
