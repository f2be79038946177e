#include "cuda/general/pull_terms.h"

#include <algorithm>

#include "algebra/lattice/integer.h"
#include "graph/interpolation.h"

namespace transfuse::cuda {

bool is_view(Op op) {
    return op == Op::reshape || op == Op::permute || op == Op::expand || op == Op::slice || op == Op::flip ||
           op == Op::identity || op == Op::detach;
}

int64_t terms_of(const Graph& graph, ValueId id, const Places& places) {
    const Node& node = graph[id];
    if (auto place = places.find(id); place != places.end()) {
        int64_t terms = place->second.slices * (place->second.partials ? place->second.partials->slots : 1);
        for (const Lattice& axis : place->second.col2im) terms *= (axis.taps + axis.up - 1) / axis.up;
        return terms;
    }
    auto shape = [&](size_t arg) -> const Sizes& { return graph[node.args[arg]].type.shape; };
    int64_t count = 1;
    if (is_reduction(node.op)) {
        for (int64_t dim : node.attributes.integers(Key::dims)) count *= shape(0)[static_cast<size_t>(dim)];
        return count;
    }
    switch (node.op) {
        case Op::lattice:
            return numel(shape(1)) / std::max<int64_t>(1, shape(1)[0] * shape(1)[2]);
        case Op::correlate:
            return numel(shape(1)) / std::max<int64_t>(1, shape(1)[1]);
        case Op::box_sums:
            for (int64_t dim : node.attributes.integers(Key::dims)) count *= shape(0)[static_cast<size_t>(dim)];
            return count;
        case Op::box_spread:
            return shape(0)[1] / std::max<int64_t>(1, node.type.shape[1]);
        case Op::taps:
            return std::max<int64_t>(1, shape(0)[static_cast<size_t>(node.attributes.integer(Key::axis))]);
        case Op::max_pool:
        case Op::min_pool:
        case Op::avg_pool:
            for (int64_t k : node.attributes.integers(Key::kernel)) count *= k;
            return count;
        case Op::adaptive_avg_pool:
        case Op::adaptive_max_pool:
            return std::max<int64_t>(1, numel(shape(0)) / std::max<int64_t>(1, numel(node.type.shape)));
        case Op::max_pool_grad:
        case Op::avg_pool_grad:
            if (node.attributes.has(Key::kernel))
                for (int64_t k : node.attributes.integers(Key::kernel)) count *= k;
            return node.op == Op::max_pool_grad ? count * count : count;
        case Op::interpolate:
            return int64_t{1} << (node.type.rank() - 2);
        case Op::interpolate_grad:
            for (const Interpolation& axis : interpolations(node, node.type.shape, shape(0))) count *= axis.reach();
            return count;
        default:
            return 1;
    }
}

bool can_be_shared(const Graph& graph, ValueId id, const Places& places) {
    if (auto place = places.find(id); place != places.end()) return place->second.partials.has_value();
    const Op op = graph[id].op;
    return is_reduction(op) || op == Op::lattice || op == Op::correlate || op == Op::box_sums;
}

bool reduces_last(const Graph& graph, ValueId id) {
    const Sizes& dims = graph[id].attributes.integers(Key::dims);
    return !dims.empty() && dims.back() + 1 == graph[graph[id].args[0]].type.rank();
}

int64_t splits_of(const PullRequest& request, ValueId fold) {
    if (request.places.contains(fold)) return 1;
    const Graph& graph = request.graph;
    const int64_t terms = terms_of(graph, fold, request.places);
    const bool rows = is_reduction(graph[fold].op) && reduces_last(graph, fold);
    const int64_t per_block = rows ? 1 : 32, slices = rows ? 256 : 8;
    const int64_t blocks = ceil_div(numel(graph[fold].type.shape), per_block);
    const int64_t wanted = 8 * request.target.multiprocessors;
    if (blocks * 4 > wanted || terms < slices * 64) return 1;
    return std::max<int64_t>(1, std::min(terms / (slices * 32), ceil_div(wanted, blocks)));
}

}  // namespace transfuse::cuda
