// Dispatch of inference, and what all families share.
#include "graph/infer.h"

#include <algorithm>
#include <numeric>

namespace transfuse {

const Sizes& Inference::per_axis(Key key, int64_t axes) const {
    const Sizes& given = attributes.integers(key);
    if (static_cast<int64_t>(given.size()) == axes) return given;
    if (given.size() != 1)
        refuse(name(key), " must have one integer for each of ", axes, " axes, got ", to_string(given));
    attributes.set(key, Sizes(static_cast<size_t>(axes), given[0]));
    return attributes.integers(key);
}

const Sizes& Inference::per_axis(Key key, int64_t axes, int64_t at_least) const {
    const Sizes& list = per_axis(key, axes);
    for (int64_t value : list)
        if (value < at_least) refuse(name(key), " must be at least ", at_least, ", got ", to_string(list));
    return list;
}

int64_t Inference::axis(int64_t dim, int64_t rank) const {
    int64_t range = std::max<int64_t>(rank, 1);  // PyTorch: a tensor of rank 0 accepts dims 0 and -1
    if (dim < -range || dim >= range)
        refuse("dim must be between ", -range, " and ", range - 1, " for a tensor of rank ", rank, ", got ", dim);
    return dim < 0 ? dim + range : dim;
}

const Sizes& Inference::dims(int64_t rank, bool empty_means_all) const {
    const Sizes& given = attributes.integers(Key::dims);
    Sizes dims;
    dims.reserve(given.size());
    for (int64_t dim : given) dims.push_back(axis(dim, rank));
    std::sort(dims.begin(), dims.end());
    if (std::adjacent_find(dims.begin(), dims.end()) != dims.end()) refuse("a dim is repeated in ", to_string(given));
    if (rank == 0) dims.clear();
    if (dims.empty() && empty_means_all) {
        dims.resize(static_cast<size_t>(rank));
        std::iota(dims.begin(), dims.end(), 0);
    }
    if (dims != given) attributes.set(Key::dims, std::move(dims));
    return attributes.integers(Key::dims);
}

void Inference::require_vector(size_t arg, std::string_view what, int64_t extent) const {
    if (shape(arg) != Sizes{extent}) refuse(what, " must have shape [", extent, "], got ", to_string(shape(arg)));
}

DType Inference::promoted(size_t first) const {
    // 0: numbers, 1: tensors of rank 0, 2: tensors with axes. Only the highest present decides.
    int deciding = -1;
    DType dtype = DType::f32;
    for (size_t i = first; i < count(); ++i) {
        int category = args[i]->op == Op::scalar ? 0 : type(i).rank() == 0 ? 1 : 2;
        if (category < deciding) continue;
        dtype = category == deciding ? promote(dtype, type(i).dtype) : type(i).dtype;
        deciding = category;
    }
    return dtype;
}

Type infer_constant(const Inference& node) {
    if (node.op() == Op::scalar) return {DType::f64, {}};
    Type type{static_cast<DType>(node.attributes.integer(Key::dtype)), node.attributes.integers(Key::shape)};
    check_type(node.schema.name, type);
    if (node.op() == Op::constant) {
        auto values = static_cast<int64_t>(node.attributes.numbers(Key::values).size());
        if (values != numel(type.shape))
            node.refuse("values must have ", numel(type.shape), " elements for ", to_string(type), ", got ", values);
    }
    return type;
}

void check_type(std::string_view op, const Type& type) {
    if (type.rank() > 16) fail(op, ": a tensor has at most 16 axes, got ", type.rank());
    for (int64_t extent : type.shape)
        if (extent < 0) fail(op, ": extents must not be negative, got ", to_string(type.shape));
    // Strides are products of extents as well, so the bound is taken without regard to empty axes.
    int64_t size = bytes(DType::f64);
    for (int64_t extent : type.shape)
        if (__builtin_mul_overflow(size, std::max<int64_t>(extent, 1), &size))
            fail(op, ": a tensor of shape ", to_string(type.shape), " does not fit 63 bits of address");
}

namespace {

Type infer_type(const Inference& node) {
    Op op = node.op();
    if (is_constant(op)) return infer_constant(node);
    if (op <= Op::upsample) return infer_conv(node);
    if (op <= Op::correlate) return infer_lattice(node);
    if (op == Op::covariance) return infer_covariance(node);
    if (op <= Op::avg_pool_grad) return infer_pool(node);
    if (op <= Op::interpolate_grad) return infer_interpolate(node);
    if (op <= Op::select) return infer_pointwise(node);
    if (op <= Op::var) return infer_reduction(node);
    if (op <= Op::log_softmax) return infer_softmax(node);
    if (op <= Op::instance_norm) return infer_norm(node);
    if (op <= Op::cast) return infer_shape(node);
    if (op <= Op::taps) return infer_taps(node);
    return infer_box(node);
}

}  // namespace

void infer(Node& node, std::span<const Node* const> args) {
    const Schema& schema = transfuse::schema(node.op);
    auto count = static_cast<int64_t>(args.size());
    if (count < schema.min_args || count > schema.max_args)
        fail(schema.name, ": expected operands (", schema.operands, "), got ", count);
    node.attributes = complete(schema, std::move(node.attributes));
    node.type = infer_type({schema, args, node.attributes});
    check_type(schema.name, node.type);
}

}  // namespace transfuse
