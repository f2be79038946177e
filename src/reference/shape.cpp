// Ops that move or select elements.
#include <algorithm>

#include "reference/interpret.h"
#include "transfuse/error.h"

namespace transfuse::reference {

namespace {

// result[index] = x[source(index)], where source() adapts an index in place and may refuse it (the result keeps
// `filler`).
template <class Source>
Tensor gather(const Operation& operation, double filler, const Source& source) {
    const Tensor& x = operation.arg(0);
    const Sizes strides = contiguous_strides(x.type.shape);
    Tensor result = zeros(operation.node.type);
    size_t next = 0;
    for_each_index(operation.node.type.shape, [&](const Sizes& index) {
        Sizes from = index;
        result.data[next++] = source(from) ? x.data[at(from, strides)] : filler;
    });
    return result;
}

Tensor concat(const Operation& operation) {
    const auto axis = static_cast<size_t>(operation.integer(Key::axis));
    const Sizes strides = contiguous_strides(operation.node.type.shape);
    Tensor result = zeros(operation.node.type);
    int64_t begin = 0;
    for (size_t i = 0; i < operation.args.size(); ++i) {
        size_t next = 0;
        for_each_index(operation.shape(i), [&](const Sizes& index) {
            Sizes to = index;
            to[axis] += begin;
            result.data[at(to, strides)] = operation.arg(i).data[next++];
        });
        begin += operation.shape(i)[axis];
    }
    return result;
}

}  // namespace

Tensor interpret_shape(const Operation& operation) {
    const Tensor& x = operation.arg(0);
    switch (operation.op()) {
        case Op::reshape:
            return {operation.node.type, x.data};
        case Op::concat:
            return concat(operation);
        case Op::permute: {
            const Sizes& order = operation.list(Key::order);
            return gather(operation, 0, [&](Sizes& index) {
                const Sizes to = index;
                for (size_t axis = 0; axis < order.size(); ++axis) index[static_cast<size_t>(order[axis])] = to[axis];
                return true;
            });
        }
        case Op::expand: {
            const Sizes& shape = x.type.shape;
            return gather(operation, 0, [&](Sizes& index) {
                index.erase(index.begin(), index.end() - static_cast<std::ptrdiff_t>(shape.size()));
                for (size_t axis = 0; axis < shape.size(); ++axis)
                    if (shape[axis] == 1) index[axis] = 0;
                return true;
            });
        }
        case Op::slice: {
            const auto axis = static_cast<size_t>(operation.integer(Key::axis));
            const int64_t start = slice_start(operation.node, x.type), step = operation.integer(Key::step);
            return gather(operation, 0, [&](Sizes& index) {
                index[axis] = start + step * index[axis];
                return true;
            });
        }
        case Op::pad: {
            const Sizes& before = operation.list(Key::start);
            return gather(operation, operation.number(Key::value), [&](Sizes& index) {
                bool inside = true;
                for (size_t axis = 0; axis < index.size(); ++axis) {
                    index[axis] -= before[axis];
                    inside = inside && index[axis] >= 0 && index[axis] < x.type.shape[axis];
                }
                return inside;
            });
        }
        case Op::flip:
            return gather(operation, 0, [&](Sizes& index) {
                for (int64_t dim : operation.list(Key::dims)) {
                    const auto axis = static_cast<size_t>(dim);
                    index[axis] = x.type.shape[axis] - 1 - index[axis];
                }
                return true;
            });
        default:
            fail(name(operation.op()), ": does not move elements");
    }
}

}  // namespace transfuse::reference
