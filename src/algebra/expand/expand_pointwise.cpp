// Ops that are others in disguise: identity, hardtanh, softmax, weight_norm, a single element resampled.
#include "algebra/expand/rules.h"
#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

ValueId drop_identity(Rewriter& r, ValueId id) {
    r.say("identity");
    return r.arg(id);
}

// With gradients detach must stay where it is.
ValueId drop_detach(Rewriter& r, ValueId id) {
    if (!r.inference()) return -1;
    r.say("detach is the identity where no gradient flows");
    return r.arg(id);
}

// Their values are the same; at the bounds hardtanh has slope 0 and clamp slope 1.
ValueId hardtanh_is_clamp(Rewriter& r, ValueId id) {
    if (!r.inference()) return -1;
    const Node node = r[id];
    r.say("hardtanh is clamp");
    return unary(r, Op::clamp, node.args[0],
                 {{Key::lo, node.attributes.number(Key::lo)}, {Key::hi, node.attributes.number(Key::hi)}});
}

// z = x − max x; softmax(x) = exp z / Σ exp z, log_softmax(x) = z − log Σ exp z; 16-bit values in f32, as PyTorch does.
// Both are as exact as PyTorch's whatever a row's values have in common: max x + log Σ would be rounded to its size.
ValueId expand_softmax(Rewriter& r, ValueId id) {
    if (r.differentiated()) return -1;  // it has a gradient of its own, shorter than that of its parts
    const Node node = r[id];
    r.say(name(node.op), " over ", node.attributes.integers(Key::dims),
          " by exponentials of the distance to the largest");
    if (numel(node.type.shape) == 0) return node.args[0];  // empty rows have no largest
    const ValueId x = cast(r, node.args[0], wide(node.type.dtype));
    const Sizes dims = node.attributes.integers(Key::dims);
    const auto over_rows = [&](Op op, ValueId of) { return dims.empty() ? of : reduce(r, op, of, dims); };
    const ValueId z = minus(r, x, over_rows(Op::amax, x)), e = unary(r, Op::exp, z);
    const ValueId sum = over_rows(Op::sum, e);
    const ValueId y = node.op == Op::softmax ? binary(r, Op::div, e, sum) : minus(r, z, unary(r, Op::log, sum));
    return cast(r, y, node.type.dtype);
}

// v · g/‖v‖, the norm over every axis but one.
ValueId expand_weight_norm(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const DType dtype = wide(node.type.dtype);
    const ValueId v = cast(r, node.args[0], dtype), g = cast(r, node.args[1], dtype);
    Sizes others;
    for (int64_t axis = 0; axis < node.type.rank(); ++axis)
        if (axis != node.attributes.integer(Key::axis)) others.push_back(axis);
    const ValueId norm = unary(r, Op::sqrt, reduce(r, Op::sum, unary(r, Op::square, v), std::move(others)));
    r.say("weight_norm ", node.type);
    return cast(r, times(r, v, binary(r, Op::div, g, norm)), node.type.dtype);
}

// Where a single element is resampled, as behind a global pool, every output is that element.
ValueId resampling_of_one(Rewriter& r, ValueId id) {
    const Sizes in = r.shape(r.arg(id)), out = r.shape(id);
    for (size_t axis = 0; axis < in.size(); ++axis)
        if (in[axis] != 1 && in[axis] != out[axis]) return -1;
    r.say("a single element resampled to ", r[id].type, " is repeated");
    return expand(r, r.arg(id), out);
}

bool of_parameters(const Rewriter& r, ValueId id) { return r.is_parameter(id); }

}  // namespace

std::span<const Rule> expand_pointwise_rules() {
    static const std::vector<Rule> rules = {
        {"drop_identity", Family::expand, {Op::identity}, drop_identity, true},
        {"drop_detach", Family::expand, {Op::detach}, drop_detach, true},
        {"hardtanh_is_clamp", Family::expand, {Op::hardtanh}, hardtanh_is_clamp, true},
        {"expand_softmax", Family::expand, {Op::softmax, Op::log_softmax}, expand_softmax, true},
        {"resampling_of_one", Family::expand, {Op::interpolate, Op::upsample}, resampling_of_one, true},
        {"expand_weight_norm", Family::expand, {Op::weight_norm}, expand_weight_norm, true, of_parameters},
    };
    return rules;
}

}  // namespace transfuse
