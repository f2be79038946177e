// Adjoints of reductions and of ops that move elements.
#include <algorithm>

#include "algebra/gradient/gradient.h"
#include "algebra/terms/terms.h"
#include "graph/infer.h"

namespace transfuse {

void differentiate_reduction(Adjoints& a, ValueId y, ValueId g) {
    const Node node = a[y];
    const ValueId x = node.args[0];
    if (!a.needs(x)) return;
    const Type type = a[x].type;
    const Sizes dims = node.attributes.integers(Key::dims);
    Sizes kept = type.shape;
    double count = 1;
    for (int64_t axis : dims) {
        count *= static_cast<double>(kept[static_cast<size_t>(axis)]);
        kept[static_cast<size_t>(axis)] = 1;
    }
    g = a.reshape(g, kept);
    const ValueId result = a.reshape(y, kept);
    switch (node.op) {
        case Op::sum:
            return a.accumulate(x, a.expand(g, type.shape));
        case Op::mean:
            return a.accumulate(x, a.expand(a.scaled(g, 1 / count), type.shape));
        case Op::amax:
        case Op::amin: {  // equal extremes share alike; nan equals nothing, and 0/0 shares are nan, as in PyTorch
            const ValueId mask = a.add(Op::equal, {x, result});
            const ValueId shared = a.add(Op::div, {g, a.builder().reduce(Op::sum, mask, dims, true)});
            return a.accumulate(x, a.mul(mask, shared));
        }
        case Op::logsumexp:
            return a.accumulate(x, a.mul(g, a.add(Op::exp, {a.minus(x, result)})));
        default: {  // var: 2·(x − mean)/(n − correction)
            const double free = count - static_cast<double>(node.attributes.integer(Key::correction));
            const ValueId centred = a.minus(x, a.builder().reduce(Op::mean, x, dims, true));
            return a.accumulate(x, a.mul(centred, a.scaled(g, 2 / free)));
        }
    }
}

// y = softmax(x): y·(g − Σ g·y); log y: g − y·Σ g. 16-bit values in f32.
void differentiate_softmax(Adjoints& a, ValueId id, ValueId g) {
    const Node node = a[id];
    const ValueId x = node.args[0];
    if (!a.needs(x)) return;
    const DType dtype = wide(node.type.dtype);
    const Sizes& dims = node.attributes.integers(Key::dims);
    const auto sum = [&](ValueId of) { return dims.empty() ? of : a.builder().reduce(Op::sum, of, dims); };
    const ValueId y = a.add(Op::softmax, {a.cast(x, dtype)}, node.attributes);
    g = a.cast(g, dtype);
    a.accumulate(x, node.op == Op::softmax ? a.mul(y, a.minus(g, sum(a.mul(g, y)))) : a.minus(g, a.mul(y, sum(g))));
}

namespace {

Sizes zeros(size_t rank) { return Sizes(rank, 0); }

// x[start : end : step] of one axis: zeros between the gradients, then before and after.
ValueId unslice(Adjoints& a, ValueId g, const Node& node, const Sizes& shape) {
    const auto axis = static_cast<size_t>(node.attributes.integer(Key::axis));
    const int64_t step = node.attributes.integer(Key::step);
    const int64_t start = slice_bound(node.attributes.integer(Key::start), shape[axis]);
    Sizes spread = a[g].type.shape;
    if (step > 1) {
        const int64_t extent = spread[axis];
        Sizes split = spread;
        split.insert(split.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 1);
        Sizes after = zeros(split.size());
        after[axis + 1] = step - 1;
        g = a.add(Op::pad, {a.reshape(g, split)}, {{Key::start, zeros(split.size())}, {Key::end, after}});
        spread[axis] = extent * step;
        g = a.reshape(g, spread);
    }
    Sizes before = zeros(shape.size()), after = zeros(shape.size());
    before[axis] = start;
    after[axis] = shape[axis] - start - spread[axis];  // may cut the zeros behind the last
    return a.add(Op::pad, {g}, {{Key::start, before}, {Key::end, after}});
}

}  // namespace

void differentiate_shape(Adjoints& a, ValueId y, ValueId g) {
    const Node node = a[y];
    if (node.args.empty()) return;
    const ValueId x = node.args[0];
    const Sizes shape = a[x].type.shape;
    switch (node.op) {
        case Op::reshape:
            return a.accumulate(x, a.reshape(g, shape));
        case Op::permute: {
            const Sizes& order = node.attributes.integers(Key::order);
            Sizes inverse(order.size());
            for (size_t axis = 0; axis < order.size(); ++axis)
                inverse[static_cast<size_t>(order[axis])] = static_cast<int64_t>(axis);
            return a.accumulate(x, a.add(Op::permute, {g}, {{Key::order, inverse}}));
        }
        case Op::expand:
        case Op::identity:
        case Op::cast:
            return a.accumulate(x, g);
        case Op::flip:
            return a.accumulate(x, a.add(Op::flip, {g}, node.attributes));
        case Op::slice:
            if (a.needs(x)) a.accumulate(x, unslice(a, g, node, shape));
            return;
        case Op::pad: {
            Sizes before = node.attributes.integers(Key::start), after = node.attributes.integers(Key::end);
            for (int64_t& amount : before) amount = -amount;
            for (int64_t& amount : after) amount = -amount;
            return a.accumulate(x, a.add(Op::pad, {g}, {{Key::start, before}, {Key::end, after}}));
        }
        case Op::concat: {
            const int64_t axis = node.attributes.integer(Key::axis);
            int64_t start = 0;
            for (ValueId piece : node.args) {
                const int64_t extent = a[piece].type.shape[static_cast<size_t>(axis)];
                if (a.needs(piece))
                    a.accumulate(piece, a.add(Op::slice, {g},
                                              {{Key::axis, axis}, {Key::start, start}, {Key::end, start + extent}}));
                start += extent;
            }
            return;
        }
        case Op::detach:
            return;
        default:
            fail("gradient: ", name(node.op), " has no derivative here");
    }
}

}  // namespace transfuse
