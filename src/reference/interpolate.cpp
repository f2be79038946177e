// Linear interpolation, axis by axis as PyTorch defines it, and its transpose.
#include <algorithm>
#include <cmath>

#include "reference/interpret.h"

namespace transfuse::reference {

namespace {

struct Neighbour {
    int64_t i;
    double weight;
};

// The inputs that output o is made of along an axis.
std::array<Neighbour, 2> neighbours(const Operation& operation, size_t axis, int64_t in, int64_t out, int64_t o) {
    if (in == out) return {{{o, 1}, {o, 0}}};
    double source = 0;
    if (operation.node.attributes.flag(Key::align_corners)) {
        if (out > 1) source = static_cast<double>(o) * static_cast<double>(in - 1) / static_cast<double>(out - 1);
    } else {
        const double scale = operation.node.attributes.has(Key::scale)
                                 ? 1 / operation.node.attributes.numbers(Key::scale)[axis]
                                 : static_cast<double>(in) / static_cast<double>(out);
        source = std::max(0.0, (static_cast<double>(o) + 0.5) * scale - 0.5);
    }
    const auto low = std::min(static_cast<int64_t>(std::floor(source)), in - 1);
    const double weight = std::min(source - static_cast<double>(low), 1.0);
    return {{{low, 1 - weight}, {std::min(low + 1, in - 1), weight}}};
}

}  // namespace

Tensor interpret_interpolate(const Operation& operation) {
    const bool transposed = operation.op() == Op::interpolate_grad;
    const Sizes &x = transposed ? operation.node.type.shape : operation.shape(0),
                &y = transposed ? operation.shape(0) : operation.node.type.shape;
    const size_t d = x.size() - 2;
    const Sizes x_strides = contiguous_strides(x), y_strides = contiguous_strides(y);
    const std::vector<double>& from = operation.arg(0).data;
    Tensor result = zeros(operation.node.type);
    for_each_index(y, [&](const Sizes& o) {
        std::array<std::array<Neighbour, 2>, 3> near{};
        for (size_t a = 0; a < d; ++a) near[a] = neighbours(operation, a, x[a + 2], y[a + 2], o[a + 2]);
        for (size_t corner = 0; corner < size_t{1} << d; ++corner) {
            Sizes i = o;
            double weight = 1;
            for (size_t a = 0; a < d; ++a) {
                const Neighbour& one = near[a][corner >> a & 1];
                i[a + 2] = one.i;
                weight *= one.weight;
            }
            if (weight == 0) continue;
            if (transposed)
                result.data[at(i, x_strides)] += weight * from[at(o, y_strides)];
            else
                result.data[at(o, y_strides)] += weight * from[at(i, x_strides)];
        }
    });
    return result;
}

}  // namespace transfuse::reference
