// Monotone pointwise ops commute with max and min: they are evaluated after the pool or reduction, on fewer elements.
//
// Only where monotonicity is known from the graph: never by a parameter's value, never gelu, silu or mish. Never where
// a window can lie in the padding altogether: its maximum is −∞, which a scale or tanh would turn into something else.
#include <algorithm>

#include "algebra/lattice/integer.h"
#include "algebra/reductions/rules.h"
#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

enum class Trend : uint8_t { none, rising, falling };

Trend times_sign(double factor) { return factor > 0 ? Trend::rising : factor < 0 ? Trend::falling : Trend::none; }

Trend unary_trend(const Node& node) {
    switch (node.op) {
        case Op::relu:
        case Op::tanh:
        case Op::sigmoid:
        case Op::exp:
        case Op::erf:
        case Op::selu:
        case Op::hardsigmoid:
        case Op::cast:
            return Trend::rising;
        case Op::neg:
            return Trend::falling;
        case Op::leaky_relu:
            return node.attributes.number(Key::negative_slope) >= 0 ? Trend::rising : Trend::none;
        case Op::elu:
            return node.attributes.number(Key::alpha) >= 0 ? Trend::rising : Trend::none;
        case Op::softplus:
            return node.attributes.number(Key::beta) > 0 ? Trend::rising : Trend::none;
        case Op::hardtanh:
        case Op::clamp:
            return node.attributes.number(Key::lo) <= node.attributes.number(Key::hi) ? Trend::rising : Trend::none;
        default:
            return Trend::none;
    }
}

// f(u) with `side` the operand that varies along dims: how the result moves with u.
Trend trend(const Rewriter& r, ValueId v, const Sizes& dims, size_t& side) {
    const Node& node = r[v];
    side = 0;
    if (node.args.size() == 1) return unary_trend(node);
    if (!is_binary(node.op)) return Trend::none;
    for (side = 0; side < 2; ++side) {
        const ValueId u = node.args[side], other = node.args[1 - side];
        if (r[u].type.shape != node.type.shape || r.dtype(u) != node.type.dtype) continue;
        if (!constant_along(r, other, node.type.rank(), dims)) continue;
        const std::optional<double> value = number(r, other);
        switch (node.op) {
            case Op::add:
            case Op::minimum:
            case Op::maximum:
                return Trend::rising;
            case Op::sub:
                return side == 0 ? Trend::rising : Trend::falling;
            case Op::mul:
                return value ? times_sign(*value) : Trend::none;
            case Op::div:
                return value && side == 0 ? times_sign(*value) : Trend::none;
            default:
                return Trend::none;
        }
    }
    return Trend::none;
}

// True if every window of the pool has an element inside the input.
bool no_window_all_padding(const Rewriter& r, ValueId id) {
    const Node& node = r[id];
    const Sizes& kernel = node.attributes.integers(Key::kernel);
    const size_t first = node.type.shape.size() - kernel.size();
    for (size_t j = 0; j < kernel.size(); ++j) {
        const int64_t in = r.shape(node.args[0])[first + j], out = node.type.shape[first + j];
        const int64_t stride = node.attributes.integers(Key::stride)[j],
                      padding = node.attributes.integers(Key::padding)[j];
        const int64_t dilation = node.attributes.integers(Key::dilation)[j];
        auto reaches_inside = [&](int64_t o) {
            const int64_t start = o * stride - padding;
            const int64_t k = start < 0 ? ceil_div(-start, dilation) : 0;  // the first tap at or after 0
            return k < kernel[j] && start + dilation * k < in;
        };
        // Windows that begin inside are fine; before the input only few begin, behind it none does but the last.
        for (int64_t o = 0; o < out && o * stride < padding; ++o)
            if (!reaches_inside(o)) return false;
        for (int64_t o = out - 1; o >= 0 && o * stride - padding >= in; --o) return false;
    }
    return true;
}

Op mirrored(Op op) {
    switch (op) {
        case Op::max_pool:
            return Op::min_pool;
        case Op::min_pool:
            return Op::max_pool;
        case Op::amax:
            return Op::amin;
        default:
            return Op::amax;
    }
}

// max(f(u)) = f(max(u)) for rising f, f(min(u)) for falling f.
ValueId after_max(Rewriter& r, ValueId id, const Sizes& dims) {
    const Node node = r[id];
    const ValueId v = node.args[0];
    size_t side = 0;
    if (r.uses(v) != 1) return -1;  // all of f(u) is needed anyway
    const Trend direction = trend(r, v, dims, side);
    if (direction == Trend::none) return -1;
    const Node inner = r[v];
    const Op op = direction == Trend::rising ? node.op : mirrored(node.op);
    Operands args = inner.args;
    args[side] = r.add(op, {inner.args[side]}, node.attributes);
    r.say(direction == Trend::rising ? "rising " : "falling ", name(inner.op), " moves behind ", name(node.op),
          direction == Trend::rising ? "" : ", which turns into its opposite");
    return r.add(inner.op, std::move(args), inner.attributes);
}

ValueId monotone_pool(Rewriter& r, ValueId id) {
    const Node& node = r[id];
    if (!no_window_all_padding(r, id)) return -1;
    Sizes dims;
    const auto d = static_cast<int64_t>(node.attributes.integers(Key::kernel).size());
    for (int64_t axis = node.type.rank() - d; axis < node.type.rank(); ++axis) dims.push_back(axis);
    return after_max(r, id, dims);
}

// A pool of a pool: windows of kernel₁ every stride₁, as long as they leave no gap, are one window of
// kernel₁ + (kernel₂ − 1)·stride₁ every stride₁·stride₂.
ValueId merge_pools(Rewriter& r, ValueId id) {
    const ValueId first = r.arg(id);
    if (!r.is(first, r.op(id)) || !r.inference()) return -1;  // equal maxima would send their gradient elsewhere
    const Attributes one = r[first].attributes, two = r[id].attributes;
    Sizes kernel = one.integers(Key::kernel), stride = one.integers(Key::stride);
    if (kernel.size() != two.integers(Key::kernel).size()) return -1;
    for (const Attributes* pool : {&one, &two}) {
        if (pool->flag(Key::ceil_mode)) return -1;
        for (size_t j = 0; j < kernel.size(); ++j)
            if (pool->integers(Key::padding)[j] != 0 || pool->integers(Key::dilation)[j] != 1) return -1;
    }
    for (size_t j = 0; j < kernel.size(); ++j) {
        if (kernel[j] < stride[j]) return -1;
        kernel[j] += (two.integers(Key::kernel)[j] - 1) * stride[j];
        stride[j] *= two.integers(Key::stride)[j];
    }
    r.say("two pools are one, kernel ", kernel, " stride ", stride);
    return r.add(r.op(id), {r.arg(first)}, {{Key::kernel, kernel}, {Key::stride, stride}});
}

ValueId monotone_reduction(Rewriter& r, ValueId id) {
    const Sizes dims = r[id].attributes.integers(Key::dims);
    return after_max(r, id, dims);
}

}  // namespace

std::span<const Rule> monotone_rules() {
    static const std::vector<Rule> rules = {
        {"monotone_pool", Family::monotone, {Op::max_pool, Op::min_pool}, monotone_pool},
        {"merge_pools", Family::compose, {Op::max_pool, Op::min_pool}, merge_pools},
        {"monotone_reduction", Family::monotone, {Op::amax, Op::amin}, monotone_reduction},
    };
    return rules;
}

}  // namespace transfuse
