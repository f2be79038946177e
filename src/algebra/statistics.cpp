// Variances of a convolution's result, in the centred form.
#include <algorithm>

#include "algebra/affine.h"
#include "algebra/collapse.h"
#include "algebra/rule.h"
#include "algebra/terms.h"

namespace transfuse {

namespace {

// var(y) with d = y − m, m the mean the collapse gives: E[d²] − E[d]², both of the same rounded values in one pass. The
// square of a mean far from zero would cancel; d has none. Only direct_variance makes a var, when this rule is no
// longer tried.
ValueId centred_variance(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    if (!collapse_pays(r, x, r[id].attributes.integers(Key::dims))) return -1;
    const Node node = r[id];
    const Sizes dims = node.attributes.integers(Key::dims);
    double count = 1;
    for (int64_t axis : dims) count *= static_cast<double>(r.shape(x)[static_cast<size_t>(axis)]);
    const double free = count - static_cast<double>(node.attributes.integer(Key::correction));
    if (free <= 0) return -1;
    const ValueId wider = cast(r, x, wide(node.type.dtype));
    const ValueId d = minus(r, wider, reduce(r, Op::mean, wider, dims));
    const ValueId squares = reduce(r, Op::mean, unary(r, Op::square, d), dims);
    const ValueId e = reduce(r, Op::mean, d, dims);
    r.say("variance over ", dims, " of ", r[x].type, " around the collapsed mean");
    const ValueId variance = minus(r, squares, unary(r, Op::square, e));
    return cast(r, scaled(r, variance, count / free), node.type.dtype);
}

// E_S[d − E_D[d]] = E_S[x] − E_D[x] for S ⊆ D and d = x + what is constant along D. Element by element d − E_D[d] takes
// away the mean of the same rounded values; once both means are collapsed they are exact, and only exact means may be
// taken from them.
ValueId mean_of_centred(Rewriter& r, ValueId id) {
    if (!r[id].attributes.flag(Key::keepdim)) return -1;
    const Sizes some = r[id].attributes.integers(Key::dims);
    const AffineChain chain = affine_chain(r, r.arg(id), some);
    for (size_t i = 0; i < chain.steps.size(); ++i) {
        const ValueId centred = chain.steps[i].value;
        if (!r.is(centred, Op::sub) || chain.steps[i].side != 0) continue;
        const ValueId d = r.arg(centred, 0), e = r.arg(centred, 1);
        if (!r.is(e, Op::mean) || r.arg(e) != d || !r[e].attributes.flag(Key::keepdim)) continue;
        const Sizes all = r[e].attributes.integers(Key::dims);
        if (!std::includes(all.begin(), all.end(), some.begin(), some.end())) continue;
        ValueId x = d;
        for (const auto& [step, side] : affine_chain(r, d, all).steps) {
            if (side != 0 || (!r.is(step, Op::add) && !r.is(step, Op::sub))) break;
            x = r.arg(step);
        }
        if (x == d || r[x].type != r[d].type) continue;
        AffineChain outer = chain;
        outer.steps.resize(i);
        r.say("the mean over ", some, " of a centred value needs no rounded mean");
        return reapply(r, outer, minus(r, reduce(r, Op::mean, x, some), reduce(r, Op::mean, x, all)), 1);
    }
    return -1;
}

// Where the mean was not worth a collapse, the centred form would only cost one more pass over y: with d = y − mean(y),
// mean(d) = 0 and mean(d²) = var(y), which a pass that computes y takes along. Nothing else is left to make of a mean
// then.
ValueId direct_variance(Rewriter& r, ValueId id) {
    const bool squared = r.is(r.arg(id), Op::square);
    const ValueId d = squared ? r.arg(r.arg(id)) : r.arg(id);
    if (!r.is(d, Op::sub)) return -1;
    const Node node = r[id];
    const ValueId x = r[d].args[0], m = r[d].args[1];
    if (!r.is(m, Op::mean) || r.arg(m) != x || r.is_parameter(x)) return -1;
    const Sizes dims = node.attributes.integers(Key::dims);
    if (r[m].attributes.integers(Key::dims) != dims || !r[m].attributes.flag(Key::keepdim) || r.dtype(m) != r.dtype(d))
        return -1;
    if (!squared) {
        r.say("the mean of what is left of its mean is zero");
        return full(r, node.type.dtype, node.type.shape, 0);
    }
    r.say("the mean square around the mean over ", dims, " is the variance");
    Attributes attributes = node.attributes;
    attributes.set(Key::correction, int64_t{0});
    return r.add(Op::var, {x}, std::move(attributes));
}

}  // namespace

// Tried before the collapse, which would reach through the centred value. Each firing leaves a centred value fewer.
std::span<const Rule> centred_rules() {
    static const std::vector<Rule> rules = {
        {"mean_of_centred", Family::collapse, {Op::mean}, mean_of_centred, true},
    };
    return rules;
}

std::span<const Rule> statistics_rules() {
    static const std::vector<Rule> rules = {
        {"centred_variance", Family::statistics, {Op::var}, centred_variance, true},
        {"direct_variance", Family::finish, {Op::mean}, direct_variance, true},
    };
    return rules;
}

}  // namespace transfuse
