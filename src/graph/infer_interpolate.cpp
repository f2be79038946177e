// Inference of linear interpolation and its transpose.
#include <algorithm>
#include <cmath>

#include "graph/infer.h"
#include "graph/interpolation.h"

namespace transfuse {

namespace {

// ⌊in·scale⌋ on each of the last axes, or what output_size says; one number stands for all of them.
Sizes interpolated(const Inference& node, const Type& x) {
    Attributes& attributes = node.attributes;
    const bool scaled = attributes.has(Key::scale);
    if (scaled == attributes.has(Key::output_size)) node.refuse("give either scale or output_size");
    auto d = static_cast<int64_t>(scaled ? attributes.numbers(Key::scale).size()
                                         : attributes.integers(Key::output_size).size());
    if (d == 1) d = std::max<int64_t>(x.rank() - 2, 1);
    if (d < 1 || d > 3 || x.rank() != d + 2)
        node.refuse("x must have rank ", d + 2, " for ", d, " interpolated axes, got ", to_string(x));
    if (scaled && attributes.numbers(Key::scale).size() == 1)
        attributes.set(Key::scale, std::vector<double>(static_cast<size_t>(d), attributes.numbers(Key::scale)[0]));
    if (!scaled) node.per_axis(Key::output_size, d, 1);
    Sizes shape = x.shape;
    for (size_t j = 0; j < static_cast<size_t>(d); ++j) {
        int64_t& extent = shape[j + 2];
        if (extent < 1) node.refuse("interpolated extents must be at least 1, got ", to_string(x));
        if (!scaled) {
            extent = attributes.integers(Key::output_size)[j];
            continue;
        }
        const double scale = attributes.numbers(Key::scale)[j], out = std::floor(static_cast<double>(extent) * scale);
        if (!(scale > 0) || !(out >= 1) || out > 0x1p52)
            node.refuse("scale ", scale, " leaves nothing, or too much, of an extent of ", extent);
        extent = static_cast<int64_t>(out);
    }
    return shape;
}

}  // namespace

Type infer_interpolate(const Inference& node) {
    const Type& operand = node.type(0);
    if (node.op() == Op::interpolate) return {operand.dtype, interpolated(node, operand)};
    const auto d = operand.rank() - 2;
    if (d < 1 || d > 3) node.refuse("g must have rank 3 to 5, got ", to_string(operand));
    node.per_axis(Key::sizes, d, 1);
    if (std::any_of(operand.shape.begin() + 2, operand.shape.end(), [](int64_t extent) { return extent < 1; }))
        node.refuse("interpolated extents must be at least 1, got ", to_string(operand));
    if (node.attributes.has(Key::scale) && static_cast<int64_t>(node.attributes.numbers(Key::scale).size()) != d)
        node.refuse("scale must have one number for each of ", d, " axes");
    Type x = operand;
    std::copy_n(node.attributes.integers(Key::sizes).begin(), d, x.shape.end() - d);
    return x;
}

Interpolation::Between Interpolation::between(int64_t o) const {
    const auto at = static_cast<double>(o);
    const double source = corners ? step * at : std::max(step * (at + 0.5) - 0.5, 0.0);
    const int64_t first = std::min(static_cast<int64_t>(source), in - 1);
    return {first, std::min(first + 1, in - 1), std::min(source - static_cast<double>(first), 1.0)};
}

int64_t Interpolation::reach() const {
    return step > 0 ? std::min(out, static_cast<int64_t>(std::min(2 / step, 0x1p52)) + 4) : out;
}

std::vector<Interpolation> interpolations(const Node& node, const Sizes& in, const Sizes& out) {
    const bool corners = node.attributes.flag(Key::align_corners);
    std::vector<Interpolation> axes;
    for (size_t axis = 2; axis < in.size(); ++axis) {
        Interpolation one{in[axis], out[axis], 1, corners};
        const auto inputs = static_cast<double>(one.in), outputs = static_cast<double>(one.out);
        if (one.in == one.out)
            one.step = 1;
        else if (corners)
            one.step = one.out > 1 ? (inputs - 1) / (outputs - 1) : 0;
        else
            one.step =
                node.attributes.has(Key::scale) ? 1 / node.attributes.numbers(Key::scale)[axis - 2] : inputs / outputs;
        axes.push_back(one);
    }
    return axes;
}

}  // namespace transfuse
