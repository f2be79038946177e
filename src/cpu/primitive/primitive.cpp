#include "cpu/primitive/primitive.h"

#include "cpu/kernels/row_op.h"
#include "cpu/tensors/element.h"
#include "cpu/tensors/strided.h"
#include "cpu/tensors/walk.h"
#include "graph/infer.h"
#include "transfuse/error.h"

namespace transfuse::cpu {

namespace {

template <class T>
void pointwise_rows(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    const RowFunction function = row_function(node);
    const Kernels<T>& k = kernels<T>();
    std::vector<Sizes> strides;
    for (const TensorView& arg : args) strides.push_back(broadcast_strides(arg, out.shape));
    strides.push_back(out.strides);
    const StridedLoop loop(out.shape, std::move(strides));
    loop.run(threads, [&](const int64_t* offset, int64_t n) {
        Scratch scratch;
        T* result = scratch.acquire<T>(padded(n));
        RowArgs<T> row{
            result, {}, {}, {static_cast<T>(function.parameter[0]), static_cast<T>(function.parameter[1])}, n};
        for (size_t a = 0; a < args.size(); ++a) {
            T* in = scratch.acquire<T>(padded(n));
            row.uniform[a] = loop.row_stride(a) == 0;
            k.load(in, address(args[a], offset[a]), static_cast<Storage>(args[a].dtype), loop.row_stride(a),
                   row.uniform[a] ? 1 : n);
            clear_padding(in, n);
            row.in[a] = in;
        }
        k.row(function.op, row);
        k.store(address(out, offset[args.size()]), static_cast<Storage>(out.dtype), loop.row_stride(args.size()),
                result, n);
    });
}

}  // namespace

void evaluate_pointwise(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    if (out.dtype == DType::f64)
        pointwise_rows<double>(node, args, out, threads);
    else
        pointwise_rows<float>(node, args, out, threads);
}

void copy(const TensorView& in, const TensorView& out, int threads) {
    if (numel(out.shape) == 0) return;
    const StridedLoop loop(out.shape, {in.strides, out.strides}, 4096);
    const auto rows = [&](auto tag) {
        using T = decltype(tag);
        const Kernels<T>& k = kernels<T>();
        loop.run(threads, [&](const int64_t* offset, int64_t n) {
            Scratch scratch;
            T* row = scratch.acquire<T>(n);
            k.load(row, address(in, offset[0]), static_cast<Storage>(in.dtype), loop.row_stride(0), n);
            k.store(address(out, offset[1]), static_cast<Storage>(out.dtype), loop.row_stride(1), row, n);
        });
    };
    if (in.dtype == DType::f64 || out.dtype == DType::f64)
        rows(double{});
    else
        rows(float{});
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

// Of an axis the places begin … end − 1.
TensorView part_of(const TensorView& view, size_t axis, int64_t begin, int64_t end) {
    TensorView part = view;
    part.data = address(view, begin * view.strides[axis]);
    part.shape[axis] = end - begin;
    return part;
}

// (Less than none before or behind it cuts x.)
void evaluate_pad(const Node& node, const TensorView& x, const TensorView& out, int threads) {
    const Sizes& before = node.attributes.integers(Key::start);
    double value = node.attributes.number(Key::value);
    TensorView inside = x, rest = out;
    const auto fill = [&](const TensorView& part) {
        copy({&value, DType::f64, part.shape, Sizes(part.shape.size(), 0)}, part, threads);
    };
    for (size_t axis = 0; axis < before.size(); ++axis) {
        const int64_t all = out.shape[axis], begin = std::clamp<int64_t>(before[axis], 0, all);
        const int64_t end = std::clamp(before[axis] + x.shape[axis], begin, all);
        fill(part_of(rest, axis, 0, begin));
        fill(part_of(rest, axis, end, all));
        rest = part_of(rest, axis, begin, end);
        inside = part_of(inside, axis, begin - before[axis], end - before[axis]);
    }
    copy(inside, rest, threads);
}

// w' = matrix · w along one axis: each row of the result is a sum of rows of w.
void evaluate_taps(const Node& node, const TensorView& w, const TensorView& out, int threads) {
    const auto axis = static_cast<size_t>(node.attributes.integer(Key::axis));
    const std::vector<double>& matrix = node.attributes.numbers(Key::matrix);
    const int64_t taps = w.shape[axis], rows = out.shape[axis], from = w.strides[axis], to = out.strides[axis];
    struct Entry {
        int64_t row, tap;
        double factor;
    };
    std::vector<Entry> entries;
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t k = 0; k < taps; ++k)
            if (const double factor = matrix[static_cast<size_t>(r * taps + k)]; factor != 0)
                entries.push_back({r, k, factor});
    Sizes shape = out.shape;
    shape[axis] = 1;
    const StridedLoop loop(shape, {w.strides, out.strides});
    loop.run(
        threads,
        [&](const int64_t* offset, int64_t n) {
            Scratch scratch;
            double* sums = scratch.acquire<double>(rows * n);
            std::fill_n(sums, rows * n, 0.0);
            visit(w.dtype, [&](auto tag) {
                using S = decltype(tag);
                for (const Entry& e : entries) {
                    const S* in = static_cast<const S*>(w.data) + offset[0] + e.tap * from;
                    double* sum = sums + e.row * n;
                    for (int64_t i = 0; i < n; ++i)
                        sum[i] += e.factor * static_cast<double>(widen(in[i * loop.row_stride(0)]));
                }
            });
            visit(out.dtype, [&](auto tag) {
                using S = decltype(tag);
                for (int64_t r = 0; r < rows; ++r) {
                    S* to_row = static_cast<S*>(out.data) + offset[1] + r * to;
                    for (int64_t i = 0; i < n; ++i) to_row[i * loop.row_stride(1)] = narrow<S>(sums[r * n + i]);
                }
            });
        },
        4096);
}

}  // namespace

