#include "algebra/terms/terms.h"

#include <algorithm>
#include <cmath>

#include "algebra/lattice/integer.h"
#include "graph/schema.h"

namespace transfuse {

namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

// Scalar b, and a op b has a's type whatever b is.
bool leaves_type(const Rewriter& r, ValueId a, ValueId b) { return r.is(b, Op::scalar) && !r.is(a, Op::scalar); }

}  // namespace

const std::vector<Op>& elementwise_ops() {
    static const std::vector<Op> ops = [] {
        std::vector<Op> list;
        for (int op = static_cast<int>(Op::neg); op <= static_cast<int>(Op::select); ++op)
            list.push_back(static_cast<Op>(op));
        list.insert(list.end(), {Op::cast, Op::detach});
        return list;
    }();
    return ops;
}

ValueId unary(Rewriter& r, Op op, ValueId x, Attributes attributes) { return r.add(op, {x}, std::move(attributes)); }

ValueId binary(Rewriter& r, Op op, ValueId a, ValueId b) { return r.add(op, {a, b}); }

ValueId plus(Rewriter& r, ValueId a, ValueId b) {
    if (leaves_type(r, a, b) && number(r, b) == 0.0) return a;
    if (leaves_type(r, b, a) && number(r, a) == 0.0) return b;
    return binary(r, Op::add, a, b);
}

ValueId minus(Rewriter& r, ValueId a, ValueId b) {
    if (leaves_type(r, a, b) && number(r, b) == 0.0) return a;
    return binary(r, Op::sub, a, b);
}

ValueId times(Rewriter& r, ValueId a, ValueId b) {
    if (leaves_type(r, a, b) && number(r, b) == 1.0) return a;
    if (leaves_type(r, b, a) && number(r, a) == 1.0) return b;
    return binary(r, Op::mul, a, b);
}

ValueId scaled(Rewriter& r, ValueId a, double b) { return b == 1.0 ? a : times(r, a, r.scalar(b)); }

ValueId negate(Rewriter& r, ValueId x) { return r.is(x, Op::neg) ? r.arg(x) : r.add(Op::neg, {x}); }

ValueId cast(Rewriter& r, ValueId x, DType dtype) {
    if (r.dtype(x) == dtype && !r.is(x, Op::scalar)) return x;
    return r.add(Op::cast, {x}, {{Key::dtype, static_cast<int64_t>(dtype)}});
}

ValueId full(Rewriter& r, DType dtype, Sizes shape, double value) {
    return r.add(Op::full, {},
                 {{Key::dtype, static_cast<int64_t>(dtype)}, {Key::shape, std::move(shape)}, {Key::value, value}});
}

ValueId reshape(Rewriter& r, ValueId x, Sizes shape) {
    while (r.is(x, Op::reshape)) x = r.arg(x);
    if (r.shape(x) == shape) return x;
    if (r.is(x, Op::full)) return full(r, r.dtype(x), std::move(shape), *number(r, x));
    return r.add(Op::reshape, {x}, {{Key::shape, std::move(shape)}});
}

bool moves_no_element(const Sizes& shape, const Sizes& order) {
    int64_t last = -1;
    for (int64_t axis : order) {
        if (shape[at(axis)] == 1) continue;
        if (axis < last) return false;
        last = axis;
    }
    return true;
}

ValueId permute(Rewriter& r, ValueId x, Sizes order) {
    if (std::is_sorted(order.begin(), order.end())) return x;
    return r.add(Op::permute, {x}, {{Key::order, std::move(order)}});
}

ValueId expand(Rewriter& r, ValueId x, Sizes shape) {
    if (r.shape(x) == shape) return x;
    if (r.is(x, Op::full)) return full(r, r.dtype(x), std::move(shape), *number(r, x));
    return r.add(Op::expand, {x}, {{Key::shape, std::move(shape)}});
}

ValueId reduce(Rewriter& r, Op op, ValueId x, Sizes dims) {
    if (dims.empty()) return x;  // an empty list would mean all of them
    return r.add(op, {x}, {{Key::dims, std::move(dims)}, {Key::keepdim, int64_t{1}}});
}

bool is_identity(const std::vector<double>& matrix, int64_t rows, int64_t columns) {
    if (rows != columns) return false;
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t k = 0; k < columns; ++k)
            if (matrix[at(row * columns + k)] != (row == k ? 1.0 : 0.0)) return false;
    return true;
}

ValueId taps(Rewriter& r, ValueId w, int64_t axis, int64_t rows, std::vector<double> matrix) {
    const int64_t extent = r.shape(w)[at(axis)];
    if (is_identity(matrix, rows, extent)) return w;
    if (r.is(w, Op::full) && rows > 0) {
        std::vector<double> sums;
        for (int64_t row = 0; row < rows; ++row) {
            double sum = 0;
            for (int64_t k = 0; k < extent; ++k) sum += matrix[at(row * extent + k)];
            sums.push_back(sum);
        }
        if (std::all_of(sums.begin(), sums.end(), [&](double sum) { return sum == sums[0]; }))
            return full(r, r.dtype(w), with_extent(r.shape(w), axis, rows), *number(r, w) * sums[0]);
    }
    return r.add(Op::taps, {w}, {{Key::axis, axis}, {Key::rows, rows}, {Key::matrix, std::move(matrix)}});
}

ValueId lattice(Rewriter& r, ValueId x, ValueId w, ValueId bias, const Lattices& axes) {
    Operands args = {x, w};
    if (bias >= 0) args.push_back(bias);
    return r.add(Op::lattice, std::move(args), lattice_attributes(axes, r.shape(w)[0]));
}

Lattices axes_of(const Rewriter& r, ValueId id) {
    return lattices(r[id], r[r.arg(id, 0)].type, 3, r[r.arg(id, 1)].type);
}

