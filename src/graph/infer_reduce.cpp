// Inference of reductions, softmax and norms.
#include <algorithm>

#include "graph/infer.h"

namespace transfuse {

Type infer_reduction(const Inference& node) {
    const Type& x = node.type(0);
    const Sizes& dims = node.dims(x.rank(), true);
    const bool keepdim = node.attributes.flag(Key::keepdim);
    const bool needs_elements = node.op() == Op::amax || node.op() == Op::amin;
    Type result{x.dtype, {}};
    size_t next = 0;
    for (int64_t axis = 0; axis < x.rank(); ++axis) {
        const int64_t extent = x.shape[static_cast<size_t>(axis)];
        const bool reduced = next < dims.size() && dims[next] == axis;
        if (!reduced) {
            result.shape.push_back(extent);
            continue;
        }
        ++next;
        if (needs_elements && extent == 0)
            node.refuse("dim ", axis, " of x ", to_string(x), " is empty: there is no element to take");
        if (keepdim) result.shape.push_back(1);
    }
    return result;
}

Type infer_softmax(const Inference& node) {
    if (node.dims(node.type(0).rank(), false).empty() && node.type(0).rank() > 0)
        node.refuse("dims must name at least one axis, got []");
    return node.type(0);
}

namespace {

void check_eps(const Inference& node) {
    if (!(node.attributes.number(Key::eps) >= 0))
        node.refuse("eps must not be negative, got ", node.attributes.number(Key::eps));
}

Type infer_layer_norm(const Inference& node) {
    const Type& x = node.type(0);
    const Sizes& normalized = node.attributes.integers(Key::normalized_shape);
    const size_t axes = normalized.size();
    if (axes == 0 || axes > x.shape.size() ||
        !std::equal(normalized.begin(), normalized.end(), x.shape.end() - static_cast<std::ptrdiff_t>(axes)))
        node.refuse("x must end in normalized_shape ", to_string(normalized), ", got ", to_string(x));
    for (size_t i = 1; i < node.count(); ++i)
        if (node.shape(i) != normalized)
            node.refuse(i == 1 ? "weight" : "bias", " must have shape ", to_string(normalized), ", got ",
                        to_string(node.type(i)));
    return x;
}

}  // namespace

Type infer_norm(const Inference& node) {
    check_eps(node);
    if (node.op() == Op::layer_norm) return infer_layer_norm(node);
    const Type& x = node.type(0);
    if (x.rank() < 2) node.refuse("x must be [N, C, ...], got ", to_string(x));
    const int64_t channels = x.shape[1];
    size_t first = 1;  // of weight and bias
    if (node.op() == Op::batch_norm && !node.attributes.flag(Key::training)) {
        if (node.count() < 3)
            node.refuse("expected operands (x, mean, var[, weight[, bias]]) with training=0, got ", node.count());
        node.require_vector(1, "mean", channels);
        node.require_vector(2, "var", channels);
        first = 3;
    } else if (node.count() > 3) {
        node.refuse("expected operands (x[, weight[, bias]]) with training=1, got ", node.count());
    }
    for (size_t i = first; i < node.count(); ++i) node.require_vector(i, i == first ? "weight" : "bias", channels);
    if (node.op() == Op::group_norm) {
        const int64_t groups = node.attributes.integer(Key::num_groups);
        if (groups < 1 || channels % groups)
            node.refuse("num_groups = ", groups, " must divide the ", channels, " channels of x");
    }
    // A statistic over one element says nothing; PyTorch refuses it as well.
    int64_t spatial = 1;
    for (size_t axis = 2; axis < x.shape.size(); ++axis) spatial *= x.shape[axis];
    if (node.op() == Op::instance_norm && spatial == 1)
        node.refuse("expected more than 1 spatial element, got ", to_string(x));
    if (node.op() == Op::batch_norm && node.attributes.flag(Key::training) && spatial * x.shape[0] == 1)
        node.refuse("expected more than 1 value a channel in training, got ", to_string(x));
    return x;
}

}  // namespace transfuse
