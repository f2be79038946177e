// Reductions commute with what is constant along the axes they reduce, and merge with each other.
#include <algorithm>
#include <cmath>

#include "algebra/reductions/collapse.h"
#include "algebra/reductions/rules.h"
#include "algebra/terms/affine.h"
#include "algebra/terms/blocks.h"
#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

size_t at(int64_t axis) { return static_cast<size_t>(axis); }

// Reductions keep their dims; a reshape drops them afterwards. No rule makes a reduction that drops its dims.
ValueId keep_dims(Rewriter& r, ValueId id) {
    if (r[id].attributes.flag(Key::keepdim)) return -1;
    const Node node = r[id];
    Attributes attributes = node.attributes;
    attributes.set(Key::keepdim, int64_t{1});
    r.say(name(node.op), " keeps its dims, a reshape drops them");
    return reshape(r, r.add(node.op, node.args, std::move(attributes)), node.type.shape);
}

// The number of elements behind each element of the result.
double reduced_count(const Rewriter& r, ValueId id) {
    double count = 1;
    for (int64_t axis : r[id].attributes.integers(Key::dims))
        count *= static_cast<double>(r.shape(r.arg(id))[at(axis)]);
    return count;
}

// Axes of extent 1 reduce to themselves.
ValueId size_one_axes(Rewriter& r, ValueId id) {
    if (r.is(id, Op::var)) return -1;
    const ValueId x = r.arg(id);
    Sizes dims;
    for (int64_t axis : r[id].attributes.integers(Key::dims))
        if (r.shape(x)[at(axis)] != 1) dims.push_back(axis);
    if (dims.size() == r[id].attributes.integers(Key::dims).size()) return -1;
    r.say(name(r.op(id)), " over axes of extent 1 is the value itself");
    if (dims.empty()) return x;
    Attributes attributes = r[id].attributes;
    attributes.set(Key::dims, std::move(dims));
    return r.add(r.op(id), {x}, std::move(attributes));
}

bool is_finite_sum(const Rewriter& r, ValueId id) {
    return r.is(id, Op::logsumexp) && r[id].attributes.flag(Key::finite);
}

// sum of sum, mean of mean, max of max, logsumexp of logsumexp: over the union of their axes. (Not where the inner one
// says NaN for ∞: the outer would have to tell them apart.)
ValueId merge_reductions(Rewriter& r, ValueId id) {
    if (!r.is(r.arg(id), r.op(id)) || r.is(id, Op::var) || r.is_moment() || is_finite_sum(r, r.arg(id))) return -1;
    const Node node = r[id];
    const ValueId x = node.args[0];
    Sizes dims = node.attributes.integers(Key::dims);
    const Sizes& first = r[x].attributes.integers(Key::dims);
    dims.insert(dims.end(), first.begin(), first.end());
    std::sort(dims.begin(), dims.end());
    dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
    r.say(name(node.op), " of ", name(node.op), " over ", dims);
    Attributes attributes = node.attributes;
    attributes.set(Key::dims, std::move(dims));
    return r.add(node.op, {r.arg(x)}, std::move(attributes));
}

// Reduce first, round to 16 bits afterwards: fewer roundings, on fewer elements.
ValueId narrow_last(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    if (!r.is(x, Op::cast) || r.is_moment() || bytes(r.dtype(x)) >= bytes(r.dtype(r.arg(x)))) return -1;
    const Node node = r[id];
    r.say(name(node.op), " before the cast to ", name(node.type.dtype));
    return cast(r, r.add(node.op, {r.arg(x)}, node.attributes), node.type.dtype);
}

// Reducing what is constant along an axis: mean, amax, amin give it back, sum multiplies by the extent.
ValueId reduce_expanded(Rewriter& r, ValueId id) {
    if (!r.is(r.arg(id), Op::expand) || r.is(id, Op::var) || r.is(id, Op::logsumexp)) return -1;
    const Node node = r[id];
    const ValueId x = node.args[0];
    ValueId inner = r.arg(x);
    Sizes own = r.shape(inner), shape = r.shape(x);
    own.insert(own.begin(), shape.size() - own.size(), 1);  // leading axes expand added
    Sizes dims;
    double factor = 1;
    for (int64_t axis : node.attributes.integers(Key::dims)) {
        if (own[at(axis)] == shape[at(axis)]) {
            dims.push_back(axis);
        } else {
            factor *= static_cast<double>(shape[at(axis)]);
            shape[at(axis)] = 1;
        }
    }
    if (dims.size() == node.attributes.integers(Key::dims).size() || factor == 0) return -1;
    inner = expand(r, reshape(r, inner, std::move(own)), shape);
    ValueId result = reduce(r, node.op, inner, std::move(dims));
    if (node.op == Op::sum) result = scaled(r, result, factor);
    r.say(name(node.op), " of an expanded value");
    return result;
}

