// Inference of ops that move or select elements.
#include <algorithm>

#include "graph/infer.h"

namespace transfuse {

namespace {

Type infer_reshape(const Inference& node) {
    const Type& x = node.type(0);
    Sizes shape = node.attributes.integers(Key::shape);  // the attribute keeps its -1, so it holds for other extents
    auto open = std::find(shape.begin(), shape.end(), -1);
    int64_t known = 1;
    for (auto at = shape.begin(); at != shape.end(); ++at) {
        if (at == open) continue;
        if (*at < 0) node.refuse("shape may have one -1 and no other negative extent, got ", to_string(shape));
        known = checked_mul(known, *at, "reshape: number of elements");
    }
    const int64_t count = numel(x.shape);
    if (open != shape.end()) {
        if (known == 0 || count % known)
            node.refuse("shape ", to_string(shape), " does not fit the ", count, " elements of x ", to_string(x));
        *open = count / known;
    } else if (known != count) {
        node.refuse("shape ", to_string(shape), " has ", known, " elements, x ", to_string(x), " has ", count);
    }
    return {x.dtype, std::move(shape)};
}

Type infer_permute(const Inference& node) {
    const Type& x = node.type(0);
    Sizes order = node.attributes.integers(Key::order);
    if (static_cast<int64_t>(order.size()) != x.rank())
        node.refuse("order must name each of the ", x.rank(), " axes of x once, got ", to_string(order));
    Type result{x.dtype, {}};
    std::vector<bool> seen(order.size());
    for (int64_t& axis : order) {
        axis = node.axis(axis, x.rank());
        auto at = static_cast<size_t>(axis);
        if (seen[at]) node.refuse("order must name each of the ", x.rank(), " axes of x once, got ", to_string(order));
        seen[at] = true;
        result.shape.push_back(x.shape[at]);
    }
    node.attributes.set(Key::order, std::move(order));
    return result;
}

Type infer_expand(const Inference& node) {
    const Type& x = node.type(0);
    Sizes shape = node.attributes.integers(Key::shape);  // -1 keeps the extent, also for other extents
    if (shape.size() < x.shape.size())
        node.refuse("shape must have at least the rank of x ", to_string(x), ", got ", to_string(shape));
    const size_t lead = shape.size() - x.shape.size();
    for (size_t axis = 0; axis < shape.size(); ++axis) {
        int64_t& extent = shape[axis];
        if (axis < lead) {
            if (extent < 0) node.refuse("a new axis needs an extent, got ", to_string(shape));
            continue;
        }
        const int64_t own = x.shape[axis - lead];
        if (extent == -1) extent = own;
        if (extent < 0 || (own != 1 && own != extent))
            node.refuse("axis ", axis, " of extent ", own, " cannot be expanded to ", extent, " in x ", to_string(x));
    }
    return {x.dtype, std::move(shape)};
}

Type infer_concat(const Inference& node) {
    Type result{node.promoted(), node.shape(0)};
    if (result.rank() == 0) node.refuse("operands must have at least one axis");
    const auto axis = static_cast<size_t>(node.axis(node.attributes.integer(Key::axis), result.rank()));
    node.attributes.set(Key::axis, static_cast<int64_t>(axis));
    for (size_t i = 1; i < node.count(); ++i) {
        const Sizes& shape = node.shape(i);
        bool alike = shape.size() == result.shape.size();
        for (size_t a = 0; alike && a < shape.size(); ++a) alike = a == axis || shape[a] == result.shape[a];
        if (!alike)
            node.refuse("operands must agree but on axis ", axis, ", got ", to_string(node.type(0)), " and ",
                        to_string(node.type(i)));
        result.shape[axis] = checked_add(result.shape[axis], shape[axis], "concat: extent");
    }
    return result;
}

Type infer_slice(const Inference& node) {
    const Type& x = node.type(0);
    if (x.rank() == 0) node.refuse("x must have at least one axis");
    const int64_t axis = node.axis(node.attributes.integer(Key::axis), x.rank());
    node.attributes.set(Key::axis, axis);
    const int64_t step = node.attributes.integer(Key::step);
    if (step < 1) node.refuse("step must be at least 1, got ", step);
    const int64_t extent = x.shape[static_cast<size_t>(axis)];
    const int64_t start = slice_bound(node.attributes.integer(Key::start), extent);
    const int64_t end = slice_bound(node.attributes.integer(Key::end), extent);
    Type result = x;
    result.shape[static_cast<size_t>(axis)] = end > start ? (end - start - 1) / step + 1 : 0;
    return result;
}

Type infer_pad(const Inference& node) {
    Type result = node.type(0);
    node.per_axis(Key::start, result.rank());
    node.per_axis(Key::end, result.rank());
    const Sizes &before = node.attributes.integers(Key::start), &after = node.attributes.integers(Key::end);
    for (size_t axis = 0; axis < result.shape.size(); ++axis) {
        int64_t& extent = result.shape[axis];
        const int64_t cropped =
            checked_add(std::min<int64_t>(before[axis], 0), std::min<int64_t>(after[axis], 0), "pad: extent");
        if (checked_add(extent, cropped, "pad: extent") < 0)
            node.refuse("start ", before[axis], " and end ", after[axis], " crop more than the extent ", extent,
                        " of axis ", axis);
        extent = checked_add(checked_add(extent, before[axis], "pad: extent"), after[axis], "pad: extent");
    }
    return result;
}

}  // namespace

int64_t slice_bound(int64_t bound, int64_t extent) {
    return std::clamp<int64_t>(bound < 0 ? bound + extent : bound, 0, extent);
}

Type infer_shape(const Inference& node) {
    switch (node.op()) {
        case Op::reshape:
            return infer_reshape(node);
        case Op::permute:
            return infer_permute(node);
        case Op::expand:
            return infer_expand(node);
        case Op::concat:
            return infer_concat(node);
        case Op::slice:
            return infer_slice(node);
        case Op::pad:
            return infer_pad(node);
        case Op::flip:
            node.dims(node.type(0).rank(), false);
            return node.type(0);
        case Op::cast:
            return {static_cast<DType>(node.attributes.integer(Key::dtype)), node.shape(0)};
        default:
            return node.type(0);  // identity, detach
    }
}

}  // namespace transfuse
