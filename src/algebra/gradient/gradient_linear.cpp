// Adjoints of the lattice convolution and its relatives: all of them lattice convolutions, correlations and pools
// again.
#include <algorithm>

#include "algebra/gradient/gradient.h"
#include "graph/schema.h"
#include "transfuse/error.h"

namespace transfuse {

namespace {

// [G, Cin/G, Cout/G, K…] with the channels of each group swapped and the taps flipped.
ValueId transposed_weight(Adjoints& a, ValueId w) {
    const Sizes shape = a[w].type.shape;
    Sizes order, flipped;
    for (int64_t axis = 0; axis < static_cast<int64_t>(shape.size()); ++axis) {
        order.push_back(axis);
        if (axis >= 3 && shape[static_cast<size_t>(axis)] > 1) flipped.push_back(axis);
    }
    std::swap(order[1], order[2]);
    w = a.add(Op::permute, {w}, {{Key::order, order}});
    return flipped.empty() ? w : a.add(Op::flip, {w}, {{Key::dims, flipped}});
}

// The gradient of lattice(x, w) with respect to x: the transposed lattice.
ValueId back_to_input(Adjoints& a, ValueId g, ValueId w, Lattices axes) {
    for (Lattice& axis : axes) axis = axis.transposed();
    const int64_t groups = a[w].type.shape[0];
    return a.add(Op::lattice, {g, transposed_weight(a, w)}, lattice_attributes(axes, groups));
}

void differentiate_lattice(Adjoints& a, const Node& node, ValueId g) {
    const ValueId x = node.args[0], w = node.args[1];
    const Lattices axes = lattices(node, a[x].type, 3, a[w].type);
    const int64_t groups = node.attributes.integer(Key::groups);
    if (a.needs(x)) a.accumulate(x, back_to_input(a, g, w, axes));
    if (a.needs(w)) {
        Attributes attributes;
        Sizes taps;
        for (const Lattice& axis : axes) taps.push_back(axis.taps);
        for (Key key : {Key::up, Key::down, Key::dil, Key::offset}) attributes.set(key, node.attributes.integers(key));
        attributes.set(Key::taps, taps);
        attributes.set(Key::groups, groups);
        a.accumulate(w, a.add(Op::correlate, {x, g}, attributes));
    }
    if (node.args.size() == 3 && a.needs(node.args[2])) {
        Sizes dims;
        for (int64_t axis = 0; axis < node.type.rank(); ++axis)
            if (axis != 1) dims.push_back(axis);
        const ValueId bias = node.args[2];
        const ValueId wider = a.cast(g, promote(a[g].type.dtype, a[bias].type.dtype));
        a.accumulate(bias, a.reshape(a.builder().reduce(Op::sum, wider, dims, true), a[bias].type.shape));
    }
}

// c = Σ x[i]·y[o] for each tap: linear in both.
void differentiate_correlate(Adjoints& a, const Node& node, ValueId g) {
    const ValueId x = node.args[0], y = node.args[1];
    const Lattices axes = lattices(node, a[x].type, 0, a[y].type);
    if (a.needs(x)) a.accumulate(x, back_to_input(a, y, g, axes));
    if (a.needs(y))
        a.accumulate(y, a.add(Op::lattice, {x, g}, lattice_attributes(axes, node.attributes.integer(Key::groups))));
}

// The windows of a pool as attributes of its gradient.
Attributes windows(const Node& node, std::initializer_list<Key> keys) {
    Attributes attributes;
    for (const auto& [key, value] : node.attributes.items())
        if (std::find(keys.begin(), keys.end(), key) != keys.end()) attributes.set(key, value);
    return attributes;
}

Attributes with_sizes(Attributes attributes, const Sizes& x, size_t pooled) {
    attributes.set(Key::sizes, Sizes(x.end() - static_cast<std::ptrdiff_t>(pooled), x.end()));
    return attributes;
}

}  // namespace

void differentiate_linear(Adjoints& a, ValueId y, ValueId g) {
    const Node node = a[y];
    const ValueId x = node.args[0];
    if (node.op == Op::lattice) return differentiate_lattice(a, node, g);
    if (node.op == Op::correlate) return differentiate_correlate(a, node, g);
    if (node.op == Op::max_pool_grad) {
        require(!a.needs(x), "gradient: max_pool_grad can be differentiated with respect to g only");
        fail("gradient: the second derivative of a max pool is not supported");
    }
    if (!a.needs(x)) return;
    const Sizes shape = a[x].type.shape;
    const auto max_keys = {Key::kernel, Key::stride, Key::padding, Key::dilation, Key::ceil_mode};
    const auto avg_keys = {Key::kernel, Key::stride, Key::padding, Key::ceil_mode, Key::count_include_pad,
                           Key::divisor};
    switch (node.op) {
        case Op::taps: {
            const auto axis = static_cast<size_t>(node.attributes.integer(Key::axis));
            const int64_t rows = node.attributes.integer(Key::rows), extent = shape[axis];
            const std::vector<double>& matrix = node.attributes.numbers(Key::matrix);
            std::vector<double> transposed(matrix.size());
            for (int64_t row = 0; row < rows; ++row)
                for (int64_t k = 0; k < extent; ++k)
                    transposed[static_cast<size_t>(k * rows + row)] = matrix[static_cast<size_t>(row * extent + k)];
            return a.accumulate(
                x, a.add(Op::taps, {g},
                         {{Key::axis, static_cast<int64_t>(axis)}, {Key::rows, extent}, {Key::matrix, transposed}}));
        }
        case Op::box_sums: {
            Attributes attributes = node.attributes;
            Sizes sizes;
            for (int64_t axis : node.attributes.integers(Key::dims)) sizes.push_back(shape[static_cast<size_t>(axis)]);
            attributes.set(Key::sizes, sizes);
            return a.accumulate(x, a.add(Op::box_spread, {g}, attributes));
        }
        case Op::box_spread:
            return a.accumulate(
                x, a.add(Op::box_sums, {g}, windows(node, {Key::dims, Key::counts, Key::los, Key::his, Key::steps})));
        case Op::max_pool:
            return a.accumulate(x, a.add(Op::max_pool_grad, {x, g}, windows(node, max_keys)));
        case Op::min_pool:  // the minimum of x is where the maximum of −x is
            return a.accumulate(x, a.add(Op::max_pool_grad, {a.add(Op::neg, {x}), g}, windows(node, max_keys)));
        case Op::adaptive_max_pool:
            return a.accumulate(x, a.add(Op::max_pool_grad, {x, g}, windows(node, {Key::output_size})));
        case Op::avg_pool:
            return a.accumulate(
                x, a.add(Op::avg_pool_grad, {g},
                         with_sizes(windows(node, avg_keys), shape, node.attributes.integers(Key::kernel).size())));
        case Op::adaptive_avg_pool:
            return a.accumulate(x, a.add(Op::avg_pool_grad, {g},
                                         with_sizes(windows(node, {Key::output_size}), shape,
                                                    node.attributes.integers(Key::output_size).size())));
        case Op::avg_pool_grad:
            if (node.attributes.has(Key::output_size))
                return a.accumulate(x, a.add(Op::adaptive_avg_pool, {g}, windows(node, {Key::output_size})));
            return a.accumulate(x, a.add(Op::avg_pool, {g}, windows(node, avg_keys)));
        case Op::interpolate: {
            Attributes attributes = with_sizes(windows(node, {Key::align_corners}), shape, shape.size() - 2);
            if (node.attributes.has(Key::scale)) attributes.set(Key::scale, node.attributes.numbers(Key::scale));
            return a.accumulate(x, a.add(Op::interpolate_grad, {g}, std::move(attributes)));
        }
        case Op::interpolate_grad: {
            Attributes attributes = windows(node, {Key::align_corners});
            if (node.attributes.has(Key::scale))
                attributes.set(Key::scale, node.attributes.numbers(Key::scale));
            else
                attributes.set(Key::output_size, Sizes(shape.begin() + 2, shape.end()));
            return a.accumulate(x, a.add(Op::interpolate, {g}, std::move(attributes)));
        }
        default:
            fail("gradient: ", name(node.op), " has no derivative here");
    }
}

}  // namespace transfuse
