// Variances of a convolution's result: from the covariance of its input, or in the centred form.
#include <algorithm>

#include "algebra/lattice/lags.h"
#include "algebra/reductions/collapse.h"
#include "algebra/reductions/rules.h"
#include "algebra/terms/affine.h"
#include "algebra/terms/terms.h"

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

// The weights as a matrix a group: [G, A, Cout/G, 1], a counting (input channel, taps).
ValueId as_matrix(Rewriter& r, ValueId w, int64_t patch) {
    const Sizes shape = r.shape(w);
    Sizes order = {0, 1};
    for (int64_t axis = 3; axis < static_cast<int64_t>(shape.size()); ++axis) order.push_back(axis);
    order.push_back(2);
    return reshape(r, permute(r, w, std::move(order)), {shape[0], patch, shape[2], 1});
}

ValueId rows_of(Rewriter& r, ValueId matrix, int64_t begin, int64_t end) {
    return r.add(Op::slice, {matrix}, {{Key::axis, int64_t{0}}, {Key::start, begin}, {Key::end, end}});
}

// The convolution whose variance over dims is that of d: shifts along which d does not vary, and widening, change
// nothing. −1 where it, or what lies between, is used for anything but d, or d for anything but two moments.
ValueId shifted_lattice(const Rewriter& r, ValueId d, const Sizes& dims) {
    for (int users = 2; r.uses(d) == users; users = 1) {
        const bool shift = (r.is(d, Op::sub) || r.is(d, Op::add)) && r.shape(r.arg(d)) == r.shape(d) &&
                           constant_along(r, r.arg(d, 1), r.rank(d), dims);
        const bool widened = r.is(d, Op::cast) && is_sixteen_bit(r.dtype(r.arg(d)));
        if (!shift && !widened) return r.is(d, Op::lattice) ? d : -1;
        d = r.arg(d);
    }
    return -1;
}

// E[d²] − E[d]² over batch and space, d = lattice(x, w) + a shift, is wᵀ·C·w, C the covariance of what an output meets.
// With few input channels and taps C is cheap, and the convolution is not computed for its statistics. Where d is
// wanted for more than that, its statistics must be those of its rounded values: then they stay with it.
ValueId variance_of_input(Rewriter& r, ValueId id) {
    const ValueId squares = r.arg(id, 0), square = r.arg(id, 1);
    if (r.differentiated() || !r.is(squares, Op::mean) || !r.is(r.arg(squares), Op::square) ||
        !r.is(square, Op::square) || !r.is(r.arg(square), Op::mean))
        return -1;
    const ValueId d = r.arg(r.arg(squares)), e = r.arg(square);
    if (r.arg(e) != d || r.uses(e) != 1 || r[e].attributes != r[squares].attributes ||
        !r[e].attributes.flag(Key::keepdim))
        return -1;
    Sizes dims = spatial_axes(r.rank(d));
    dims.insert(dims.begin(), 0);
    const ValueId y = shifted_lattice(r, d, dims);
    if (y < 0 || r[e].attributes.integers(Key::dims) != dims) return -1;
    const Lattices axes = axes_of(r, y);
    const Sizes in = r.shape(r.arg(y, 0)), out = r.shape(y), w = r.shape(r.arg(y, 1));
    const Prices& prices = r.prices();
    double multiplied = static_cast<double>(out[0]) * static_cast<double>(w[0] * w[1] * w[2]);
    double summed = static_cast<double>(in[0] * w[0]) * lag_products(axes, w[1]);
    Sizes up, dil, offset, extent, taps;
    int64_t patch = w[1], parts = 1;
    for (const Lattice& axis : axes) {
        if (axis.down != 1 || axis.in < 1 || axis.taps > 64) return -1;
        if ((parts *= lags(axis).segments()) > 64) return -1;  // borders that cut x into many parts
        multiplied *= static_cast<double>(axis.products()), summed *= static_cast<double>(axis.in);
        patch *= axis.taps;
        up.push_back(axis.up), dil.push_back(axis.dil), offset.push_back(axis.offset);
        extent.push_back(axis.out), taps.push_back(axis.taps);
        if (static_cast<double>(patch) * static_cast<double>(patch * w[0] * w[2]) > prices.quadratic_form) return -1;
    }
    if (prices.covariance * summed > multiplied) return -1;
    const Node node = r[id];
    const ValueId c = rows_of(r,
                              r.add(Op::covariance, {r.arg(y, 0)},
                                    {{Key::up, std::move(up)},
                                     {Key::dil, std::move(dil)},
                                     {Key::offset, std::move(offset)},
                                     {Key::out, std::move(extent)},
                                     {Key::taps, std::move(taps)},
                                     {Key::groups, w[0]}}),
                              0, patch);
    const ValueId matrix = as_matrix(r, cast(r, r.arg(y, 1), DType::f64), patch);
    const ValueId rows = permute(r, reshape(r, matrix, {w[0], patch, w[2]}), {1, 0, 2});
    const ValueId product = times(r, lattice(r, c, matrix, -1, {Lattice{}}), reshape(r, rows, {patch, out[1], 1}));
    r.say("variance over ", dims, " of ", r[y].type,
          " from the covariance of its input: ", static_cast<int64_t>(lag_products(axes, w[1])),
          " products a position");
    const ValueId variance = unary(r, Op::relu, reduce(r, Op::sum, product, {0}));
    return cast(r, reshape(r, variance, node.type.shape), node.type.dtype);
}

