// The collapse, and linear maps on taps.
#include "reference/interpret.h"

namespace transfuse::reference {

namespace {

// w'[.., k', ..] = Σ_k matrix[k'·K + k] · w[.., k, ..]
Tensor taps(const Operation& operation) {
    const auto axis = static_cast<size_t>(operation.integer(Key::axis));
    const std::vector<double>& matrix = operation.node.attributes.numbers(Key::matrix);
    const int64_t count = operation.shape(0)[axis];
    const Sizes strides = contiguous_strides(operation.shape(0));
    Tensor result = zeros(operation.node.type);
    size_t next = 0;
    for_each_index(operation.node.type.shape, [&](const Sizes& index) {
        const int64_t row = index[axis];
        Sizes from = index;
        for (from[axis] = 0; from[axis] < count; ++from[axis])
            result.data[next] +=
                matrix[static_cast<size_t>(row * count + from[axis])] * operation.arg(0).data[at(from, strides)];
        ++next;
    });
    return result;
}

// The intervals of every reduced axis.
std::vector<std::vector<Interval>> intervals_of(const Operation& operation) {
    std::vector<std::vector<Interval>> axes;
    size_t next = 0;
    for (int64_t count : operation.list(Key::counts)) {
        axes.emplace_back();
        for (int64_t i = 0; i < count; ++i, ++next)
            axes.back().push_back(
                {operation.list(Key::los)[next], operation.list(Key::his)[next], operation.list(Key::steps)[next]});
    }
    return axes;
}

}  // namespace

// box_sums:   h[n, c·B + b, …1…] = Σ_{i ∈ box b} x[n, c, i]
// box_spread: x[n, c, i] = Σ_{b ∋ i} h[n, c·B + b, …1…]
Tensor interpret_box(const Operation& operation) {
    if (operation.op() == Op::taps) return taps(operation);
    const bool spread = operation.op() == Op::box_spread;
    const Sizes& dims = operation.list(Key::dims);
    const auto axes = intervals_of(operation);
    Sizes boxes;  // b counts through the intervals of the axes, the last fastest
    for (const auto& axis : axes) boxes.push_back(static_cast<int64_t>(axis.size()));
    const Sizes& spatial_shape = spread ? operation.node.type.shape : operation.shape(0);
    const Sizes& box_shape = spread ? operation.shape(0) : operation.node.type.shape;
    const Sizes box_strides = contiguous_strides(box_shape);
    const int64_t box_count = numel(boxes);

    Tensor result = zeros(operation.node.type);
    size_t next = 0;
    for_each_index(spatial_shape, [&](const Sizes& index) {
        int64_t b = 0;
        for_each_index(boxes, [&](const Sizes& box) {
            bool inside = true;
            for (size_t j = 0; j < dims.size(); ++j)
                inside = inside && axes[j][static_cast<size_t>(box[j])].contains(index[static_cast<size_t>(dims[j])]);
            if (inside) {
                Sizes where = index;
                for (int64_t dim : dims) where[static_cast<size_t>(dim)] = 0;
                where[1] = index[1] * box_count + b;
                if (spread)
                    result.data[next] += operation.arg(0).data[at(where, box_strides)];
                else
                    result.data[at(where, box_strides)] += operation.arg(0).data[next];
            }
            ++b;
        });
        ++next;
    });
    return result;
}

}  // namespace transfuse::reference
