// Convolutions, transposed convolutions and nearest upsampling as lattice convolutions.
#include <algorithm>

#include "algebra/expand/rules.h"
#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

// Without a batch axis x becomes [1, C, …].
ValueId batched(Rewriter& r, ValueId x, size_t d) {
    if (r.shape(x).size() == d + 2) return x;
    Sizes shape = r.shape(x);
    shape.insert(shape.begin(), 1);
    return reshape(r, x, std::move(shape));
}

// conv_transpose: w [Cin, Cout/G, K…] is [G, Cin/G, Cout/G, K…] as it lies in memory.
ValueId transposed_weight(Rewriter& r, ValueId w, int64_t groups) {
    Sizes shape = r.shape(w);
    shape[0] /= groups;
    shape.insert(shape.begin(), groups);
    return reshape(r, w, std::move(shape));
}

// conv: w [Cout, Cin/G, K…] = [G, Cout/G, Cin/G, K…], channels swapped within the group and taps flipped.
ValueId convolution_weight(Rewriter& r, ValueId w, int64_t groups) {
    Sizes order, flipped;
    ValueId result = transposed_weight(r, w, groups);
    for (int64_t axis = 0; axis < r.rank(result); ++axis) {
        order.push_back(axis);
        if (axis >= 3 && r.shape(result)[static_cast<size_t>(axis)] > 1) flipped.push_back(axis);
    }
    std::swap(order[1], order[2]);
    if (moves_no_element(r.shape(result), order)) {  // as the next round would say
        Sizes shape = r.shape(result);
        std::swap(shape[1], shape[2]);
        result = reshape(r, result, std::move(shape));
    } else {
        result = permute(r, result, std::move(order));
    }
    return flipped.empty() ? result : r.add(Op::flip, {result}, {{Key::dims, std::move(flipped)}});
}

ValueId expand_convolution(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const Lattices axes = lattices(node, r[node.args[0]].type, 2, r[node.args[1]].type);
    const int64_t groups = node.attributes.integer(Key::groups);
    const ValueId x = batched(r, node.args[0], axes.size());
    const ValueId w =
        node.op == Op::conv ? convolution_weight(r, node.args[1], groups) : transposed_weight(r, node.args[1], groups);
    r.say(name(node.op), " ", node.type, " is a lattice convolution");
    return reshape(r, lattice(r, x, w, node.args.size() == 3 ? node.args[2] : -1, axes), node.type.shape);
}

// With a batch axis, and where the result grows with x: out − up·in is the same for all x.
bool grows_with_input(const Rewriter& r, ValueId id) {
    const Node& node = r[id];
    const Sizes& stride = node.attributes.integers(Key::stride);
    if (node.type.rank() != static_cast<int64_t>(stride.size()) + 2) return false;
    return node.op == Op::conv_transpose || std::all_of(stride.begin(), stride.end(), [](int64_t s) { return s == 1; });
}

ValueId expand_upsample(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const Lattices axes = lattices(node, r[node.args[0]].type, 0, {});
    const ValueId x = batched(r, node.args[0], axes.size());
    Sizes shape = {r.shape(x)[1], 1, 1};
    for (const Lattice& axis : axes) shape.push_back(axis.taps);
    r.say("upsample ", node.type, " is a lattice convolution of ones");
    return reshape(r, lattice(r, x, full(r, r.dtype(x), std::move(shape), 1), -1, axes), node.type.shape);
}

}  // namespace

std::span<const Rule> expand_conv_rules() {
    static const std::vector<Rule> rules = {
        {"expand_conv", Family::expand, {Op::conv, Op::conv_transpose}, expand_convolution, true, grows_with_input},
        {"expand_upsample", Family::expand, {Op::upsample}, expand_upsample, true},
    };
    return rules;
}

}  // namespace transfuse
