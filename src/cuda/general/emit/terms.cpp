#include "cuda/general/emit/terms.h"

#include <algorithm>

#include "algebra/lattice/integer.h"
#include "graph/interpolation.h"

namespace transfuse::cuda {

bool is_view(Op op) {
    return op == Op::reshape || op == Op::permute || op == Op::expand || op == Op::slice || op == Op::flip ||
           op == Op::identity || op == Op::detach;
}

std::optional<Selection> selection_of(const Node& taps, int64_t columns) {
    const std::vector<double>& matrix = taps.attributes.numbers(Key::matrix);
    const auto rows = static_cast<size_t>(taps.attributes.integer(Key::rows));
    if (columns == 0) return std::nullopt;
    Selection found{std::vector<int64_t>(rows, 0), std::vector<double>(rows, 0)};
    for (size_t k = 0; k < matrix.size(); ++k) {
        if (matrix[k] == 0) continue;
        const size_t row = k / static_cast<size_t>(columns);
        if (found.factor[row] != 0) return std::nullopt;
        found.column[row] = static_cast<int64_t>(k) % columns, found.factor[row] = matrix[k];
    }
    return found;
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
            count = shape(0)[static_cast<size_t>(node.attributes.integer(Key::axis))];
            return selection_of(node, count) ? 1 : std::max<int64_t>(1, count);
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

namespace {

// Of a reshaped value: from a neighbour along an axis to where it lies in what it was.
Sizes reshaped_strides(const Sizes& from, const Sizes& strides, const Sizes& to) {
    const Sizes steps = contiguous_strides(to), digits = contiguous_strides(from);
    Sizes found(to.size(), 0);
    for (size_t a = 0; a < to.size(); ++a)
        for (size_t b = 0; b < from.size(); ++b) found[a] += steps[a] / digits[b] % from[b] * strides[b];
    return found;
}

}  // namespace

std::optional<Sizes> strides_in_memory(const Graph& graph, ValueId id, const Places& places, int64_t slots) {
    const Node& node = graph[id];
    if (const auto place = places.find(id); place != places.end()) {
        const auto& partials = place->second.partials;
        return (partials ? partials->slots : 1) > slots ? std::optional(place->second.strides) : std::nullopt;
    }
    if (is_pointwise(node.op)) {
        for (ValueId arg : node.args)
            if (graph[arg].type.shape == node.type.shape)
                if (auto found = strides_in_memory(graph, arg, places, slots)) return found;
        return std::nullopt;
    }
    if (!is_view(node.op) || numel(node.type.shape) == 0) return std::nullopt;
    const Sizes& from = graph[node.args[0]].type.shape;
    auto strides = strides_in_memory(graph, node.args[0], places, slots);
    if (!strides) return std::nullopt;
    if (node.op == Op::reshape) return reshaped_strides(from, *strides, node.type.shape);
    if (node.op == Op::permute) {
        const Sizes &order = node.attributes.integers(Key::order), before = *strides;
        for (size_t a = 0; a < order.size(); ++a) (*strides)[a] = before[static_cast<size_t>(order[a])];
    } else if (node.op == Op::expand) {
        Sizes wide(node.type.shape.size(), 0);
        for (size_t b = 0; b < from.size(); ++b)
            if (from[b] != 1) wide[b + wide.size() - from.size()] = (*strides)[b];
        return wide;
    } else if (node.op == Op::slice) {
        (*strides)[static_cast<size_t>(node.attributes.integer(Key::axis))] *= node.attributes.integer(Key::step);
    }
    return strides;
}

}  // namespace transfuse::cuda