// Box sums of x, all of space in them, for each tap of a lattice those of the inputs it meets: their mean over the
// batch is what a covariance of the same x has as means, times the number of outputs of a sample. x is not read once
// more for them. Ends because the box sums are gone then.
ValueId means_beside_covariance(Rewriter& r, ValueId id) {
    const ValueId sums = r.arg(id);
    const Attributes* attributes = r.covariance_beside();
    if (!attributes || !r.is(sums, Op::box_sums) || r.uses(sums) != 1 || !r[id].attributes.flag(Key::keepdim) ||
        r[id].attributes.integers(Key::dims) != Sizes{0})
        return -1;
    const ValueId x = r.arg(sums);
    if (r[sums].attributes.integers(Key::dims) != spatial_axes(r.rank(x))) return -1;
    const ValueId c = r.add(Op::covariance, {x}, *attributes);
    Sizes counts, los, his, steps;
    double outputs = 1;
    for (const Lattice& axis : lattices(r[c], r[x].type, 0, Type{})) {
        const IntervalSet taps = intervals(axis);
        for (const Interval& interval : taps.intervals)
            los.push_back(interval.lo), his.push_back(interval.hi), steps.push_back(interval.step);
        counts.push_back(static_cast<int64_t>(taps.intervals.size()));
        if (counts.back() != axis.taps) return -1;  // taps share a box, or meet nothing
        outputs *= static_cast<double>(axis.out);
    }
    const Attributes& boxes = r[sums].attributes;
    if (boxes.integers(Key::counts) != counts || boxes.integers(Key::los) != los || boxes.integers(Key::his) != his ||
        boxes.integers(Key::steps) != steps)
        return -1;
    r.say("the means of ", r[sums].type, " come with the covariance of ", r[x].type);
    const int64_t patch = r.shape(c)[0] - 1;
    const ValueId means = reshape(r, rows_of(r, c, patch, patch + 1), r.shape(id));
    return cast(r, scaled(r, means, outputs), r.dtype(id));
}

// Variances of the same values that differ in the number they are divided by are one sum.
ValueId plain_variance(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const int64_t correction = node.attributes.integer(Key::correction);
    double count = 1;
    for (int64_t axis : node.attributes.integers(Key::dims))
        count *= static_cast<double>(r.shape(node.args[0])[static_cast<size_t>(axis)]);
    if (correction == 0 || count <= static_cast<double>(correction) || is_sixteen_bit(node.type.dtype)) return -1;
    Attributes attributes = node.attributes;
    attributes.set(Key::correction, int64_t{0});
    r.say("a variance with correction ", correction, " is one without, scaled");
    const ValueId plain = r.add(Op::var, {node.args[0]}, std::move(attributes));
    return scaled(r, plain, count / (count - static_cast<double>(correction)));
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
        {"variance_of_input", Family::statistics, {Op::sub}, variance_of_input, true},
        {"centred_variance", Family::statistics, {Op::var}, centred_variance, true},
        {"means_beside_covariance", Family::statistics, {Op::mean}, means_beside_covariance, true},
        {"plain_variance", Family::statistics, {Op::var}, plain_variance, true},
        {"direct_variance", Family::finish, {Op::mean}, direct_variance, true},
    };
    return rules;
}

}  // namespace transfuse