ValueId bias_of(const Rewriter& r, ValueId id) { return r[id].args.size() == 3 ? r.arg(id, 2) : -1; }

std::optional<double> number(const Rewriter& r, ValueId id) {
    const Node& node = r[id];
    if (node.op == Op::scalar || node.op == Op::full) return node.attributes.number(Key::value);
    if (node.op == Op::expand || node.op == Op::reshape || node.op == Op::permute) return number(r, node.args[0]);
    return std::nullopt;
}

bool is_sixteen_bit(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

DType wide(DType dtype) { return is_sixteen_bit(dtype) ? DType::f32 : dtype; }

bool power_of_two(double value) {
    int exponent = 0;
    return std::isfinite(value) && std::abs(std::frexp(value, &exponent)) == 0.5 && std::abs(exponent) < 100;
}

double product(const Sizes& sizes) {
    double result = 1;
    for (int64_t size : sizes) result *= static_cast<double>(size);
    return result;
}

int64_t extent_on(const Rewriter& r, ValueId operand, int64_t rank, int64_t axis) {
    const Sizes& shape = r.shape(operand);
    const int64_t own = axis - (rank - static_cast<int64_t>(shape.size()));
    return own < 0 ? 1 : shape[at(own)];
}

bool constant_along(const Rewriter& r, ValueId operand, int64_t rank, const Sizes& dims) {
    return std::all_of(dims.begin(), dims.end(), [&](int64_t axis) { return extent_on(r, operand, rank, axis) == 1; });
}

bool is_per_channel(const Rewriter& r, ValueId operand, const Sizes& value_shape) {
    const auto rank = static_cast<int64_t>(value_shape.size());
    if (r.rank(operand) > rank) return false;
    for (int64_t axis = 0; axis < rank; ++axis)
        if (axis != 1 && extent_on(r, operand, rank, axis) != 1) return false;
    return true;
}

ValueId channel_vector(Rewriter& r, ValueId operand, const Sizes& value_shape) {
    if (!is_per_channel(r, operand, value_shape)) return -1;
    if (r.is(operand, Op::scalar)) return operand;
    if (extent_on(r, operand, static_cast<int64_t>(value_shape.size()), 1) == value_shape[1])
        return reshape(r, operand, {value_shape[1]});
    return reshape(r, operand, {});
}

std::optional<Separable> separable(const Rewriter& r, ValueId id) {
    if (!r.is(id, Op::lattice)) return std::nullopt;
    const Sizes& w = r.shape(r.arg(id, 1));
    if (w[1] != 1 || w[2] != 1 || std::any_of(w.begin() + 3, w.end(), [](int64_t taps) { return taps > 1024; }))
        return std::nullopt;
    std::vector<const Node*> maps;
    const Node* root = &r[r.arg(id, 1)];
    while (root->op == Op::taps) {
        if (root->attributes.integer(Key::axis) < 3) return std::nullopt;
        maps.push_back(root);
        root = &r[root->args[0]];
    }
    if (root->op != Op::full) return std::nullopt;
    Separable result;
    result.literal = maps.empty();
    for (size_t axis = 3; axis < root->type.shape.size(); ++axis)
        result.kernel.emplace_back(at(root->type.shape[axis]), 1.0);
    if (result.kernel.empty()) return std::nullopt;
    for (double& tap : result.kernel[0]) tap = root->attributes.number(Key::value);
    for (size_t i = maps.size(); i-- > 0;) {
        std::vector<double>& kernel = result.kernel[at(maps[i]->attributes.integer(Key::axis) - 3)];
        const std::vector<double>& matrix = maps[i]->attributes.numbers(Key::matrix);
        std::vector<double> mapped(at(maps[i]->attributes.integer(Key::rows)), 0.0);
        for (size_t row = 0; row < mapped.size(); ++row)
            for (size_t k = 0; k < kernel.size(); ++k) mapped[row] += matrix[row * kernel.size() + k] * kernel[k];
        kernel = std::move(mapped);
    }
    return result;
}

std::optional<double> gain(const Lattices& axes, const Separable& weight) {
    double result = 1;
    for (size_t a = 0; a < axes.size(); ++a) {
        if (!axes[a].never_cut()) return std::nullopt;
        std::optional<double> sum;
        for (const Phase& phase : axes[a].phases()) {
            if (phase.count == 0) continue;
            double here = 0;
            for (const PhaseTap& tap : phase.taps) here += weight.kernel[a][at(tap.tap)];
            if (sum && *sum != here) return std::nullopt;
            sum = here;
        }
        if (!sum) return std::nullopt;
        result *= *sum;
    }
    return result;
}

ValueId resampled(Rewriter& r, ValueId x, const std::vector<std::vector<double>>& kernel, const Lattices& axes) {
    Sizes ones(axes.size() + 3, 1);
    ones[0] = r.shape(x)[1];
    ValueId w = full(r, r.dtype(x), std::move(ones), 1);
    for (size_t a = 0; a < axes.size(); ++a) w = taps(r, w, static_cast<int64_t>(a) + 3, axes[a].taps, kernel[a]);
    return lattice(r, x, w, -1, axes);
}

bool has_long_taps(const Lattices& axes) {
    return std::any_of(axes.begin(), axes.end(), [](const Lattice& axis) { return axis.taps > 1024; });
}

Sizes with_extent(Sizes shape, int64_t axis, int64_t extent) {
    shape[at(axis)] = extent;
    return shape;
}

Sizes spatial_axes(int64_t rank) {
    Sizes axes;
    for (int64_t axis = 2; axis < rank; ++axis) axes.push_back(axis);
    return axes;
}

}  // namespace transfuse