ValueId reduce_full(Rewriter& r, ValueId id) {
    if (!r.is(r.arg(id), Op::full) || r.is(id, Op::var) || r.is(id, Op::logsumexp)) return -1;
    const Node node = r[id];
    const double count = reduced_count(r, id);
    if (count == 0) return -1;
    r.say(name(node.op), " of a number");
    return full(r, node.type.dtype, node.type.shape, *number(r, node.args[0]) * (node.op == Op::sum ? count : 1));
}

// Reduce before the reshape, where the reduced axes of the result are whole axes (or runs of axes) of x: extents of 1
// put in or taken out, flattened space, channels split into groups that are not reduced.
std::optional<Sizes> dims_before_reshape(const Sizes& x, const Sizes& y, const Sizes& dims) {
    const auto blocks = reshape_blocks(x, y);
    if (!blocks) return std::nullopt;
    Sizes before;
    for (const AxisBlock& block : *blocks) {
        bool any = false, all = true;
        for (size_t axis = block.y0; axis < block.y1; ++axis) {
            const bool reduced = std::find(dims.begin(), dims.end(), static_cast<int64_t>(axis)) != dims.end();
            any = any || (reduced && y[axis] != 1);
            all = all && (reduced || y[axis] == 1);
        }
        if (!any) continue;
        if (!all) return std::nullopt;
        for (size_t axis = block.x0; axis < block.x1; ++axis) before.push_back(static_cast<int64_t>(axis));
    }
    return before;
}

ValueId reduce_reshaped(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    if (!r.is(x, Op::reshape)) return -1;
    const Node node = r[id];
    const ValueId inner = r.arg(x);
    const std::optional<Sizes> dims =
        dims_before_reshape(r.shape(inner), r.shape(x), node.attributes.integers(Key::dims));
    if (!dims || dims->empty()) return -1;
    Attributes attributes = node.attributes;
    attributes.set(Key::dims, *dims);
    r.say(name(node.op), " before the reshape");
    return reshape(r, r.add(node.op, {inner}, std::move(attributes)), node.type.shape);
}

// Σ(u·s + t) = (Σu)·s + n·t, mean(u·s + t) = mean(u)·s + t.
ValueId reduce_affine(Rewriter& r, ValueId id) {
    if (r.is_moment()) return -1;
    const Node node = r[id];
    const Sizes dims = node.attributes.integers(Key::dims);
    const AffineChain chain = affine_chain(r, node.args[0], dims);
    if (chain.steps.empty()) return -1;
    // 16-bit values go through it in f32 and are rounded once, not after each step.
    const double count = node.op == Op::sum ? reduced_count(r, id) : 1;
    const ValueId reduced = reduce(r, node.op, cast(r, chain.value, wide(node.type.dtype)), dims);
    r.say(name(node.op), " over ", dims, " commutes with ", static_cast<int64_t>(chain.steps.size()),
          " scales and shifts");
    return cast(r, reapply(r, chain, reduced, count), node.type.dtype);
}

// Σx · 1/n = mean(x), −Σx · 1/n = −mean(x): one rounding instead of three. Gradients of means are made of such sums.
ValueId sum_is_mean(Rewriter& r, ValueId id) {
    const std::optional<double> factor = number(r, r.arg(id, 1));
    const bool negative = r.is(r.arg(id), Op::neg);
    const ValueId sum = negative ? r.arg(r.arg(id)) : r.arg(id);
    if (!factor || !r.is(sum, Op::sum) || !(std::abs(*factor * reduced_count(r, sum) - 1) < 1e-12)) return -1;
    const Node node = r[sum];
    r.say("a sum over ", node.attributes.integers(Key::dims), " divided by their extent is a mean");
    const ValueId mean = r.add(Op::mean, {node.args[0]}, node.attributes);
    return negative ? negate(r, mean) : mean;
}

// The operands of a sum or difference, each of the size of the result; empty where one is a number or of another type.
std::vector<ValueId> summands(Rewriter& r, ValueId v) {
    if (!r.is(v, Op::add) && !r.is(v, Op::sub)) return {};
    const Node node = r[v];
    std::vector<ValueId> whole;
    for (const ValueId arg : node.args) {
        if (r.rank(arg) == 0 || r.dtype(arg) != node.type.dtype) return {};
        whole.push_back(expand(r, arg, node.type.shape));
    }
    return whole;
}

