#include "cuda/assemble/products.h"

#include <algorithm>

namespace transfuse::cuda {

namespace {

bool multiplies(Op op) { return op == Op::lattice || op == Op::correlate || op == Op::covariance; }

// Whether some value that `id` is made of, up to where products give it, is one that is looked for.
template <class Found>
bool made_of(const Graph& graph, ValueId id, std::vector<bool>& met, const Found& found) {
    if (met[static_cast<size_t>(id)]) return false;
    met[static_cast<size_t>(id)] = true;
    if (found(id)) return true;
    const Node& node = graph[id];
    return !multiplies(node.op) && std::any_of(node.args.begin(), node.args.end(),
                                               [&](ValueId arg) { return made_of(graph, arg, met, found); });
}

bool named(const std::vector<bool>& strict, size_t i) { return i < strict.size() && strict[i]; }

}  // namespace

Fp32Precision precision_of(const Graph& graph, ValueId anchor, const Options& options) {
    if (options.precision == Fp32Precision::strict || anchor < 0) return options.precision;
    std::vector<bool> met(graph.nodes().size());
    const Node& node = graph[anchor];
    if (node.op == Op::lattice && !options.strict_leaves.empty()) {
        const auto& leaves = graph.leaves();
        const auto strict = [&](ValueId id) {
            const auto at = std::ranges::find(leaves, id);
            return at != leaves.end() && named(options.strict_leaves, static_cast<size_t>(at - leaves.begin()));
        };
        if (made_of(graph, node.args[1], met, strict)) return Fp32Precision::strict;
    }
    if (node.op == Op::covariance && std::ranges::count(options.strict_leaves, true) > 0) return Fp32Precision::strict;
    if (node.op == Op::correlate)
        for (size_t i = 0; i < graph.outputs().size(); ++i)
            if (named(options.strict_outputs, i) &&
                made_of(graph, graph.outputs()[i], met, [&](ValueId id) { return id == anchor; }))
                return Fp32Precision::strict;
    return options.precision;
}

}  // namespace transfuse::cuda
