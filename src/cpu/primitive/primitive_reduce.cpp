#include <limits>

#include "cpu/primitive/primitive.h"
#include "cpu/tensors/element.h"
#include "cpu/tensors/walk.h"
#include "transfuse/error.h"

namespace transfuse::cpu {

void evaluate_reduction(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    const TensorView& x = args[0];
    const bool keepdim = node.attributes.flag(Key::keepdim);
    Sizes kept_strides, inner_shape, inner_strides;
    size_t next = 0;
    const Sizes& dims = node.attributes.integers(Key::dims);
    for (size_t axis = 0; axis < x.shape.size(); ++axis) {
        if (next < dims.size() && dims[next] == static_cast<int64_t>(axis)) {
            ++next;
            inner_shape.push_back(x.shape[axis]);
            inner_strides.push_back(x.strides[axis]);
            if (keepdim) kept_strides.push_back(0);
        } else {
            kept_strides.push_back(x.strides[axis]);
        }
    }
    const auto count = static_cast<double>(numel(inner_shape));
    const bool finite = node.op == Op::logsumexp && node.attributes.flag(Key::finite);
    const double correction = node.op == Op::var ? static_cast<double>(node.attributes.integer(Key::correction)) : 0;
    const auto total = [&](int64_t base, auto&& term) {
        double sum = 0;
        for_each_index(inner_shape, [&](const Odometer& at) { sum += term(get(x, base + at.offset(inner_strides))); });
        return sum;
    };
    const auto extreme = [&](int64_t base, double start, auto&& better) {
        double best = start;
        for_each_index(inner_shape, [&](const Odometer& at) {
            const double value = get(x, base + at.offset(inner_strides));
            if (better(value, best) || std::isnan(value)) best = value;
        });
        return best;
    };
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const auto same = [](double v) { return v; };
    for_each_element(
        out, threads,
        [&](const Odometer& at) -> double {
            const int64_t base = at.offset(kept_strides);
            switch (node.op) {
                case Op::sum:
                    return total(base, same);
                case Op::mean:
                    return total(base, same) / count;
                case Op::amax:
                    return extreme(base, -infinity, [](double a, double b) { return a > b; });
                case Op::amin:
                    return extreme(base, infinity, [](double a, double b) { return a < b; });
                case Op::logsumexp: {
                    const double top = extreme(base, -infinity, [](double a, double b) { return a > b; });
                    if (std::isinf(top)) return finite && top > 0 ? std::nan("") : top;
                    return top + std::log(total(base, [&](double v) { return std::exp(v - top); }));
                }
                case Op::var: {
                    const double mean = total(base, same) / count;
                    return total(base, [&](double v) { return (v - mean) * (v - mean); }) /
                           std::max(0.0, count - correction);
                }
                default:
                    fail("the CPU engine has no routine for ", name(node.op));
            }
        },
        std::max<int64_t>(1, 4096 / std::max<int64_t>(1, numel(inner_shape))));
}

}  // namespace transfuse::cpu
