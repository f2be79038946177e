// Average pools as depthwise lattice convolutions, adaptive pools as plain ones, pools of everything as reductions.
#include <algorithm>

#include "algebra/expand/rules.h"
#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

// The trailing d axes.
Sizes trailing(int64_t rank, size_t d) {
    Sizes axes;
    for (int64_t axis = rank - static_cast<int64_t>(d); axis < rank; ++axis) axes.push_back(axis);
    return axes;
}

struct PoolAxis {
    int64_t in, out, kernel, stride, padding;
};

std::vector<PoolAxis> pool_axes(const Rewriter& r, ValueId id) {
    const Node& node = r[id];
    const Sizes& kernel = node.attributes.integers(Key::kernel);
    const Sizes& in = r.shape(node.args[0]);
    const size_t first = in.size() - kernel.size();
    std::vector<PoolAxis> axes;
    for (size_t j = 0; j < kernel.size(); ++j)
        axes.push_back({in[first + j], node.type.shape[first + j], kernel[j], node.attributes.integers(Key::stride)[j],
                        node.attributes.integers(Key::padding)[j]});
    return axes;
}

// The divisor, if it is the same for every window. Without an override it counts the window's cells inside the padded
// input (count_include_pad) or inside the input; ceil_mode lets the last window stick out of either.
std::optional<double> uniform_divisor(const Node& node, const std::vector<PoolAxis>& axes) {
    if (const int64_t divisor = node.attributes.integer(Key::divisor); divisor != 0)
        return static_cast<double>(divisor);
    double window = 1;
    for (const PoolAxis& axis : axes) {
        const bool counts_padding = node.attributes.flag(Key::count_include_pad);
        if (!counts_padding && axis.padding > 0) return std::nullopt;
        if ((axis.out - 1) * axis.stride + axis.kernel > axis.in + 2 * axis.padding) return std::nullopt;
        window *= static_cast<double>(axis.kernel);
    }
    return window;
}

// Every window is one element, and every element a window.
bool of_single_elements(const std::vector<PoolAxis>& axes) {
    return std::all_of(axes.begin(), axes.end(), [](const PoolAxis& axis) {
        return axis.kernel == 1 && axis.stride == 1 && axis.padding == 0 && axis.in == axis.out;
    });
}

ValueId drop_max_pool(Rewriter& r, ValueId id) {
    if (!of_single_elements(pool_axes(r, id))) return -1;
    r.say("windows of one element");
    return r.arg(id);
}

ValueId expand_avg_pool(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const std::vector<PoolAxis> pool = pool_axes(r, id);
    const std::optional<double> divisor = uniform_divisor(node, pool);
    if (!divisor) return -1;
    ValueId x = node.args[0];
    if (of_single_elements(pool)) {
        r.say("windows of one element: avg_pool is a scale");
        return scaled(r, x, 1 / *divisor);
    }
    const bool everything = std::all_of(pool.begin(), pool.end(), [](const PoolAxis& axis) {
        return axis.out == 1 && axis.padding == 0 && axis.kernel == axis.in;
    });
    if (everything) {
        double count = 1;
        for (const PoolAxis& axis : pool) count *= static_cast<double>(axis.in);
        r.say("one window holds everything: avg_pool is a mean");
        return scaled(r, reduce(r, Op::mean, x, trailing(node.type.rank(), pool.size())), count / *divisor);
    }
    if (std::any_of(pool.begin(), pool.end(), [](const PoolAxis& axis) { return axis.kernel > 1024; })) return -1;
    const double weight = 1 / *divisor;
    if (is_sixteen_bit(node.type.dtype) && !power_of_two(weight)) return -1;  // 1/9 has no 16-bit form
    if (r.shape(x).size() == pool.size() + 1) {
        Sizes shape = r.shape(x);
        shape.insert(shape.begin(), 1);
        x = reshape(r, x, std::move(shape));
    }
    Lattices axes;
    Sizes taps = {r.shape(x)[1], 1, 1};
    for (const PoolAxis& axis : pool) {
        axes.push_back({.up = 1,
                        .down = axis.stride,
                        .dil = 1,
                        .offset = axis.kernel - 1 - axis.padding,
                        .in = axis.in,
                        .out = axis.out,
                        .taps = axis.kernel});
        taps.push_back(axis.kernel);
    }
    r.say("avg_pool ", node.attributes.integers(Key::kernel), " is a lattice convolution, weight 1/", *divisor);
    return reshape(r, lattice(r, x, full(r, r.dtype(x), std::move(taps), weight), -1, axes), node.type.shape);
}

// Adaptive windows are alike where the output extent divides the input's: kernel = stride = in/out.
ValueId expand_adaptive_pool(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const bool average = node.op == Op::adaptive_avg_pool;
    const size_t d = node.attributes.integers(Key::output_size).size();
    const Sizes in = r.shape(node.args[0]);
    Sizes kernel, dims;
    for (size_t axis = in.size() - d; axis < in.size(); ++axis) {
        const int64_t out = node.type.shape[axis];
        if (out == 0 || in[axis] % out != 0) return -1;
        kernel.push_back(in[axis] / out);
        if (out == 1) dims.push_back(static_cast<int64_t>(axis));
    }
    if (dims.size() == d) {
        r.say(name(node.op), " to one element is ", average ? "a mean" : "a maximum", " over ", dims);
        return reduce(r, average ? Op::mean : Op::amax, node.args[0], dims);
    }
    if (node.type.rank() == static_cast<int64_t>(d)) return -1;
    r.say(name(node.op), " has windows of ", kernel);
    return r.add(average ? Op::avg_pool : Op::max_pool, {node.args[0]}, {{Key::kernel, kernel}, {Key::stride, kernel}});
}

}  // namespace

std::span<const Rule> expand_pool_rules() {
    static const std::vector<Rule> rules = {
        {"drop_max_pool", Family::simplify, {Op::max_pool, Op::min_pool}, drop_max_pool},
        {"expand_avg_pool", Family::expand, {Op::avg_pool}, expand_avg_pool, true},
        {"expand_adaptive_pool",
         Family::expand,
         {Op::adaptive_avg_pool, Op::adaptive_max_pool},
         expand_adaptive_pool,
         true},
    };
    return rules;
}

}  // namespace transfuse
