// Pools and their gradients over windows that may reach into padding, overlap, or vary in size.
#include <limits>

#include "cpu/primitive/primitive.h"
#include "cpu/tensors/element.h"
#include "cpu/tensors/walk.h"
#include "transfuse/error.h"

namespace transfuse::cpu {
namespace {

struct Window {  // of one output index on one axis: begin, begin + step, … < end, all inside the input
    int64_t begin, end, step = 1;
    int64_t padded;  // its extent with padding counted, as count_include_pad has it
};

// Windows of each pooled axis, by output index.
std::vector<std::vector<Window>> windows_of(const Node& node, const Sizes& in, const Sizes& out) {
    const Attributes& a = node.attributes;
    std::vector<std::vector<Window>> windows(in.size());
    for (size_t axis = 0; axis < in.size(); ++axis) {
        for (int64_t o = 0; o < out[axis]; ++o) {
            if (a.has(Key::output_size)) {
                const int64_t begin = o * in[axis] / out[axis], end = ((o + 1) * in[axis] + out[axis] - 1) / out[axis];
                windows[axis].push_back({begin, end, 1, end - begin});
                continue;
            }
            const int64_t kernel = a.integers(Key::kernel)[axis], stride = a.integers(Key::stride)[axis];
            const int64_t padding = a.integers(Key::padding)[axis];
            const int64_t step = a.has(Key::dilation) ? a.integers(Key::dilation)[axis] : 1;
            int64_t begin = o * stride - padding;
            const int64_t end = begin + step * (kernel - 1) + 1;
            const int64_t padded = std::min(end, in[axis] + padding) - begin;
            if (begin < 0) begin += (-begin + step - 1) / step * step;
            windows[axis].push_back({begin, std::min(end, in[axis]), step, padded});
        }
    }
    return windows;
}

// f(offset of each element of the window), row-major.
template <class F>
void for_each_inside(const std::vector<std::vector<Window>>& windows, const Odometer& at, size_t lead,
                     const Sizes& strides, int64_t base, size_t axis, const F& f) {
    if (axis == windows.size()) return f(base);
    const Window& w = windows[axis][static_cast<size_t>(at[lead + axis])];
    for (int64_t i = w.begin; i < w.end; i += w.step)
        for_each_inside(windows, at, lead, strides, base + i * strides[lead + axis], axis + 1, f);
}

double divisor_of(const Node& node, const std::vector<std::vector<Window>>& windows, const Odometer& at, size_t lead) {
    const Attributes& a = node.attributes;
    if (a.has(Key::divisor) && a.integer(Key::divisor) != 0) return static_cast<double>(a.integer(Key::divisor));
    const bool padded = a.has(Key::count_include_pad) && a.flag(Key::count_include_pad);
    double count = 1;
    for (size_t axis = 0; axis < windows.size(); ++axis) {
        const Window& w = windows[axis][static_cast<size_t>(at[lead + axis])];
        count *= static_cast<double>(padded ? w.padded : w.end - w.begin);
    }
    return count;
}

struct Geometry {
    size_t lead;  // axes before the pooled ones
    std::vector<std::vector<Window>> windows;
    Geometry(const Node& node, const Sizes& in, const Sizes& out) {
        const Attributes& a = node.attributes;
        const size_t pooled = a.integers(a.has(Key::output_size) ? Key::output_size : Key::kernel).size();
        lead = in.size() - pooled;
        const auto from = static_cast<std::ptrdiff_t>(lead);
        windows = windows_of(node, Sizes(in.begin() + from, in.end()), Sizes(out.begin() + from, out.end()));
    }
    int64_t base(const Odometer& at, const Sizes& strides) const {
        int64_t sum = 0;
        for (size_t axis = 0; axis < lead; ++axis) sum += at[axis] * strides[axis];
        return sum;
    }
};

// Gradients scatter: one plane (all leading indices fixed) per thread, contributions in the order of the outputs.
template <class F>
void for_each_plane(const Geometry& geometry, const Sizes& g_shape, const TensorView& out, int threads, const F& f) {
    const auto from = static_cast<std::ptrdiff_t>(geometry.lead);
    const Sizes lead(g_shape.begin(), g_shape.begin() + from);
    const Sizes plane(out.shape.begin() + from, out.shape.end()), pooled(g_shape.begin() + from, g_shape.end());
    parallel_for(threads, numel(lead), [&](int64_t p) {
        std::vector<double> sums(static_cast<size_t>(numel(plane)), 0.0);
        const Odometer at(lead, p);
        Sizes one = g_shape;
        std::fill(one.begin(), one.begin() + from, int64_t{1});
        const int64_t first = p * numel(pooled);
        Odometer walk(g_shape, first);
        for (int64_t i = 0; i < numel(pooled); ++i, walk.next()) f(walk, sums.data());
        const int64_t base = at.offset(Sizes(out.strides.begin(), out.strides.begin() + from));
        const Sizes strides(out.strides.begin() + from, out.strides.end());
        size_t i = 0;
        for_each_index(plane, [&](const Odometer& q) { set(out, base + q.offset(strides), sums[i++]); });
    });
}

void evaluate_gradient(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    const bool maximum = node.op == Op::max_pool_grad;
    const TensorView& g = args[maximum ? 1 : 0];
    const Geometry geometry(node, out.shape, g.shape);
    Sizes plane_strides(out.shape.size(), 0);  // of a contiguous plane
    {
        const Sizes plane(out.shape.begin() + static_cast<std::ptrdiff_t>(geometry.lead), out.shape.end());
        const Sizes inner = contiguous_strides(plane);
        std::copy(inner.begin(), inner.end(), plane_strides.begin() + static_cast<std::ptrdiff_t>(geometry.lead));
    }
    for_each_plane(geometry, g.shape, out, threads, [&](const Odometer& at, double* sums) {
        const double value = get(g, at.offset(g.strides));
        if (!maximum) {
            const double share = value / divisor_of(node, geometry.windows, at, geometry.lead);
            for_each_inside(geometry.windows, at, geometry.lead, plane_strides, 0, 0,
                            [&](int64_t i) { sums[i] += share; });
            return;
        }
        // The first largest element takes it all (a NaN counts as largest), as in PyTorch.
        const TensorView& x = args[0];
        std::vector<int64_t> places;
        for_each_inside(geometry.windows, at, geometry.lead, plane_strides, 0, 0,
                        [&](int64_t i) { places.push_back(i); });
        double best = -std::numeric_limits<double>::infinity();
        int64_t best_place = places.empty() ? -1 : places.front();
        size_t n = 0;
        for_each_inside(geometry.windows, at, geometry.lead, x.strides, geometry.base(at, x.strides), 0,
                        [&](int64_t i) {
                            const double v = get(x, i);
                            if (v > best || std::isnan(v)) {
                                best = v;
                                best_place = places[n];
                            }
                            ++n;
                        });
        if (best_place >= 0) sums[best_place] += value;
    });
}

}  // namespace

void evaluate_pool(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    if (node.op == Op::max_pool_grad || node.op == Op::avg_pool_grad)
        return evaluate_gradient(node, args, out, threads);
    const TensorView& x = args[0];
    const Geometry geometry(node, x.shape, out.shape);
    const bool average = node.op == Op::avg_pool || node.op == Op::adaptive_avg_pool;
    const double sign = node.op == Op::min_pool ? -1 : 1;
    for_each_element(out, threads, [&](const Odometer& at) {
        double result = average ? 0 : -std::numeric_limits<double>::infinity();
        for_each_inside(geometry.windows, at, geometry.lead, x.strides, geometry.base(at, x.strides), 0,
                        [&](int64_t i) {
                            const double v = get(x, i);
                            if (average)
                                result += v;
                            else if (sign * v > result || std::isnan(v))
                                result = sign * v;
                        });
        return average ? result / divisor_of(node, geometry.windows, at, geometry.lead) : sign * result;
    });
}

}  // namespace transfuse::cpu
