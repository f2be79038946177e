// Shares of a softmax. The algebra writes softmax(x) as exp(x - logsumexp(x)); evaluated so, the difference is rounded
// where it is as large as log n and more. Who has the pivot and the sum of a logsumexp at hand forms
// exp(x - pivot) / sum instead, as PyTorch does, and is as exact.
#pragma once

#include <optional>

#include "transfuse/graph.h"

namespace transfuse::cuda {

struct Share {
    ValueId x, difference, total;  // exp(difference), difference = x - total, total = logsumexp(x)
};

inline std::optional<Share> share_of(const Graph& graph, const Node& node) {
    if (node.op != Op::exp || graph[node.args[0]].op != Op::sub) return std::nullopt;
    const Node& difference = graph[node.args[0]];
    const Node& total = graph[difference.args[1]];
    if (total.op != Op::logsumexp || total.args[0] != difference.args[0]) return std::nullopt;
    return Share{difference.args[0], node.args[0], difference.args[1]};
}

// Whether shares are taken of this sum anywhere.
inline bool has_shares(const Graph& graph, ValueId total) {
    if (graph[total].op != Op::logsumexp) return false;
    for (ValueId v = 0; v < graph.size(); ++v)
        if (const auto share = share_of(graph, graph[v]); share && share->total == total) return true;
    return false;
}

}  // namespace transfuse::cuda
