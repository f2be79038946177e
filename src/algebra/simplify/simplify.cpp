// Identities and numbers.
#include <algorithm>
#include <array>

#include "algebra/simplify/rules.h"
#include "algebra/terms/terms.h"
#include "graph/pointwise.h"

namespace transfuse {

namespace {

// A scalar, or a tensor filled with one number: x ∘ n has x's type if n does not widen it.
bool same_type_without(const Rewriter& r, ValueId id, ValueId x) { return r[id].type == r[x].type; }

// x + 0, x − 0, x·1, x/1
ValueId drop_neutral(Rewriter& r, ValueId id) {
    const Op op = r.op(id);
    const double neutral = op == Op::mul || op == Op::div ? 1 : 0;
    const ValueId a = r.arg(id, 0), b = r.arg(id, 1);
    if (number(r, b) == neutral && same_type_without(r, id, a)) {
        r.say(name(op), " with ", neutral);
        return a;
    }
    if ((op == Op::add || op == Op::mul) && number(r, a) == neutral && same_type_without(r, id, b)) {
        r.say(name(op), " with ", neutral);
        return b;
    }
    return -1;
}

// x − c = x + (−c), x / 2ᵏ = x · 2⁻ᵏ: exactly the same numbers, one form. Neither sub nor div of a number is ever made.
ValueId one_form(Rewriter& r, ValueId id) {
    const ValueId a = r.arg(id, 0), b = r.arg(id, 1);
    if (!r.is(b, Op::scalar)) return -1;
    const double c = *number(r, b);
    if (r.is(id, Op::sub)) {
        r.say("x - ", c, " is x + ", -c);
        return plus(r, a, r.scalar(-c));
    }
    if (!power_of_two(c)) return -1;
    r.say("x / ", c, " is x * ", 1 / c);
    return scaled(r, a, 1 / c);
}

// A scalar has no extent, and what it is combined with keeps its own.
bool with_a_scalar(const Rewriter& r, ValueId id) { return r.is(r.arg(id, 1), Op::scalar) && !number(r, r.arg(id, 0)); }

// Pointwise ops of numbers alone.
ValueId fold_numbers(Rewriter& r, ValueId id) {
    const Node& node = r[id];
    std::array<double, 3> values{};
    for (size_t i = 0; i < node.args.size(); ++i) {
        const std::optional<double> value = number(r, node.args[i]);
        if (!value) return -1;
        values[i] = *value;
    }
    r.say(name(node.op), " of numbers");
    const double value = pointwise_function(node.op, node.attributes)(values[0], values[1], values[2]);
    return full(r, node.type.dtype, Sizes(node.type.shape), value);
}

ValueId double_neg(Rewriter& r, ValueId id) {
    if (!r.is(r.arg(id), Op::neg)) return -1;
    r.say("-(-x)");
    return r.arg(r.arg(id));
}

// Every value of `a` is one of `b`.
bool contains(DType b, DType a) { return a == b || b == DType::f64 || (b == DType::f32 && a != DType::f64); }

ValueId cast_chain(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    if (r.dtype(x) == r.dtype(id) && !r.is(x, Op::scalar)) {
        r.say("cast to its own dtype");
        return x;
    }
    if (r.is(x, Op::cast) && contains(r.dtype(x), r.dtype(r.arg(x)))) {
        r.say("cast by way of a wider dtype");
        return cast(r, r.arg(x), r.dtype(id));
    }
    return -1;
}

const std::vector<Op>& pointwise_ops() {
    static const std::vector<Op> ops = [] {
        std::vector<Op> list;
        for (int op = static_cast<int>(Op::neg); op <= static_cast<int>(Op::select); ++op)
            list.push_back(static_cast<Op>(op));
        return list;
    }();
    return ops;
}

}  // namespace

std::span<const Rule> simplify_rules() {
    static const std::vector<Rule> rules = {
        {"fold_numbers", Family::simplify, pointwise_ops(), fold_numbers},
        {"drop_neutral", Family::simplify, {Op::add, Op::sub, Op::mul, Op::div}, drop_neutral, false, with_a_scalar},
        {"one_form", Family::expand, {Op::sub, Op::div}, one_form, true, with_a_scalar},
        {"double_neg", Family::simplify, {Op::neg}, double_neg},
        {"cast_chain", Family::simplify, {Op::cast}, cast_chain},
    };
    return rules;
}

}  // namespace transfuse
