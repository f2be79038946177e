// Linear interpolation row by row: neighbouring rows of the input are mixed first, then elements along the row.
#include "cpu/primitive/primitive.h"
#include "cpu/tensors/element.h"
#include "cpu/threads/thread_pool.h"
#include "graph/interpolation.h"

namespace transfuse::cpu {
namespace {

using Between = Interpolation::Between;
using Tables = std::vector<std::vector<Between>>;  // of each axis, by output index

Tables tables_of(const std::vector<Interpolation>& axes) {
    Tables tables;
    for (const Interpolation& axis : axes) {
        tables.emplace_back();
        for (int64_t o = 0; o < axis.out; ++o) tables.back().push_back(axis.between(o));
    }
    return tables;
}

Sizes but_last(const Sizes& sizes) { return Sizes(sizes.begin(), sizes.end() - 1); }

// f(offset, weight) of the rows of x, by its strides, that a row of outputs is made of.
template <class F>
void for_each_row(const Tables& tables, const Odometer& row, const Sizes& strides, size_t lead, const F& f) {
    const size_t outer = tables.size() - 1;
    int64_t base = 0;
    for (size_t axis = 0; axis < lead; ++axis) base += row[axis] * strides[axis];
    for (size_t corner = 0; corner < size_t{1} << outer; ++corner) {
        int64_t offset = base;
        double weight = 1;
        for (size_t a = 0; a < outer; ++a) {
            const Between& between = tables[a][static_cast<size_t>(row[lead + a])];
            const bool second = corner >> a & 1;
            offset += (second ? between.second : between.first) * strides[lead + a];
            weight *= second ? between.weight : 1 - between.weight;
        }
        if (weight != 0) f(offset, weight);
    }
}

// T: of what is read, R: of the result. A tail holds values wider than their type.
template <class T, class R>
void interpolate(const Tables& tables, const TensorView& x, const TensorView& y, int threads) {
    using Sum = std::conditional_t<std::is_same_v<T, double> || std::is_same_v<R, double>, double, float>;
    const Sizes rows = but_last(y.shape);
    const auto in = static_cast<size_t>(x.shape.back()), out = static_cast<size_t>(y.shape.back());
    const int64_t step = x.strides.back(), to = y.strides.back();
    parallel_for(threads, numel(rows), [&](int64_t r) {
        const Odometer row(rows, r);
        std::vector<Sum> mixed(in, Sum{0});
        for_each_row(tables, row, x.strides, 2, [&](int64_t offset, double weight) {
            const T* from = static_cast<const T*>(x.data) + offset;
            const Sum w = static_cast<Sum>(weight);
            for (size_t i = 0; i < in; ++i)
                mixed[i] += w * static_cast<Sum>(widen(from[static_cast<int64_t>(i) * step]));
        });
        R* result = static_cast<R*>(y.data) + row.offset(but_last(y.strides));
        for (size_t o = 0; o < out; ++o) {
            const Between& between = tables.back()[o];
            const Sum w = static_cast<Sum>(between.weight);
            const Sum value =
                (1 - w) * mixed[static_cast<size_t>(between.first)] + w * mixed[static_cast<size_t>(between.second)];
            result[static_cast<int64_t>(o) * to] = narrow<R>(value);
        }
    });
}

// The transpose, plane by plane: each sums what its outputs give it, in their order.
template <class T, class R>
void spread(const Tables& tables, const TensorView& g, const TensorView& x, int threads) {
    const Sizes lead = {x.shape[0], x.shape[1]}, plane(x.shape.begin() + 2, x.shape.end());
    Sizes rows = but_last(g.shape);
    rows[0] = rows[1] = 1;
    const auto in = static_cast<size_t>(x.shape.back()), out = static_cast<size_t>(g.shape.back());
    Sizes strides = {0, 0};
    for (const int64_t stride : contiguous_strides(plane)) strides.push_back(stride);
    parallel_for(threads, numel(lead), [&](int64_t p) {
        const Odometer at(lead, p);
        std::vector<double> sums(static_cast<size_t>(numel(plane)), 0.0), apart(in);
        Odometer row(rows, 0);
        for (int64_t r = 0; r < numel(rows); ++r, row.next()) {
            std::fill(apart.begin(), apart.end(), 0.0);
            const T* from = static_cast<const T*>(g.data) + at[0] * g.strides[0] + at[1] * g.strides[1] +
                            row.offset(but_last(g.strides));
            for (size_t o = 0; o < out; ++o) {
                const Between& between = tables.back()[o];
                const auto value = static_cast<double>(widen(from[static_cast<int64_t>(o) * g.strides.back()]));
                apart[static_cast<size_t>(between.first)] += (1 - between.weight) * value;
                apart[static_cast<size_t>(between.second)] += between.weight * value;
            }
            for_each_row(tables, row, strides, 2, [&](int64_t offset, double weight) {
                for (size_t i = 0; i < in; ++i) sums[static_cast<size_t>(offset) + i] += weight * apart[i];
            });
        }
        R* result = static_cast<R*>(x.data) + at[0] * x.strides[0] + at[1] * x.strides[1];
        Odometer element(plane, 0);
        const Sizes own(x.strides.begin() + 2, x.strides.end());
        for (const double sum : sums) {
            result[element.offset(own)] = narrow<R>(sum);
            element.next();
        }
    });
}

}  // namespace

void evaluate_interpolation(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    const TensorView& operand = args[0];
    const bool transposed = node.op == Op::interpolate_grad;
    const Tables tables = tables_of(transposed ? interpolations(node, out.shape, operand.shape)
                                               : interpolations(node, operand.shape, out.shape));
    visit(operand.dtype, [&](auto read) {
        visit(out.dtype, [&](auto made) {
            using T = decltype(read);
            using R = decltype(made);
            transposed ? spread<T, R>(tables, operand, out, threads) : interpolate<T, R>(tables, operand, out, threads);
        });
    });
}

}  // namespace transfuse::cpu
