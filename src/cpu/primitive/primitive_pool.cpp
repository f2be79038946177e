// Pools and their gradients over windows that may reach into padding, overlap, or vary in size.
#include <cmath>
#include <limits>

#include "cpu/kernels/kernels.h"
#include "cpu/primitive/gather.h"
#include "cpu/primitive/primitive.h"
#include "cpu/tensors/element.h"
#include "cpu/threads/thread_pool.h"

namespace transfuse::cpu {
namespace {

// Of each pooled axis, by output index.
struct Windows {
    std::vector<Gather::Axis> axes;             // what lies inside the input
    std::vector<std::vector<int64_t>> counted;  // extents with padding, as count_include_pad has them
};

Windows windows_of(const Node& node, const Sizes& in, const Sizes& out) {
    const Attributes& a = node.attributes;
    const bool adaptive = a.has(Key::output_size);
    const size_t pooled = a.integers(adaptive ? Key::output_size : Key::kernel).size();
    Windows windows;
    for (size_t i = 0; i < pooled; ++i) {
        const size_t axis = in.size() - pooled + i;
        std::vector<std::vector<int64_t>> from;
        std::vector<int64_t> counted;
        for (int64_t o = 0; o < out[axis]; ++o) {
            int64_t begin, end, step = 1;
            if (adaptive) {
                begin = o * in[axis] / out[axis], end = ((o + 1) * in[axis] + out[axis] - 1) / out[axis];
                counted.push_back(end - begin);
            } else {
                const int64_t padding = a.integers(Key::padding)[i];
                if (a.has(Key::dilation)) step = a.integers(Key::dilation)[i];
                begin = o * a.integers(Key::stride)[i] - padding;
                end = begin + step * (a.integers(Key::kernel)[i] - 1) + 1;
                counted.push_back(std::min(end, in[axis] + padding) - begin);
            }
            std::vector<int64_t>& window = from.emplace_back();
            for (int64_t place = begin; place < std::min(end, in[axis]); place += step)
                if (place >= 0) window.push_back(place);
        }
        windows.axes.push_back({axis, std::move(from)});
        windows.counted.push_back(std::move(counted));
    }
    return windows;
}

// By how much the sums over the windows of a plane are divided.
std::vector<double> divisors_of(const Node& node, const Windows& windows) {
    const Attributes& a = node.attributes;
    const double given = a.has(Key::divisor) ? static_cast<double>(a.integer(Key::divisor)) : 0;
    const bool padded = a.has(Key::count_include_pad) && a.flag(Key::count_include_pad);
    std::vector<double> all{1};
    for (size_t i = 0; i < windows.axes.size(); ++i) {
        std::vector<double> before;
        before.swap(all);
        for (const double outer : before)
            for (size_t o = 0; o < windows.counted[i].size(); ++o)
                all.push_back(outer * static_cast<double>(padded
                                                              ? windows.counted[i][o]
                                                              : static_cast<int64_t>(windows.axes[i].from[o].size())));
    }
    if (given != 0) std::fill(all.begin(), all.end(), given);
    return all;
}

// Of each input the windows that it is in.
Gather::Axis transposed(const Gather::Axis& axis, int64_t extent) {
    Gather::Axis to{axis.axis, std::vector<std::vector<int64_t>>(static_cast<size_t>(extent))};
    for (size_t o = 0; o < axis.from.size(); ++o)
        for (const int64_t place : axis.from[o]) to.from[static_cast<size_t>(place)].push_back(static_cast<int64_t>(o));
    return to;
}

// The first largest element of a window takes its gradient (a NaN counts as largest), as in PyTorch.
template <class T>
void largest_take(const Windows& windows, const TensorView& x, const TensorView& g, const TensorView& out,
                  int threads) {
    const size_t lead = windows.axes[0].axis;
    const auto begin = static_cast<std::ptrdiff_t>(lead);
    const Sizes over(out.shape.begin(), out.shape.begin() + begin), plane(out.shape.begin() + begin, out.shape.end()),
        pooled(g.shape.begin() + begin, g.shape.end()), inner = contiguous_strides(plane);
    const int64_t count = numel(plane);
    parallel_for(threads, numel(over), [&](int64_t p) {
        Scratch scratch;
        const Odometer at(over, p);
        const auto part = [&](const TensorView& of) {
            int64_t offset = 0;
            for (size_t a = 0; a < lead; ++a) offset += at[a] * of.strides[a];
            return TensorView{address(of, offset), of.dtype, Sizes(of.shape.begin() + begin, of.shape.end()),
                              Sizes(of.strides.begin() + begin, of.strides.end())};
        };
        const auto held = [&](const TensorView& of) {
            T* numbers = scratch.acquire<T>(numel(of.shape));
            constexpr DType own = sizeof(T) == 8 ? DType::f64 : DType::f32;
            copy(of, {numbers, own, of.shape, contiguous_strides(of.shape)}, 1);
            return numbers;
        };
        const T *values = held(part(x)), *gradient = held(part(g));
        double* sums = scratch.acquire<double>(count);
        std::fill_n(sums, count, 0.0);
        std::vector<int64_t> rows, outer;  // where those of a window begin
        const Gather::Axis& last = windows.axes.back();
        Odometer window(pooled, 0);
        for (int64_t o = 0; o < numel(pooled); ++o, window.next()) {
            rows.assign(1, 0);
            for (size_t a = 0; a + 1 < plane.size(); ++a) {
                outer.swap(rows);
                rows.clear();
                for (const int64_t row : outer)
                    for (const int64_t i : windows.axes[a].from[static_cast<size_t>(window[a])])
                        rows.push_back(row + i * inner[a]);
            }
            int64_t best = -1;
            T largest = -std::numeric_limits<T>::infinity();
            for (const int64_t row : rows)
                for (const int64_t i : last.from[static_cast<size_t>(window[plane.size() - 1])])
                    if (const T v = values[row + i]; best < 0 || v > largest || v != v) largest = v, best = row + i;
            if (best >= 0) sums[best] += static_cast<double>(gradient[o]);
        }
        copy({sums, DType::f64, plane, inner}, part(out), 1);
    });
}

}  // namespace

void evaluate_pool(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    const bool gradient = node.op == Op::max_pool_grad || node.op == Op::avg_pool_grad;
    const TensorView& x = args[0];
    if (node.op == Op::max_pool_grad) {
        const Windows windows = windows_of(node, out.shape, args[1].shape);
        if (out.dtype == DType::f64 || x.dtype == DType::f64)
            return largest_take<double>(windows, x, args[1], out, threads);
        return largest_take<float>(windows, x, args[1], out, threads);
    }
    const bool average = gradient || node.op == Op::avg_pool || node.op == Op::adaptive_avg_pool;
    Windows windows = gradient ? windows_of(node, out.shape, x.shape) : windows_of(node, x.shape, out.shape);
    Gather how{average ? Gather::Kind::sum : node.op == Op::min_pool ? Gather::Kind::min : Gather::Kind::max, {}};
    if (average) (gradient ? how.before : how.after) = divisors_of(node, windows);
    for (Gather::Axis& axis : windows.axes)
        how.axes.push_back(gradient ? transposed(axis, out.shape[axis.axis]) : std::move(axis));
    gather(how, x, out, threads);
}

}  // namespace transfuse::cpu
