#include "reference/interpret.h"

#include <algorithm>

#include "transfuse/error.h"

namespace transfuse::reference {

Image Image::of(const Sizes& shape, size_t spatial) {
    if (spatial > 3) fail("the reference engine has at most 3 spatial axes, got ", spatial);
    Image image;
    if (shape.size() == spatial + 2) image.n = shape[0];
    image.c = shape[shape.size() - spatial - 1];
    std::copy(shape.end() - static_cast<std::ptrdiff_t>(spatial), shape.end(),
              image.extent.end() - static_cast<std::ptrdiff_t>(spatial));
    return image;
}

std::array<int64_t, 3> three_axes(const Sizes& list, int64_t standard) {
    if (list.size() > 3) fail("the reference engine has at most 3 spatial axes, got ", list.size());
    std::array<int64_t, 3> axes{standard, standard, standard};
    std::copy(list.begin(), list.end(), axes.end() - static_cast<std::ptrdiff_t>(list.size()));
    return axes;
}

Tensor interpret(const Operation& operation) {
    const Op op = operation.op();
    const Type& type = operation.node.type;
    if (op == Op::scalar || op == Op::full)
        return {type, std::vector<double>(static_cast<size_t>(numel(type.shape)), operation.number(Key::value))};
    if (op == Op::constant) return {type, operation.node.attributes.numbers(Key::values)};
    if (is_pointwise(op)) return interpret_pointwise(operation);
    if (is_reduction(op)) return interpret_reduction(operation);
    switch (op) {
        case Op::conv_transpose:
        case Op::conv:
        case Op::upsample:
            return interpret_conv(operation);
        case Op::lattice:
        case Op::correlate:
            return interpret_lattice(operation);
        case Op::covariance:
            return interpret_covariance(operation);
        case Op::max_pool:
        case Op::min_pool:
        case Op::avg_pool:
        case Op::adaptive_avg_pool:
        case Op::adaptive_max_pool:
        case Op::max_pool_grad:
        case Op::avg_pool_grad:
            return interpret_pool(operation);
        case Op::interpolate:
        case Op::interpolate_grad:
            return interpret_interpolate(operation);
        case Op::softmax:
        case Op::log_softmax:
            return interpret_softmax(operation);
        case Op::batch_norm:
        case Op::group_norm:
        case Op::layer_norm:
        case Op::instance_norm:
        case Op::weight_norm:
            return interpret_norm(operation);
        case Op::reshape:
        case Op::permute:
        case Op::expand:
        case Op::concat:
        case Op::slice:
        case Op::pad:
        case Op::flip:
            return interpret_shape(operation);
        case Op::taps:
        case Op::box_sums:
        case Op::box_spread:
            return interpret_box(operation);
        default:
            fail(name(op), ": has no value of its own");
    }
}

}  // namespace transfuse::reference
