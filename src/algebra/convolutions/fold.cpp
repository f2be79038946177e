// Scale and shift chains fold into the weights and the bias of a lattice convolution.
//
// The output channels of w are axis 2 *within their group*, so a per-channel scale [C] meets w as [G, 1, Cout/G, 1…].
#include "algebra/convolutions/rules.h"
#include "algebra/terms/terms.h"
#include "algebra/terms/weights.h"

namespace transfuse {

namespace {

// 16-bit weights hold a scaled weight exactly only if the scale is ±2ᵏ.
bool weights_can_hold(const Rewriter& r, DType dtype, ValueId scale) {
    if (!is_sixteen_bit(dtype)) return true;
    const std::optional<double> value = number(r, scale);
    return value && power_of_two(*value) && std::abs(*value) <= 16 && std::abs(*value) >= 1.0 / 16;
}

// An average pool keeps its literal weight; scales and shifts stay behind it, on fewer elements.
bool is_literal_pool(const Rewriter& r, ValueId id) {
    const std::optional<Separable> weight = separable(r, id);
    return weight && weight->literal;
}

// mul(y, s), div(y, s), neg(y) with s a number or one parameter value a channel: w·s and bias·s.
ValueId fold_scale(Rewriter& r, ValueId id) {
    const size_t sides = r.is(id, Op::mul) ? 2 : 1;
    if (!r.is(r.arg(id), Op::lattice) && !(sides == 2 && r.is(r.arg(id, 1), Op::lattice))) return -1;
    const Node node = r[id];
    for (size_t side = 0; side < sides; ++side) {
        const ValueId y = node.args[side];
        if (!r.is(y, Op::lattice) || is_literal_pool(r, y) || r[y].type != node.type) continue;
        const Op op = node.op == Op::div ? Op::div : Op::mul;
        const ValueId operand = node.op == Op::neg ? r.scalar(-1) : node.args[1 - side];
        if (!r.is_parameter(operand) || !weights_can_hold(r, node.type.dtype, operand)) continue;
        const ValueId scale = channel_vector(r, operand, node.type.shape);
        if (scale < 0) continue;
        const Lattices axes = axes_of(r, y);
        const ValueId x = r.arg(y, 0), w = r.arg(y, 1), bias = bias_of(r, y);
        const ValueId scaled = binary(r, op, w, against_weight(r, scale, w, true));
        if (r[scaled].type != r[w].type) continue;
        r.say("a ", r.rank(scale) == 0 ? "scalar" : "per-channel", " scale of ", r[y].type, " folds into the weights");
        return lattice(r, x, scaled, bias < 0 ? -1 : binary(r, op, bias, scale), axes);
    }
    return -1;
}

// y + t, y − t: into the bias. The bias of a 16-bit convolution is added in f32, so it is kept in f32.
ValueId fold_shift(Rewriter& r, ValueId id) {
    auto may_fold = [&](ValueId y) { return r.is(r.is(y, Op::cast) ? r.arg(y) : y, Op::lattice); };
    if (!may_fold(r.arg(id, 0)) && !may_fold(r.arg(id, 1))) return -1;
    const Node node = r[id];
    for (size_t side = 0; side < 2; ++side) {
        if (node.op == Op::sub && side == 1) break;
        ValueId y = node.args[side];
        const ValueId operand = node.args[1 - side];
        if (r[y].type != node.type) continue;
        const bool widened = r.is(y, Op::cast) && is_sixteen_bit(r.dtype(r.arg(y)));
        if (widened) y = r.arg(y);
        if (!r.is(y, Op::lattice) || is_literal_pool(r, y)) continue;
        // A statistic is folded where it centres what is squared next; other data-dependent shifts stay pointwise.
        if (!r.is_parameter(operand) && node.op != Op::sub) continue;
        ValueId t = channel_vector(r, operand, node.type.shape);
        if (t < 0) continue;
        const Lattices axes = axes_of(r, y);
        const DType dtype = wide(node.type.dtype);
        const ValueId x = r.arg(y, 0), w = r.arg(y, 1);
        ValueId bias = bias_of(r, y);
        if (bias >= 0) {
            bias = binary(r, node.op, cast(r, bias, dtype), r.is(t, Op::scalar) ? t : cast(r, t, dtype));
        } else {
            const Sizes vector = {node.type.shape[1]};
            if (const std::optional<double> value = number(r, t)) {
                bias = full(r, dtype, vector, node.op == Op::sub ? -*value : *value);
            } else {
                bias = expand(r, r.rank(t) == 0 ? reshape(r, cast(r, t, dtype), {1}) : cast(r, t, dtype), vector);
                if (node.op == Op::sub) bias = negate(r, bias);
            }
        }
        r.say(r.is_parameter(operand) ? "a shift of " : "a statistic subtracted from ", node.type,
              " folds into the bias");
        const ValueId result = lattice(r, x, w, bias, axes);
        return widened ? cast(r, result, node.type.dtype) : result;
    }
    return -1;
}

// lattice(x·s, w): padding stays zero under a scale, so it folds into the weights' input channels.
ValueId fold_input_scale(Rewriter& r, ValueId id) {
    if (!r.is(r.arg(id), Op::mul) || is_literal_pool(r, id)) return -1;
    const Node node = r[id], inner = r[node.args[0]];
    for (size_t side = 0; side < 2; ++side) {
        const ValueId x = inner.args[side], operand = inner.args[1 - side];
        if (r[x].type != inner.type || !r.is_parameter(operand) || !weights_can_hold(r, inner.type.dtype, operand))
            continue;
        const ValueId scale = channel_vector(r, operand, inner.type.shape);
        if (scale < 0) continue;
        const Lattices axes = axes_of(r, id);
        const ValueId w = node.args[1];
        const ValueId scaled = times(r, w, against_weight(r, scale, w, false));
        if (r[scaled].type != r[w].type) continue;
        r.say("a scale of the input ", inner.type, " folds into the weights");
        return lattice(r, x, scaled, bias_of(r, id), axes);
    }
    return -1;
}

}  // namespace

std::span<const Rule> fold_rules() {
    static const std::vector<Rule> rules = {
        {"fold_scale", Family::fold, {Op::mul, Op::div, Op::neg}, fold_scale},
        {"fold_shift", Family::fold, {Op::add, Op::sub}, fold_shift},
        {"fold_input_scale", Family::fold, {Op::lattice}, fold_input_scale},
    };
    return rules;
}

}  // namespace transfuse
