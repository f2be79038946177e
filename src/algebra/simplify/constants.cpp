// Constants along a pointwise chain are merged: scales with scales, shifts with shifts, clamps with clamps.
#include <algorithm>
#include <cmath>
#include <limits>

#include "algebra/simplify/rules.h"
#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

// u ∘ p with p a value of parameters alone; swapped operands of a commutative op are put right.
struct Applied {
    ValueId u = -1, p = -1;
};
Applied applied(const Rewriter& r, ValueId id) {
    const Node& node = r[id];
    if (r.is_parameter(node.args[1]) && !r.is_parameter(node.args[0])) return {node.args[0], node.args[1]};
    const bool commutes = node.op == Op::mul || node.op == Op::add;
    if (commutes && r.is_parameter(node.args[0]) && !r.is_parameter(node.args[1])) return {node.args[1], node.args[0]};
    return {};
}

// (u·p)·q = u·(p·q)
ValueId merge_scales(Rewriter& r, ValueId id) {
    const Applied outer = applied(r, id);
    if (outer.u < 0 || !r.is(outer.u, Op::mul)) return -1;
    const Applied inner = applied(r, outer.u);
    if (inner.u < 0) return -1;
    const DType dtype = r.dtype(id);
    const ValueId merged = times(r, inner.u, times(r, inner.p, outer.p));
    if (r.dtype(merged) != dtype || r.shape(merged) != r.shape(id)) return -1;
    r.say("two scales are one");
    return merged;
}

// (u ± p) ± q = u + (±p ± q)
ValueId merge_shifts(Rewriter& r, ValueId id) {
    const Applied outer = applied(r, id);
    if (outer.u < 0 || (!r.is(outer.u, Op::add) && !r.is(outer.u, Op::sub))) return -1;
    const Applied inner = applied(r, outer.u);
    if (inner.u < 0) return -1;
    const bool minus_p = r.is(outer.u, Op::sub), minus_q = r.is(id, Op::sub);
    ValueId merged;
    if (minus_p && minus_q)
        merged = minus(r, inner.u, plus(r, inner.p, outer.p));
    else if (minus_p)
        merged = plus(r, inner.u, minus(r, outer.p, inner.p));
    else
        merged = plus(r, inner.u, minus_q ? minus(r, inner.p, outer.p) : plus(r, inner.p, outer.p));
    if (r[merged].type != r[id].type) return -1;
    r.say("two shifts are one");
    return merged;
}

struct Range {
    double lo, hi;
};
constexpr double inf = std::numeric_limits<double>::infinity();

std::optional<Range> range_of(const Rewriter& r, ValueId id) {
    if (r.is(id, Op::relu)) return Range{0, inf};
    if (!r.is(id, Op::clamp)) return std::nullopt;
    const Range range{r[id].attributes.number(Key::lo), r[id].attributes.number(Key::hi)};
    return range.lo <= range.hi ? std::optional(range) : std::nullopt;
}

// clamp(clamp(x)), clamp(s·clamp(x)), clamp(clamp(x) + t); relu is clamp(0, ∞).
//   clamp(s·c, lo, hi) = s·clamp(c, lo/s, hi/s) (s > 0; the bounds change places for s < 0)
//   clamp(clamp(x, a, b), lo, hi) = clamp(x, clamp(a, lo, hi), clamp(b, lo, hi))
ValueId merge_clamps(Rewriter& r, ValueId id) {
    std::optional<Range> outer = range_of(r, id);
    if (!outer) return -1;
    ValueId x = r.arg(id);
    std::optional<double> scale, shift;
    if (r.is(x, Op::mul) && r.is(r.arg(x, 1), Op::scalar)) {
        scale = number(r, r.arg(x, 1));
        if (*scale == 0 || !std::isfinite(*scale)) return -1;
        *outer =
            *scale > 0 ? Range{outer->lo / *scale, outer->hi / *scale} : Range{outer->hi / *scale, outer->lo / *scale};
        x = r.arg(x);
    } else if (r.is(x, Op::add) && r.is(r.arg(x, 1), Op::scalar)) {
        shift = number(r, r.arg(x, 1));
        if (!std::isfinite(*shift)) return -1;
        *outer = {outer->lo - *shift, outer->hi - *shift};
        x = r.arg(x);
    }
    const std::optional<Range> inner = range_of(r, x);
    if (!inner) return -1;
    if (!r.inference() && (r.is(id, Op::relu) || r.is(x, Op::relu))) return -1;  // relu has slope 0 at 0, clamp slope 1
    const Range merged{std::clamp(inner->lo, outer->lo, outer->hi), std::clamp(inner->hi, outer->lo, outer->hi)};
    if (!(merged.lo < merged.hi)) return -1;  // a constant; its gradient is zero, that of a clamp to one point is not
    r.say("two clamps are one, [", merged.lo, ", ", merged.hi, "]");
    ValueId result = merged.lo == 0 && merged.hi == inf
                         ? unary(r, Op::relu, r.arg(x))
                         : unary(r, Op::clamp, r.arg(x), {{Key::lo, merged.lo}, {Key::hi, merged.hi}});
    if (scale) result = scaled(r, result, *scale);
    if (shift) result = plus(r, result, r.scalar(*shift));
    return result;
}

// Numbers stand on the right, where the other rules look for them.
ValueId number_on_the_right(Rewriter& r, ValueId id) {
    if (!r.is(r.arg(id, 0), Op::scalar) || r.is(r.arg(id, 1), Op::scalar)) return -1;
    r.say("a number moves to the right");
    return binary(r, r.op(id), r.arg(id, 1), r.arg(id, 0));
}

}  // namespace

std::span<const Rule> constant_rules() {
    static const std::vector<Rule> rules = {
        {"number_on_the_right", Family::expand, {Op::add, Op::mul}, number_on_the_right, true},
        {"merge_scales", Family::fold, {Op::mul}, merge_scales},
        {"merge_shifts", Family::fold, {Op::add, Op::sub}, merge_shifts},
        {"merge_clamps", Family::fold, {Op::clamp, Op::relu}, merge_clamps},
    };
    return rules;
}

}  // namespace transfuse