void evaluate_movement(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    const auto constant = [&](double value) { for_each_element(out, threads, [&](const Odometer&) { return value; }); };
    switch (node.op) {
        case Op::scalar:
            return constant(node.attributes.number(Key::value));
        case Op::full:
            return constant(node.attributes.number(Key::value));
        case Op::constant: {
            const std::vector<double>& values = node.attributes.numbers(Key::values);
            const Sizes strides = contiguous_strides(out.shape);
            return for_each_element(
                out, threads, [&](const Odometer& at) { return values[static_cast<size_t>(at.offset(strides))]; });
        }
        default:
            break;
    }
    const TensorView& x = args[0];
    switch (node.op) {
        case Op::reshape: {
            if (x.strides == contiguous_strides(x.shape))
                return copy({x.data, x.dtype, out.shape, contiguous_strides(out.shape)}, out, threads);
            if (out.strides == contiguous_strides(out.shape))
                return copy(x, {out.data, out.dtype, x.shape, contiguous_strides(x.shape)}, threads);
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
        case Op::expand:
            return copy({x.data, x.dtype, out.shape, broadcast_strides(x, out.shape)}, out, threads);
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
        case Op::pad:
            return evaluate_pad(node, x, out, threads);
        case Op::concat:
            return evaluate_concat(node, args, out, threads);
        case Op::taps:
            return evaluate_taps(node, x, out, threads);
        default:
            fail("the CPU engine has no routine for ", name(node.op));
    }
}

void evaluate_primitive(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    if (numel(out.shape) == 0) return;
    if (is_pointwise(node.op)) return evaluate_pointwise(node, args, out, threads);
    if (is_reduction(node.op)) return evaluate_reduction(node, args, out, threads);
    switch (node.op) {
        case Op::lattice:
            return evaluate_lattice(node, args, out, threads);
        case Op::correlate:
            return evaluate_correlate(node, args, out, threads);
        case Op::covariance:
            return evaluate_covariance(node, args, out, threads);
        case Op::max_pool:
        case Op::min_pool:
        case Op::avg_pool:
        case Op::adaptive_avg_pool:
        case Op::adaptive_max_pool:
        case Op::max_pool_grad:
        case Op::avg_pool_grad:
            return evaluate_pool(node, args, out, threads);
        case Op::interpolate:
        case Op::interpolate_grad:
            return evaluate_interpolation(node, args, out, threads);
        case Op::box_sums:
        case Op::box_spread:
            return evaluate_boxes(node, args, out, threads);
        default:
            return evaluate_movement(node, args, out, threads);
    }
}

}  // namespace transfuse::cpu