// A reduction moved before the convolutions its operand is made of, branch by branch; −1 where there is none to move
// before.
ValueId reduced_apart(Rewriter& r, Op op, ValueId v, const Sizes& dims, int depth) {
    const ValueId whole = reduce(r, op, v, dims);
    if (whole == v || !r.is(whole, op)) return -1;
    if (const ValueId moved = moved_before(r, whole); moved >= 0) return moved;
    if (depth == 0) return -1;
    const Op sum = r.op(v);
    std::vector<ValueId> parts = summands(r, v);
    bool any = false;
    for (ValueId& part : parts) {
        const ValueId moved = reduced_apart(r, op, part, dims, depth - 1);
        any = any || moved >= 0;
        part = moved >= 0 ? moved : reduce(r, op, part, dims);
    }
    return any ? binary(r, sum, parts[0], parts[1]) : -1;
}

// mean(a + b) = mean(a) + mean(b), where one of them is a convolution the mean can move before.
ValueId reduce_sum_of_two(Rewriter& r, ValueId id) {
    const ValueId sum = r.arg(id);
    if (r.is_moment() || (!r.is(sum, Op::add) && !r.is(sum, Op::sub)) || !r[id].attributes.flag(Key::keepdim))
        return -1;
    const Op op = r.op(id);
    const Type type = r[id].type;
    const Sizes dims = r[id].attributes.integers(Key::dims);
    const ValueId moved = reduced_apart(r, op, sum, dims, 8);
    if (moved < 0 || r[moved].type != type) return -1;
    r.say(name(op), " of two values taken apart");
    return moved;
}

// A sum, mean or box sums of concatenated channels are taken of each piece, and go on from there.
ValueId reduce_concat(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    if (!r.is(x, Op::concat) || r.uses(x) != 1 || r.is_moment()) return -1;
    if (!r.is(id, Op::box_sums) && !r[id].attributes.flag(Key::keepdim)) return -1;
    const Node node = r[id], whole = r[x];
    const Sizes& dims = node.attributes.integers(Key::dims);
    if (std::find(dims.begin(), dims.end(), whole.attributes.integer(Key::axis)) != dims.end()) return -1;
    if (std::none_of(whole.args.begin(), whole.args.end(), [&](ValueId arg) { return r.is(arg, Op::lattice); }))
        return -1;
    Operands pieces;
    for (const ValueId arg : whole.args) {
        if (r.dtype(arg) != node.type.dtype) return -1;
        pieces.push_back(r.add(node.op, {arg}, node.attributes));
    }
    r.say("the ", name(node.op), " of concatenated channels is taken of each piece");
    return r.add(Op::concat, std::move(pieces), whole.attributes);
}

// A sum or mean over the axis of a stack is a sum of what was stacked.
ValueId reduce_stack(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    if (!r.is(x, Op::concat) || r.is_moment() || !r[id].attributes.flag(Key::keepdim) || r.is_parameter(x) ||
        is_sixteen_bit(r.dtype(id)))
        return -1;
    const Node node = r[id], stack = r[x];
    const int64_t axis = stack.attributes.integer(Key::axis);
    Sizes dims;
    for (const int64_t dim : node.attributes.integers(Key::dims))
        if (dim != axis) dims.push_back(dim);
    if (dims.size() == node.attributes.integers(Key::dims).size()) return -1;
    ValueId sum = -1;
    for (const ValueId arg : stack.args) {
        if (r.shape(arg)[at(axis)] != 1 || r[arg].type.dtype != stack.type.dtype) return -1;
        sum = sum < 0 ? arg : plus(r, sum, arg);
    }
    if (node.op == Op::mean) sum = scaled(r, sum, 1 / static_cast<double>(stack.args.size()));
    r.say(name(node.op), " of a stack of ", static_cast<int64_t>(stack.args.size()));
    return reduce(r, node.op, sum, std::move(dims));
}

}  // namespace

std::span<const Rule> reduction_rules() {
    static const std::vector<Op> linear = {Op::sum, Op::mean};
    static const std::vector<Op> all = {Op::sum, Op::mean, Op::amax, Op::amin, Op::logsumexp, Op::var};
    static const std::vector<Rule> rules = {
        {"keep_dims", Family::expand, all, keep_dims, true},
        {"size_one_axes", Family::compose, all, size_one_axes},
        {"merge_reductions", Family::compose, all, merge_reductions},
        {"narrow_last", Family::simplify, all, narrow_last, true},
        {"reduce_full", Family::simplify, all, reduce_full},
        {"reduce_expanded", Family::simplify, all, reduce_expanded},
        {"reduce_reshaped", Family::simplify, all, reduce_reshaped, true},
        {"sum_is_mean", Family::simplify, {Op::mul}, sum_is_mean},
        {"reduce_affine", Family::collapse, linear, reduce_affine},
        {"reduce_sum_of_two", Family::collapse, linear, reduce_sum_of_two, false, nullptr, false, true},
        {"reduce_stack", Family::simplify, linear, reduce_stack},
        {"reduce_concat", Family::collapse, {Op::sum, Op::mean, Op::box_sums}, reduce_concat},
    };
    return rules;
}

}  // namespace transfuse
