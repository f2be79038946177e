// Shares of a softmax. The algebra writes softmax(x) as exp z / Σ exp z, z = x - max x: two reductions, the second of
// what the first one gave. Where a pass has all of it at hand they are one, (pivot, Σ exp(x - pivot)), and the pass is
// told so: exp(x - logsumexp(x)). Evaluated so, the difference would be rounded where it is as large as log n and more:
// who has the pivot and the sum of a logsumexp forms exp(x - pivot) / sum, as PyTorch does, and is as exact.
#pragma once

#include <optional>

#include "transfuse/plan.h"

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

// The plan with each softmax that a pass has at hand, all of it, as shares of one sum. nullopt: there is none.
std::optional<Plan> with_shares(const Plan& plan);

}  // namespace transfuse::cuda
