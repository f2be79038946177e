// What a subtraction takes away again. After a mean has moved through a chain of scales and shifts, x − mean(x) is a
// difference of two chains with the same constants: shifts cancel, scales factor out.
#include "algebra/reductions/rules.h"
#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

// (u + t) − (v + t) = u − v
ValueId cancel_shift(Rewriter& r, ValueId id) {
    const Op op = r.op(r.arg(id, 0));
    if ((op != Op::add && op != Op::sub) || !r.is(r.arg(id, 1), op)) return -1;
    const Node a = r[r.arg(id, 0)], b = r[r.arg(id, 1)];
    for (size_t i = 0; i < 2; ++i)
        for (size_t j = 0; j < 2; ++j) {
            if (a.op == Op::sub && (i != j || i == 0)) continue;  // u − t against v − t
            if (a.args[i] != b.args[j]) continue;
            const ValueId result = minus(r, a.args[1 - i], b.args[1 - j]);
            if (r[result].type != r[id].type) continue;
            r.say("the same shift on both sides of a difference cancels");
            return result;
        }
    return -1;
}

// t − (v + t) = −v, (v + t) − t = v
ValueId cancel_whole(Rewriter& r, ValueId id) {
    for (size_t side = 0; side < 2; ++side) {
        const ValueId t = r.arg(id, side), s = r.arg(id, 1 - side);
        if (!r.is(s, Op::add)) continue;
        for (size_t i = 0; i < 2; ++i) {
            const ValueId v = r.arg(s, 1 - i);
            if (r.arg(s, i) != t || r[v].type != r[id].type) continue;
            r.say("a shift is taken away again");
            return side == 0 ? negate(r, v) : v;
        }
    }
    return -1;
}

// u·s − v·s = (u − v)·s
ValueId factor_scale(Rewriter& r, ValueId id) {
    if (!r.is(r.arg(id, 0), Op::mul) || !r.is(r.arg(id, 1), Op::mul)) return -1;
    const Node a = r[r.arg(id, 0)], b = r[r.arg(id, 1)];
    for (size_t i = 0; i < 2; ++i)
        for (size_t j = 0; j < 2; ++j) {
            if (a.args[i] != b.args[j]) continue;
            const ValueId result = times(r, minus(r, a.args[1 - i], b.args[1 - j]), a.args[i]);
            if (r[result].type != r[id].type) continue;
            r.say("the same scale on both sides of a difference factors out");
            return result;
        }
    return -1;
}

// The value without a per-channel shift by `bias`, if it ends in one: lattice(…, bias), or v + bias.
ValueId without_bias(Rewriter& r, ValueId v, ValueId bias) {
    if (r.is(v, Op::lattice) && bias_of(r, v) == bias) {
        const Lattices axes = axes_of(r, v);
        return lattice(r, r.arg(v, 0), r.arg(v, 1), -1, axes);
    }
    if (!r.is(v, Op::add)) return -1;
    for (size_t i = 0; i < 2; ++i) {
        ValueId t = r.arg(v, i);
        if (r.is(t, Op::reshape)) t = r.arg(t);
        const ValueId u = r.arg(v, 1 - i);
        if (t == bias && r[u].type == r[v].type && is_per_channel(r, r.arg(v, i), r.shape(v))) return u;
    }
    return -1;
}

// lattice(x, w, b) − (v + b) = lattice(x, w) − v: what x − mean(x) does to the bias of a convolution.
ValueId cancel_bias(Rewriter& r, ValueId id) {
    const ValueId y = r.arg(id, 0), v = r.arg(id, 1);
    if (!r.is(y, Op::lattice) || bias_of(r, y) < 0 || y == v) return -1;
    const ValueId bias = bias_of(r, y);
    const ValueId right = without_bias(r, v, bias);
    if (right < 0) return -1;
    const ValueId left = without_bias(r, y, bias);
    const ValueId result = minus(r, left, right);
    if (r[result].type != r[id].type) return -1;
    r.say("the bias of ", r[y].type, " cancels");
    return result;
}

// x − x has no other form but zero; NaN and infinity would tell them apart, so it stays.

}  // namespace

std::span<const Rule> cancel_rules() {
    static const std::vector<Rule> rules = {
        {"cancel_shift", Family::cancel, {Op::sub}, cancel_shift},
        {"cancel_whole", Family::cancel, {Op::sub}, cancel_whole},
        {"factor_scale", Family::cancel, {Op::sub}, factor_scale},
        {"cancel_bias", Family::cancel, {Op::sub}, cancel_bias},
    };
    return rules;
}

}  // namespace transfuse
