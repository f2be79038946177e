#include "cpu/primitive.h"

#include "cpu/element.h"
#include "cpu/walk.h"
#include "graph/infer.h"
#include "graph/pointwise.h"
#include "transfuse/error.h"

namespace transfuse::cpu {

void evaluate_pointwise(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    const PointwiseFunction f = pointwise_function(node.op, node.attributes);
    std::vector<Sizes> strides;
    for (const TensorView& arg : args) strides.push_back(broadcast_strides(arg, out.shape));
    for_each_element(out, threads, [&](const Odometer& at) {
        double operand[3] = {0, 0, 0};
        for (size_t a = 0; a < args.size(); ++a) operand[a] = get(args[a], at.offset(strides[a]));
        return f(operand[0], operand[1], operand[2]);
    });
}

void copy(const TensorView& in, const TensorView& out, int threads) {
    for_each_element(out, threads, [&](const Odometer& at) { return get(in, at.offset(in.strides)); });
}

namespace {

void evaluate_concat(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    const auto axis = static_cast<size_t>(node.attributes.integer(Key::axis));
    int64_t start = 0;
    for (const TensorView& piece : args) {
        copy(piece, {address(out, start * out.strides[axis]), out.dtype, piece.shape, out.strides}, threads);
        start += piece.shape[axis];
    }
}

void evaluate_pad(const Node& node, const TensorView& x, const TensorView& out, int threads) {
    const Sizes& before = node.attributes.integers(Key::start);
    const double value = node.attributes.number(Key::value);
    for_each_element(out, threads, [&](const Odometer& at) {
        int64_t offset = 0;
        for (size_t axis = 0; axis < before.size(); ++axis) {
            const int64_t i = at[axis] - before[axis];
            if (i < 0 || i >= x.shape[axis]) return value;
            offset += i * x.strides[axis];
        }
        return get(x, offset);
    });
}

void evaluate_taps(const Node& node, const TensorView& w, const TensorView& out, int threads) {
    const auto axis = static_cast<size_t>(node.attributes.integer(Key::axis));
    const std::vector<double>& matrix = node.attributes.numbers(Key::matrix);
    const int64_t taps = w.shape[axis], stride = w.strides[axis];
    for_each_element(out, threads, [&](const Odometer& at) {
        const int64_t base = at.offset(w.strides) - at[axis] * stride;
        double sum = 0;
        for (int64_t k = 0; k < taps; ++k) {
            const double factor = matrix[static_cast<size_t>(at[axis] * taps + k)];
            if (factor != 0) sum += factor * get(w, base + k * stride);
        }
        return sum;
    });
}

}  // namespace

void evaluate_movement(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    const auto constant = [&](double value) {
        for_each_element(out, threads, [&](const Odometer&) { return value; });
    };
    switch (node.op) {
        case Op::scalar: return constant(node.attributes.number(Key::value));
        case Op::full: return constant(node.attributes.number(Key::value));
        case Op::constant: {
            const std::vector<double>& values = node.attributes.numbers(Key::values);
            const Sizes strides = contiguous_strides(out.shape);
            return for_each_element(out, threads,
                                    [&](const Odometer& at) { return values[static_cast<size_t>(at.offset(strides))]; });
        }
        default: break;
    }
    const TensorView& x = args[0];
    switch (node.op) {
        case Op::reshape: {
            const Sizes strides = contiguous_strides(out.shape);
            return for_each_element(out, threads, [&](const Odometer& at) {
                return get(x, Odometer(x.shape, at.offset(strides)).offset(x.strides));
            });
        }
        case Op::permute: {
            TensorView view{x.data, x.dtype, {}, {}};
            for (int64_t axis : node.attributes.integers(Key::order)) {
                view.shape.push_back(x.shape[static_cast<size_t>(axis)]);
                view.strides.push_back(x.strides[static_cast<size_t>(axis)]);
            }
            return copy(view, out, threads);
        }
        case Op::expand: return copy({x.data, x.dtype, out.shape, broadcast_strides(x, out.shape)}, out, threads);
        case Op::flip: {
            TensorView view = x;
            int64_t offset = 0;
            for (int64_t dim : node.attributes.integers(Key::dims)) {
                const auto axis = static_cast<size_t>(dim);
                offset += (x.shape[axis] - 1) * x.strides[axis];
                view.strides[axis] = -x.strides[axis];
            }
            view.data = address(x, offset);
            return copy(view, out, threads);
        }
        case Op::slice: {
            const auto axis = static_cast<size_t>(node.attributes.integer(Key::axis));
            const int64_t start = slice_bound(node.attributes.integer(Key::start), x.shape[axis]);
            TensorView view{address(x, start * x.strides[axis]), x.dtype, out.shape, x.strides};
            view.strides[axis] *= node.attributes.integer(Key::step);
            return copy(view, out, threads);
        }
        case Op::pad: return evaluate_pad(node, x, out, threads);
        case Op::concat: return evaluate_concat(node, args, out, threads);
        case Op::taps: return evaluate_taps(node, x, out, threads);
        default: fail("the CPU engine has no routine for ", name(node.op));
    }
}

void evaluate_primitive(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    if (numel(out.shape) == 0) return;
    if (is_pointwise(node.op)) return evaluate_pointwise(node, args, out, threads);
    if (is_reduction(node.op)) return evaluate_reduction(node, args, out, threads);
    switch (node.op) {
        case Op::lattice: return evaluate_lattice(node, args, out, threads);
        case Op::correlate: return evaluate_correlate(node, args, out, threads);
        case Op::max_pool:
        case Op::min_pool:
        case Op::avg_pool:
        case Op::adaptive_avg_pool:
        case Op::adaptive_max_pool:
        case Op::max_pool_grad:
        case Op::avg_pool_grad: return evaluate_pool(node, args, out, threads);
        case Op::box_sums:
        case Op::box_spread: return evaluate_boxes(node, args, out, threads);
        default: return evaluate_movement(node, args, out, threads);
    }
}

}  // namespace transfuse::cpu
