// Lattice convolutions on extents of 1 as small products, large ones as a dense pass, others (and box sums) element by
// element.
#include <algorithm>

#include "algebra/lattice/integer.h"
#include "cpu/kernels/kernels.h"
#include "cpu/primitive/gather.h"
#include "cpu/primitive/primitive.h"
#include "cpu/tensors/element.h"
#include "cpu/tensors/walk.h"
#include "transfuse/error.h"
#include "transfuse/lattice.h"

namespace transfuse::cpu {
namespace {

Lattices axes_of(const Node& node, const Sizes& x, const Sizes& y, const Sizes& taps) {
    const Attributes& a = node.attributes;
    Lattices axes(taps.size());
    for (size_t d = 0; d < taps.size(); ++d)
        axes[d] = {a.integers(Key::up)[d],
                   a.integers(Key::down)[d],
                   a.integers(Key::dil)[d],
                   a.integers(Key::offset)[d],
                   x[d + 2],
                   y[d + 2],
                   taps[d]};
    return axes;
}

struct Meeting {  // (tap, input) of one output, as offsets into w and x
    int64_t w, x;
};

// All (tap, input) pairs of an output position, over all axes, tap-major.
void meetings(const Lattices& axes, const Odometer& at, size_t lead, const Sizes& w_strides, const Sizes& x_strides,
              std::vector<Meeting>& found) {
    found.assign(1, {0, 0});
    std::vector<Meeting> longer;
    for (size_t d = 0; d < axes.size(); ++d) {
        longer.clear();
        for (const Meeting& m : found)
            for (int64_t k = 0; k < axes[d].taps; ++k)
                if (const auto i = axes[d].input(at[lead + d], k))
                    longer.push_back({m.w + k * w_strides[3 + d], m.x + *i * x_strides[2 + d]});
        found.swap(longer);
    }
}

// On extents of 1 the convolution is a product of small matrices: y[n, co] = Σ_ci x[n, ci]·w[ci, co], rows of w at a
// time.
template <class T>
void small_product(const Lattices& axes, std::span<const TensorView> args, const TensorView& out, int threads) {
    const TensorView &x = args[0], &w = args[1];
    const Kernels<T>& k = kernels<T>();
    const int64_t groups = w.shape[0], in = w.shape[1], outs = w.shape[2];
    int64_t x0 = 0;
    bool meets = true;
    for (size_t d = 0; d < axes.size(); ++d) {
        const auto i = axes[d].input(0, 0);
        if (!i)
            meets = false;
        else
            x0 += *i * x.strides[2 + d];
    }
    const int64_t block = std::max<int64_t>(1, std::min<int64_t>(64, outs)), blocks = ceil_div(outs, block);
    parallel_for(out.shape[0] * groups * in * outs < 65536 ? 1 : threads, out.shape[0] * groups * blocks,
                 [&](int64_t job) {
                     const int64_t first = job % blocks * block, g = job / blocks % groups, n = job / blocks / groups;
                     const int64_t count = std::min(block, outs - first);
                     Scratch scratch;
                     double* sums = scratch.acquire<double>(count);
                     T *terms = scratch.acquire<T>(padded(in)), *row = scratch.acquire<T>(padded(count));
                     for (int64_t co = 0; co < count; ++co) {
                         const int64_t c = g * outs + first + co;
                         sums[co] = args.size() > 2 ? get(args[2], c * args[2].strides[0]) : 0;
                     }
                     if (meets)
                         k.load(terms, address(x, n * x.strides[0] + g * in * x.strides[1] + x0),
                                static_cast<Storage>(x.dtype), x.strides[1], in);
                     for (int64_t ci = 0; meets && ci < in; ++ci) {
                         const int64_t w0 = g * w.strides[0] + ci * w.strides[1] + first * w.strides[2];
                         const bool plain = w.strides[2] == 1 && w.dtype == (sizeof(T) == 8 ? DType::f64 : DType::f32);
                         if (!plain) k.load(row, address(w, w0), static_cast<Storage>(w.dtype), w.strides[2], count);
                         k.combine(sums, terms + ci, plain ? static_cast<const T*>(address(w, w0)) : row, 0, 1, count);
                     }
                     for (int64_t co = 0; co < count; ++co)
                         set(out, n * out.strides[0] + (g * outs + first + co) * out.strides[1], sums[co]);
                 });
}

}  // namespace

void evaluate_lattice(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    const TensorView &x = args[0], &w = args[1];
    const Lattices axes = axes_of(node, x.shape, out.shape, Sizes(w.shape.begin() + 3, w.shape.end()));
    const int64_t in = w.shape[1], outs = w.shape[2];
    if (std::all_of(axes.begin(), axes.end(), [](const Lattice& a) { return a.taps == 1 && a.out == 1; })) {
        if (out.dtype == DType::f64) return small_product<double>(axes, args, out, threads);
        return small_product<float>(axes, args, out, threads);
    }
    if (evaluate_lattice_dense(node, args, out, threads)) return;
    const int64_t terms = std::max<int64_t>(1, in * numel(Sizes(w.shape.begin() + 3, w.shape.end())));
    for_each_element(
        out, threads,
        [&](const Odometer& at) {
            const int64_t group = at[1] / outs, co = at[1] % outs;
            thread_local std::vector<Meeting> found;
            meetings(axes, at, 2, w.strides, x.strides, found);
            const int64_t w0 = group * w.strides[0] + co * w.strides[2];
            const int64_t x0 = at[0] * x.strides[0] + group * in * x.strides[1];
            double sum = args.size() > 2 ? get(args[2], at[1] * args[2].strides[0]) : 0;
            for (int64_t ci = 0; ci < in; ++ci)
                for (const Meeting& m : found)
                    sum += get(w, w0 + ci * w.strides[1] + m.w) * get(x, x0 + ci * x.strides[1] + m.x);
            return sum;
        },
        std::max<int64_t>(1, 16384 / terms));
}

void evaluate_boxes(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    const TensorView& x = args[0];
    const Attributes& a = node.attributes;
    const Sizes &dims = a.integers(Key::dims), &counts = a.integers(Key::counts);
    std::vector<std::vector<Interval>> intervals(dims.size());
    size_t next = 0;
    for (size_t j = 0; j < dims.size(); ++j)
        for (int64_t i = 0; i < counts[j]; ++i, ++next)
            intervals[j].push_back(
                {a.integers(Key::los)[next], a.integers(Key::his)[next], a.integers(Key::steps)[next]});
    const int64_t boxes = numel(counts);
    // One interval a reduced axis: box b in row-major order of counts.
    const auto box = [&](int64_t b) {
        const Odometer at(counts, b);
        std::vector<Interval> chosen;
        for (size_t j = 0; j < dims.size(); ++j) chosen.push_back(intervals[j][static_cast<size_t>(at[j])]);
        return chosen;
    };
    if (node.op == Op::box_sums) {
        return for_each_element(
            out, threads,
            [&](const Odometer& at) {
                const std::vector<Interval> chosen = box(at[1] % boxes);
                int64_t base = at[1] / boxes * x.strides[1];
                for (size_t axis = 0; axis < x.shape.size(); ++axis)
                    if (axis != 1) base += at[axis] * x.strides[axis];  // reduced axes are at 0
                Sizes shape, strides;
                for (size_t j = 0; j < dims.size(); ++j) {
                    const int64_t stride = x.strides[static_cast<size_t>(dims[j])];
                    base += chosen[j].lo * stride;
                    shape.push_back(chosen[j].size());
                    strides.push_back(stride * chosen[j].step);
                }
                double sum = 0;
                for_each_index(shape, [&](const Odometer& i) { sum += get(x, base + i.offset(strides)); });
                return sum;
            },
            1);
    }
    // Boxes as axes of their own, in the places of those that were reduced.
    TensorView sums = x;
    Gather spread{Gather::Kind::sum, {}};
    sums.shape[1] /= boxes;
    int64_t stride = x.strides[1];
    sums.strides[1] = stride * boxes;
    for (size_t j = dims.size(); j-- > 0; stride *= counts[j]) {
        const auto axis = static_cast<size_t>(dims[j]);
        sums.shape[axis] = counts[j];
        sums.strides[axis] = stride;
    }
    for (size_t j = 0; j < dims.size(); ++j) {
        const auto axis = static_cast<size_t>(dims[j]);
        Gather::Axis& to = spread.axes.emplace_back(Gather::Axis{axis, {}});
        for (int64_t i = 0; i < out.shape[axis]; ++i) {
            std::vector<int64_t>& from = to.from.emplace_back();
            for (int64_t b = 0; b < counts[j]; ++b)
                if (intervals[j][static_cast<size_t>(b)].contains(i)) from.push_back(b);
        }
    }
    gather(spread, sums, out, threads);
}

}  // namespace transfuse::cpu
