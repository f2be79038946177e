// Reductions commute with what is constant along the axes they reduce, and merge with each other.
#include <algorithm>

#include "algebra/rule.h"
#include "algebra/terms.h"

namespace transfuse {

namespace {

size_t at(int64_t axis) { return static_cast<size_t>(axis); }

// Reductions keep their dims; a reshape drops them afterwards. No rule makes a reduction that drops its dims.
ValueId keep_dims(Rewriter& r, ValueId id) {
    const Node node = r[id];
    if (node.attributes.flag(Key::keepdim)) return -1;
    Attributes attributes = node.attributes;
    attributes.set(Key::keepdim, int64_t{1});
    r.say(name(node.op), " keeps its dims, a reshape drops them");
    return reshape(r, r.add(node.op, node.args, std::move(attributes)), node.type.shape);
}

// The number of elements behind each element of the result.
double reduced_count(const Rewriter& r, ValueId id) {
    double count = 1;
    for (int64_t axis : r[id].attributes.integers(Key::dims)) count *= static_cast<double>(r.shape(r.arg(id))[at(axis)]);
    return count;
}

// Axes of extent 1 reduce to themselves.
ValueId size_one_axes(Rewriter& r, ValueId id) {
    const Node node = r[id];
    if (node.op == Op::var) return -1;
    Sizes dims;
    for (int64_t axis : node.attributes.integers(Key::dims))
        if (r.shape(node.args[0])[at(axis)] != 1) dims.push_back(axis);
    if (dims.size() == node.attributes.integers(Key::dims).size()) return -1;
    r.say(name(node.op), " over axes of extent 1 is the value itself");
    return reduce(r, node.op, node.args[0], std::move(dims));
}

// sum of sum, mean of mean, max of max, logsumexp of logsumexp: over the union of their axes.
ValueId merge_reductions(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const ValueId x = node.args[0];
    if (!r.is(x, node.op) || node.op == Op::var || r.is_moment()) return -1;
    Sizes dims = node.attributes.integers(Key::dims);
    const Sizes& first = r[x].attributes.integers(Key::dims);
    dims.insert(dims.end(), first.begin(), first.end());
    std::sort(dims.begin(), dims.end());
    dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
    r.say(name(node.op), " of ", name(node.op), " over ", dims);
    return reduce(r, node.op, r.arg(x), std::move(dims));
}

// Reducing what is constant along an axis: mean, amax, amin give it back, sum multiplies by the extent.
ValueId reduce_expanded(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const ValueId x = node.args[0];
    if (!r.is(x, Op::expand) || node.op == Op::var || node.op == Op::logsumexp) return -1;
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
    if (node.op == Op::sum) result = times(r, result, factor);
    r.say(name(node.op), " of an expanded value");
    return result;
}

ValueId reduce_full(Rewriter& r, ValueId id) {
    const Node node = r[id];
    if (!r.is(node.args[0], Op::full) || node.op == Op::var || node.op == Op::logsumexp) return -1;
    const double count = reduced_count(r, id);
    if (count == 0) return -1;
    r.say(name(node.op), " of a number");
    return full(r, node.type.dtype, node.type.shape, *number(r, node.args[0]) * (node.op == Op::sum ? count : 1));
}

// Reduce before the reshape, where the reduced axes of the result are whole axes (or runs of axes) of x: extents of 1 put in
// or taken out, flattened space, channels split into groups that are not reduced.
std::optional<Sizes> dims_before_reshape(const Sizes& x, const Sizes& y, const Sizes& dims) {
    Sizes before;
    size_t i = 0, j = 0;
    while (i < x.size() || j < y.size()) {
        // The shortest runs of axes with equally many elements.
        const size_t i0 = i, j0 = j;
        int64_t left = i < x.size() ? x[i++] : 1, right = j < y.size() ? y[j++] : 1;
        while (left != right) {
            if (left < right) {
                if (i == x.size()) return std::nullopt;
                left *= x[i++];
            } else {
                if (j == y.size()) return std::nullopt;
                right *= y[j++];
            }
        }
        bool any = false, all = true;
        for (size_t axis = j0; axis < j; ++axis) {
            const bool reduced = std::find(dims.begin(), dims.end(), static_cast<int64_t>(axis)) != dims.end();
            any = any || (reduced && y[axis] != 1);
            all = all && (reduced || y[axis] == 1);
        }
        if (!any) continue;
        if (!all) return std::nullopt;
        for (size_t axis = i0; axis < i; ++axis) before.push_back(static_cast<int64_t>(axis));
    }
    return before;
}

ValueId reduce_reshaped(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const ValueId x = node.args[0];
    if (!r.is(x, Op::reshape) || r.shape(x).empty() || product(r.shape(x)) == 0) return -1;
    const ValueId inner = r.arg(x);
    const std::optional<Sizes> dims = dims_before_reshape(r.shape(inner), r.shape(x), node.attributes.integers(Key::dims));
    if (!dims || dims->empty()) return -1;
    Attributes attributes = node.attributes;
    attributes.set(Key::dims, *dims);
    r.say(name(node.op), " before the reshape");
    return reshape(r, r.add(node.op, {inner}, std::move(attributes)), node.type.shape);
}

// What lies between a linear reduction and the value it may reach: scales, shifts and signs constant along the axes.
bool peelable(const Rewriter& r, ValueId v, const Sizes& dims, size_t& side) {
    const Node& node = r[v];
    if (node.op == Op::neg) return side = 0, true;
    if (node.op != Op::mul && node.op != Op::div && node.op != Op::add && node.op != Op::sub) return false;
    for (side = 0; side < 2; ++side) {
        if (node.op == Op::div && side == 1) return false;
        const ValueId u = node.args[side], other = node.args[1 - side];
        if (!constant_along(r, other, node.type.rank(), dims)) continue;
        const bool covers = std::all_of(dims.begin(), dims.end(), [&](int64_t axis) {
            return extent_on(r, u, node.type.rank(), axis) == node.type.shape[at(axis)];
        });
        if (covers && r.dtype(u) == node.type.dtype && r.rank(u) == node.type.rank()) return true;
    }
    return false;
}

// Σ(u·s + t) = (Σu)·s + n·t, mean(u·s + t) = mean(u)·s + t.
ValueId reduce_affine(Rewriter& r, ValueId id) {
    const Node node = r[id];
    if (r.is_moment()) return -1;
    const Sizes dims = node.attributes.integers(Key::dims);
    const double count = node.op == Op::sum ? reduced_count(r, id) : 1;
    std::vector<std::pair<ValueId, size_t>> peeled;
    ValueId v = node.args[0];
    for (size_t side = 0; peelable(r, v, dims, side);) {
        peeled.emplace_back(v, side);
        v = r.arg(v, side);
    }
    if (peeled.empty()) return -1;
    ValueId result = reduce(r, node.op, v, dims);
    for (size_t i = peeled.size(); i-- > 0;) {
        const Node step = r[peeled[i].first];
        const size_t side = peeled[i].second;
        if (step.op == Op::neg) {
            result = negate(r, result);
            continue;
        }
        ValueId other = step.args[1 - side];
        if (step.op == Op::add || step.op == Op::sub) other = times(r, other, count);
        result = side == 0 ? binary(r, step.op, result, other) : binary(r, step.op, other, result);
    }
    r.say(name(node.op), " over ", dims, " commutes with ", static_cast<int64_t>(peeled.size()), " scales and shifts");
    return result;
}

bool leads_to_lattice(const Rewriter& r, ValueId v, const Sizes& dims) {
    for (size_t side = 0; peelable(r, v, dims, side);) v = r.arg(v, side);
    return r.is(v, Op::lattice);
}

// mean(a + b) = mean(a) + mean(b), where one of them is a convolution the mean can move through.
ValueId reduce_sum_of_two(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const Node inner = r[node.args[0]];
    if (r.is_moment() || (inner.op != Op::add && inner.op != Op::sub)) return -1;
    const Sizes& dims = node.attributes.integers(Key::dims);
    for (ValueId arg : inner.args)
        if (r[arg].type != inner.type) return -1;
    if (!leads_to_lattice(r, inner.args[0], dims) && !leads_to_lattice(r, inner.args[1], dims)) return -1;
    r.say(name(node.op), " of two values taken apart");
    const ValueId a = reduce(r, node.op, inner.args[0], dims);
    return binary(r, inner.op, a, reduce(r, node.op, inner.args[1], dims));
}

}  // namespace

std::span<const Rule> reduction_rules() {
    static const std::vector<Op> linear = {Op::sum, Op::mean};
    static const std::vector<Op> all = {Op::sum, Op::mean, Op::amax, Op::amin, Op::logsumexp, Op::var};
    static const std::vector<Rule> rules = {
        {"keep_dims", Family::expand, all, keep_dims, true},
        {"size_one_axes", Family::compose, all, size_one_axes},
        {"merge_reductions", Family::compose, all, merge_reductions},
        {"reduce_full", Family::simplify, all, reduce_full},
        {"reduce_expanded", Family::simplify, all, reduce_expanded},
        {"reduce_reshaped", Family::simplify, all, reduce_reshaped, true},
        {"reduce_affine", Family::collapse, linear, reduce_affine},
        {"reduce_sum_of_two", Family::collapse, linear, reduce_sum_of_two},
    };
    return rules;
}

}  // namespace transfuse
