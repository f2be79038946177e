// Norms as reductions and pointwise ops. 16-bit values are normalised in f32, as PyTorch does.
#include "algebra/expand/rules.h"
#include "algebra/reductions/collapse.h"
#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

// [C] (or any vector) laid along axis 1 of a value of this rank.
ValueId along_channels(Rewriter& r, ValueId vector, int64_t rank) {
    Sizes shape(static_cast<size_t>(rank), 1);
    shape[1] = r.shape(vector)[0];
    return reshape(r, vector, std::move(shape));
}

ValueId inverse_deviation(Rewriter& r, ValueId variance, double eps) {
    return unary(r, Op::rsqrt, plus(r, variance, r.scalar(eps)));
}

// (x − E[x]) · rsqrt(var + eps) [· weight] [+ bias], weight and bias already shaped to broadcast (−1: none).
//
// For the result of a convolution the mean m comes from the collapse, so the one pass over d = x − m takes Σd and Σd²
// of the same rounded values: var = E[d²] − E[d]², out = (d − E[d])·s + bias.
ValueId normalise(Rewriter& r, ValueId x, const Sizes& dims, double eps, ValueId weight, ValueId bias) {
    const ValueId m = reduce(r, Op::mean, x, dims);
    if (r.forks() && collapse_pays(r, x, dims)) {
        const ValueId d = minus(r, x, m);
        const ValueId squares = reduce(r, Op::mean, unary(r, Op::square, d), dims);
        const ValueId e = reduce(r, Op::mean, d, dims);
        ValueId s = inverse_deviation(r, minus(r, squares, unary(r, Op::square, e)), eps);
        if (weight >= 0) s = times(r, s, weight);
        const ValueId y = times(r, minus(r, d, e), s);
        return bias >= 0 ? plus(r, y, bias) : y;
    }
    const ValueId variance =
        r.add(Op::var, {x}, {{Key::dims, dims}, {Key::keepdim, int64_t{1}}, {Key::correction, int64_t{0}}});
    ValueId s = inverse_deviation(r, variance, eps);
    if (weight >= 0) s = times(r, s, weight);
    const ValueId y = times(r, minus(r, x, m), s);
    return bias >= 0 ? plus(r, y, bias) : y;
}

ValueId expand_batch_norm(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const int64_t rank = node.type.rank();
    const bool training = node.attributes.flag(Key::training);
    const double eps = node.attributes.number(Key::eps);
    const ValueId x = cast(r, node.args[0], wide(node.type.dtype));
    std::vector<ValueId> rest;
    for (size_t i = 1; i < node.args.size(); ++i)
        rest.push_back(along_channels(r, cast(r, node.args[i], wide(node.type.dtype)), rank));
    auto operand = [&](size_t i) { return i < rest.size() ? rest[i] : -1; };
    ValueId y;
    if (training) {
        Sizes dims = spatial_axes(rank);
        dims.insert(dims.begin(), 0);
        y = normalise(r, x, dims, eps, operand(0), operand(1));
        r.say("batch_norm by the statistics over ", dims);
    } else {
        // x·s + (bias − mean·s) with s = weight·rsqrt(var + eps): parameters alone.
        ValueId s = inverse_deviation(r, operand(1), eps);
        if (operand(2) >= 0) s = times(r, s, operand(2));
        const ValueId shift = times(r, operand(0), s);
        y = plus(r, times(r, x, s), operand(3) >= 0 ? minus(r, operand(3), shift) : negate(r, shift));
        r.say("batch_norm by running statistics is a scale and a shift");
    }
    return cast(r, y, node.type.dtype);
}

ValueId expand_instance_norm(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const int64_t rank = node.type.rank();
    const ValueId x = cast(r, node.args[0], wide(node.type.dtype));
    auto operand = [&](size_t i) {
        return i < node.args.size() ? along_channels(r, cast(r, node.args[i], wide(node.type.dtype)), rank) : -1;
    };
    const ValueId weight = operand(1), bias = operand(2);
    const ValueId y = normalise(r, x, spatial_axes(rank), node.attributes.number(Key::eps), weight, bias);
    r.say("instance_norm by the statistics over ", spatial_axes(rank));
    return cast(r, y, node.type.dtype);
}

ValueId expand_layer_norm(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const auto axes = static_cast<int64_t>(node.attributes.integers(Key::normalized_shape).size());
    Sizes dims;
    for (int64_t axis = node.type.rank() - axes; axis < node.type.rank(); ++axis) dims.push_back(axis);
    const ValueId x = cast(r, node.args[0], wide(node.type.dtype));
    auto operand = [&](size_t i) { return i < node.args.size() ? cast(r, node.args[i], wide(node.type.dtype)) : -1; };
    const ValueId weight = operand(1), bias = operand(2);
    const ValueId y = normalise(r, x, dims, node.attributes.number(Key::eps), weight, bias);
    r.say("layer_norm by the statistics over ", dims);
    return cast(r, y, node.type.dtype);
}

// Statistics of a group from those of its channels, which have equally many elements each:
// mean = E_c[mean_c], var = E_c[var_c] + Var_c[mean_c]. The large tensor is never reshaped.
ValueId expand_group_norm(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const int64_t rank = node.type.rank(), channels = node.type.shape[1],
                  groups = node.attributes.integer(Key::num_groups);
    const DType dtype = wide(node.type.dtype);
    const ValueId x = cast(r, node.args[0], dtype);
    const Sizes spatial = spatial_axes(rank);
    const ValueId mean_c = reduce(r, Op::mean, x, spatial);
    const ValueId var_c =
        spatial.empty()
            ? -1
            : r.add(Op::var, {x}, {{Key::dims, spatial}, {Key::keepdim, int64_t{1}}, {Key::correction, int64_t{0}}});
    const Sizes grouped = {node.type.shape[0], groups, channels / groups};
    Sizes per_channel(static_cast<size_t>(rank), 1);
    per_channel[0] = node.type.shape[0];
    per_channel[1] = channels;
    auto spread = [&](ValueId value) { return reshape(r, expand(r, value, grouped), per_channel); };
    const ValueId means = reshape(r, mean_c, grouped);
    const ValueId mean = reduce(r, Op::mean, means, {2});
    ValueId variance =
        r.add(Op::var, {means}, {{Key::dims, Sizes{2}}, {Key::keepdim, int64_t{1}}, {Key::correction, int64_t{0}}});
    if (var_c >= 0) variance = plus(r, reduce(r, Op::mean, reshape(r, var_c, grouped), {2}), variance);
    ValueId s = spread(inverse_deviation(r, variance, node.attributes.number(Key::eps)));
    if (node.args.size() > 1) s = times(r, s, along_channels(r, cast(r, node.args[1], dtype), rank));
    ValueId y = times(r, minus(r, x, spread(mean)), s);
    if (node.args.size() > 2) y = plus(r, y, along_channels(r, cast(r, node.args[2], dtype), rank));
    r.say("group_norm by the statistics of ", groups, " groups");
    return cast(r, y, node.type.dtype);
}

}  // namespace

std::span<const Rule> expand_norm_rules() {
    static const std::vector<Rule> rules = {
        {"expand_batch_norm", Family::expand, {Op::batch_norm}, expand_batch_norm, true},
        {"expand_instance_norm", Family::expand, {Op::instance_norm}, expand_instance_norm, true},
        {"expand_layer_norm", Family::expand, {Op::layer_norm}, expand_layer_norm, true},
        {"expand_group_norm", Family::expand, {Op::group_norm}, expand_group_norm, true},
    };
    return rules;
}

}  // namespace transfuse
