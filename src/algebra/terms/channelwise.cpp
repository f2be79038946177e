#include "algebra/terms/channelwise.h"

#include <algorithm>
#include <optional>

#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

// v as the result of one scale or shift; `inner` is what it is applied to.
std::optional<Channelwise::Link> link(const Rewriter& r, ValueId v, ValueId& inner) {
    const Node& node = r[v];
    if (node.op == Op::neg) {
        inner = node.args[0];
        return Channelwise::Link{Op::neg, -1, true};
    }
    if (node.op != Op::mul && node.op != Op::div && node.op != Op::add && node.op != Op::sub) return std::nullopt;
    for (const bool left : {true, false}) {
        const ValueId u = node.args[left ? 0 : 1], operand = node.args[left ? 1 : 0];
        if (!left && node.op == Op::div) break;
        if (r[u].type != node.type || !r.is_parameter(operand) || !is_per_channel(r, operand, node.type.shape))
            continue;
        inner = u;
        return Channelwise::Link{node.op, operand, left};
    }
    return std::nullopt;
}

bool has_bias(const Rewriter& r, ValueId y) { return r.is(y, Op::lattice) && bias_of(r, y) >= 0; }

// What a scale or a shift, the result y, is applied to, with one more link of the chain; −1 where it is none.
ValueId inside(const Rewriter& r, ValueId y, Channelwise& chain) {
    ValueId inner = -1;
    const std::optional<Channelwise::Link> found = link(r, y, inner);
    if (!found || r.is_parameter(inner)) return -1;
    chain.links.push_back(*found);
    chain.alone = chain.alone && r.uses(y) == 1;
    return inner;
}

// The same of 16 bits that are widened, scaled and shifted in f32, and rounded, as a batch norm does it.
ValueId inside_widened(const Rewriter& r, ValueId y, Channelwise& chain) {
    if (!r.is(y, Op::cast) || !is_sixteen_bit(r.dtype(y)) || r.dtype(r.arg(y)) != DType::f32) return -1;
    Channelwise longer = chain;
    longer.alone = longer.alone && r.uses(y) == 1;
    ValueId v = r.arg(y);
    while (!r.is(v, Op::cast)) {
        v = inside(r, v, longer);
        if (v < 0) return -1;
    }
    if (r.dtype(r.arg(v)) != r.dtype(y) || r.is_parameter(v)) return -1;
    longer.alone = longer.alone && r.uses(v) == 1;
    chain = std::move(longer);
    return r.arg(v);
}

}  // namespace

Channelwise channelwise(const Rewriter& r, ValueId v) {
    Channelwise result{v, v, {}, -1, true};
    while (!r.is(result.y, Op::lattice) && r.rank(result.y) >= 2) {
        ValueId inner = inside(r, result.y, result);
        if (inner < 0) inner = inside_widened(r, result.y, result);
        if (inner < 0) break;
        result.y = inner;
    }
    result.alone = result.alone && r.uses(result.y) == 1;
    if (r.is(result.y, Op::add)) {
        for (const size_t side : {0, 1}) {
            const ValueId y = r.arg(result.y, side), image = r.arg(result.y, 1 - side);
            if (!r.is(y, Op::lattice) || r.is_parameter(y) || !r.is_parameter(image) || r[y].type != r[result.y].type ||
                extent_on(r, image, r.rank(y), 0) != 1)
                continue;
            result.alone = result.alone && r.uses(y) == 1;
            result.y = y, result.image = image;
            break;
        }
    }
    return result;
}

bool has_shift(const Rewriter& r, const Channelwise& chain) {
    return has_bias(r, chain.y) || std::any_of(chain.links.begin(), chain.links.end(), [](const auto& link) {
               return link.op == Op::add || link.op == Op::sub;
           });
}

ScaleAndShift scale_and_shift(Rewriter& r, const Channelwise& chain) {
    ScaleAndShift result;
    const Sizes shape = r.shape(chain.v);
    const DType dtype = wide(r.dtype(chain.v));
    if (has_bias(r, chain.y)) result.shift = cast(r, bias_of(r, chain.y), dtype);
    const auto scale = [&](Op op, ValueId by) {
        if (result.scale < 0)
            result.scale = op == Op::mul ? by : binary(r, op, full(r, dtype, {}, 1), by);
        else
            result.scale = binary(r, op, result.scale, by);
        if (result.shift >= 0) result.shift = binary(r, op, result.shift, by);
    };
    for (size_t i = chain.links.size(); i-- > 0;) {
        const auto& [op, operand, left] = chain.links[i];
        if (op == Op::neg) {
            scale(Op::mul, r.scalar(-1));
            continue;
        }
        ValueId by = channel_vector(r, operand, shape);
        if (!r.is(by, Op::scalar)) by = cast(r, by, dtype);
        if (op == Op::mul || op == Op::div) {
            scale(op, by);
            continue;
        }
        if (op == Op::sub && !left) scale(Op::mul, r.scalar(-1));
        const ValueId signed_by = op == Op::sub && left ? negate(r, by) : by;
        result.shift = result.shift < 0 ? signed_by : plus(r, result.shift, signed_by);
    }
    if (result.shift >= 0 && r.shape(result.shift) != Sizes{shape[1]})
        result.shift = expand(r, reshape(r, cast(r, result.shift, dtype), {1}), {shape[1]});
    if (chain.image >= 0) {
        Sizes along(shape.size(), 1), whole = shape;
        along[1] = shape[1], whole[0] = 1;
        result.image = cast(r, chain.image, dtype);
        if (result.scale >= 0)
            result.image = times(r, result.image,
                                 r.rank(result.scale) > 0 ? reshape(r, result.scale, std::move(along)) : result.scale);
        result.image = expand(r, result.image, std::move(whole));
    }
    return result;
}

ValueId plus_image(Rewriter& r, ValueId v, ValueId image) {
    const Channelwise chain = channelwise(r, v);
    if (!chain.links.empty() || chain.image < 0) return plus(r, v, cast(r, image, r.dtype(v)));
    return plus(r, chain.y, plus(r, chain.image, cast(r, image, r.dtype(v))));
}

double product_flops(const Lattices& axes, int64_t batch, int64_t in, int64_t out, int64_t groups) {
    double flops = 2 * static_cast<double>(batch) * static_cast<double>(in * out) / static_cast<double>(groups);
    for (const Lattice& axis : axes) flops *= static_cast<double>(axis.products());
    return flops;
}

bool pays(const Rewriter& r, double together, double weights, double apart) {
    return !r.heeds_cost() || together + 64 * weights < apart;
}

}  // namespace transfuse
