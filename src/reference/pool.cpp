// Pools, adaptive pools and their gradients: every output has a window of inputs.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/interpret.h"

namespace transfuse::reference {

namespace {

using Triple = std::array<int64_t, 3>;

// The inputs first, first + step, …, < end of one output on one axis, those inside the tensor, and the extent that
// counts where padding counts.
struct Window {
    int64_t first, end, step, padded;
};

class Windows {
public:
    Windows(const Operation& operation, const Image& x, const Image& y) : x_(x), y_(y) {
        const Attributes& attributes = operation.node.attributes;
        adaptive_ = attributes.has(Key::output_size);
        if (adaptive_) return;
        kernel_ = three_axes(operation.list(Key::kernel), 1);
        stride_ = three_axes(operation.list(Key::stride), 1);
        padding_ = three_axes(operation.list(Key::padding), 0);
        if (attributes.has(Key::dilation)) dilation_ = three_axes(operation.list(Key::dilation), 1);
        if (attributes.has(Key::divisor)) divisor_ = operation.integer(Key::divisor);
        if (attributes.has(Key::count_include_pad)) count_include_pad_ = attributes.flag(Key::count_include_pad);
    }

    Window window(size_t axis, int64_t o) const {
        const int64_t in = x_.extent[axis], out = y_.extent[axis];
        if (adaptive_) {  // [⌊o·in/out⌋, ⌈(o+1)·in/out⌉)
            const int64_t first = o * in / out, end = ((o + 1) * in + out - 1) / out;
            return {first, end, 1, end - first};
        }
        int64_t first = o * stride_[axis] - padding_[axis];
        int64_t end = first + (kernel_[axis] - 1) * dilation_[axis] + 1;
        const int64_t padded = std::min(end, in + padding_[axis]) - first;
        while (first < 0) first += dilation_[axis];
        return {first, std::min(end, in), dilation_[axis], padded};
    }

    template <class Visit>
    void for_each_input(const Triple& o, const Visit& visit) const {
        const Window a = window(0, o[0]), b = window(1, o[1]), c = window(2, o[2]);
        Triple i;
        for (i[0] = a.first; i[0] < a.end; i[0] += a.step)
            for (i[1] = b.first; i[1] < b.end; i[1] += b.step)
                for (i[2] = c.first; i[2] < c.end; i[2] += c.step) visit(static_cast<const Triple&>(i));
    }

    double divisor(const Triple& o) const {
        if (divisor_ != 0) return static_cast<double>(divisor_);
        double count = 1;
        for (size_t axis = 0; axis < 3; ++axis) {
            const Window w = window(axis, o[axis]);
            count *= static_cast<double>(count_include_pad_ ? w.padded : std::max<int64_t>(w.end - w.first, 0));
        }
        return count;
    }

private:
    Image x_, y_;
    bool adaptive_ = false, count_include_pad_ = true;
    int64_t divisor_ = 0;
    Triple kernel_{1, 1, 1}, stride_{1, 1, 1}, padding_{0, 0, 0}, dilation_{1, 1, 1};
};

template <class Visit>
void for_each_output(const Image& y, const Visit& visit) {
    for (int64_t n = 0; n < y.n; ++n)
        for (int64_t c = 0; c < y.c; ++c) for_each_position(y.extent, [&](const Triple& o) { visit(n, c, o); });
}

}  // namespace

Tensor interpret_pool(const Operation& operation) {
    const Op op = operation.op();
    const bool gradient = op == Op::max_pool_grad || op == Op::avg_pool_grad;
    const bool average = op == Op::avg_pool || op == Op::adaptive_avg_pool || op == Op::avg_pool_grad;
    const Attributes& attributes = operation.node.attributes;
    const size_t d = operation.list(attributes.has(Key::output_size) ? Key::output_size : Key::kernel).size();
    const Tensor& gradient_of_y = operation.arg(op == Op::max_pool_grad ? 1 : 0);
    const Image x = Image::of(gradient ? operation.node.type.shape : operation.shape(0), d);
    const Image y = Image::of(gradient ? gradient_of_y.type.shape : operation.node.type.shape, d);
    const Windows windows(operation, x, y);
    const std::vector<double>& in = operation.arg(0).data;
    Tensor result = zeros(operation.node.type);

    if (op == Op::avg_pool_grad) {
        for_each_output(y, [&](int64_t n, int64_t c, const Triple& o) {
            const double share = in[y.at(n, c, o)] / windows.divisor(o);
            windows.for_each_input(o, [&](const Triple& i) { result.data[x.at(n, c, i)] += share; });
        });
        return result;
    }
    for_each_output(y, [&](int64_t n, int64_t c, const Triple& o) {
        if (average) {
            double sum = 0;
            windows.for_each_input(o, [&](const Triple& i) { sum += in[x.at(n, c, i)]; });
            result.data[y.at(n, c, o)] = sum / windows.divisor(o);
            return;
        }
        // The first of the largest; a NaN wins. min_pool(x) = -max_pool(-x).
        const double sign = op == Op::min_pool ? -1 : 1;
        double best = -std::numeric_limits<double>::infinity();
        bool found = false;
        size_t where = 0;
        windows.for_each_input(o, [&](const Triple& i) {
            const double element = sign * in[x.at(n, c, i)];
            if (found && !(element > best) && !std::isnan(element)) return;
            best = element;
            where = x.at(n, c, i);
            found = true;
        });
        if (!gradient)
            result.data[y.at(n, c, o)] = sign * best;
        else if (found)
            result.data[where] += gradient_of_y.data[y.at(n, c, o)];
    });
    return result;
}

}  // namespace transfuse::reference
