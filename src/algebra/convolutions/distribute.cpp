// A convolution of a sum, or of concatenated channels, taken apart where parts of it become one with what they are made
// by:
//
//     A(u + v) = A(u) + A(v)        A(concat(u, v)) = A₁(u) + A₂(v)
//
// with the scales and shifts by parameters that lie between. Parts that gain nothing stay together. A part that repeats
// itself along axes, as a mean or an embedding, is made of it once: a bias an image, and a few values at borders. An
// image of parameters, as of positions, becomes one that is made with the weights.
#include <algorithm>

#include "algebra/convolutions/rules.h"
#include "algebra/terms/border.h"
#include "algebra/terms/channelwise.h"
#include "algebra/terms/terms.h"
#include "algebra/terms/weights.h"

namespace transfuse {

namespace {

struct Part {
    ValueId v = -1;
    bool negative = false;
    int64_t from = 0, channels = 0;  // of A's input
    double made = 0;                 // what is saved where v is no longer made
    bool alone = false;              // nobody else uses v
    bool repeated = false;           // v repeats itself along a spatial axis
    bool fixed = false;              // v is made of parameters, the same for all samples
    ValueId one = -1;                // A of it and what made it, as one
};

constexpr size_t most_parts = 16;

void summands(const Rewriter& r, ValueId v, const Type& type, bool negative, bool root, std::vector<Part>& parts) {
    if (r.is(v, Op::expand) && r.rank(r.arg(v)) == type.rank() && !root) v = r.arg(v);
    const Node& node = r[v];
    const bool fixed = r.is_parameter(v), repeated = !fixed && r[v].type != type;
    const auto part = [&](ValueId arg) {
        if (!r.is_parameter(arg) && r[arg].type == type) return true;
        if (r.rank(arg) != type.rank() || r.dtype(arg) != type.dtype) return false;
        if (r.is_parameter(arg)) return r.shape(arg)[0] == 1;
        const Sizes space = spatial_axes(type.rank());
        return std::any_of(space.begin(), space.end(), [&](int64_t axis) {
            return r.shape(arg)[static_cast<size_t>(axis)] < type.shape[static_cast<size_t>(axis)];
        });
    };
    if (!fixed && !repeated && (node.op == Op::add || node.op == Op::sub) && (root || r.uses(v) == 1) &&
        part(node.args[0]) && part(node.args[1])) {
        summands(r, node.args[0], type, negative, false, parts);
        summands(r, node.args[1], type, negative != (node.op == Op::sub), false, parts);
        return;
    }
    parts.push_back({.v = v, .negative = negative, .channels = type.shape[1], .repeated = repeated, .fixed = fixed});
}

std::vector<Part> parts_of(const Rewriter& r, ValueId x) {
    std::vector<Part> parts;
    if (r.is(x, Op::concat) && r[x].attributes.integer(Key::axis) == 1) {
        int64_t from = 0;
        for (const ValueId arg : r[x].args) {
            parts.push_back({arg, false, from, r.shape(arg)[1]});
            from += r.shape(arg)[1];
        }
    } else {
        summands(r, x, r[x].type, false, true, parts);
    }
    return parts;
}

// A pass of its own that writes v and reads it again, in the objective's measure.
double stored(const Rewriter& r, ValueId v) {
    return 16 * static_cast<double>(bytes(r.dtype(v))) * product(r.shape(v));
}

double product_of(const Rewriter& r, ValueId y) {
    const Sizes& in = r.shape(r.arg(y));
    return product_flops(axes_of(r, y), in[0], in[1], r.shape(y)[1], r.shape(r.arg(y, 1))[0]);
}

// What it takes to make v by the convolution behind it, where nobody else asks for that.
double made_by(const Rewriter& r, ValueId v) {
    const Channelwise chain = channelwise(r, v);
    return chain.alone && r.is(chain.y, Op::lattice) ? product_of(r, chain.y) + stored(r, chain.y) : 0;
}

// The convolution that v is, or that it is but for a border and a cast.
ValueId lattice_of(const Rewriter& r, ValueId v) {
    if (r.is(v, Op::cast)) v = r.arg(v);
    v = channelwise(r, v).y;
    return r.is(v, Op::lattice) ? v : -1;
}

ValueId joined(Rewriter& r, ValueId u, ValueId v, bool negative) {
    if (u < 0) return negative ? negate(r, v) : v;
    return negative ? minus(r, u, v) : plus(r, u, v);
}

ValueId rows(Rewriter& r, ValueId w, const Part& part) {
    if (part.channels == r.shape(w)[1]) return w;
    return r.add(Op::slice, {w},
                 {{Key::axis, int64_t{1}}, {Key::start, part.from}, {Key::end, part.from + part.channels}});
}

ValueId distributed(Rewriter& r, ValueId id) {
    if (r.is_parameter(id) || !r.is_parameter(r.arg(id, 1)) || r.rank(id) < 3 || separable(r, id)) return -1;
    const Channelwise chain = channelwise(r, r.arg(id));
    const ValueId x = chain.y;
    const bool concat = r.is(x, Op::concat);
    if (!chain.alone || chain.image >= 0 || !(concat || r.is(x, Op::add) || r.is(x, Op::sub)) ||
        r.dtype(x) != r.dtype(id))
        return -1;
    if (concat && r.shape(r.arg(id, 1))[0] != 1) return -1;
    std::vector<Part> parts = parts_of(r, x);
    if (parts.size() < 2 || parts.size() > most_parts) return -1;
    for (Part& part : parts) part.made = made_by(r, part.v), part.alone = r.uses(part.v) == 1;
    const Lattices axes = axes_of(r, id);
    if (has_long_taps(axes)) return -1;
    const bool shifted = has_shift(r, chain);
    const std::optional<std::vector<TapClasses>> classes = tap_classes(axes);
    if (shifted && !classes) return -1;

    const ScaleAndShift between = scale_and_shift(r, chain);
    ValueId w = r.arg(id, 1);
    const ValueId wide_w = unrounded(r, w);
    if (between.scale >= 0) w = cast(r, times(r, wide_w, against_weight(r, between.scale, wide_w, false)), r.dtype(w));
    double saved = 0;
    size_t taken = 0, added = 0;  // parts that are one with what makes them; of no product, added on the way out
    for (Part& part : parts) {
        if (part.repeated || part.fixed) {
            Sizes whole = r.shape(x);
            if (part.fixed) whole[0] = 1;
            const ValueId own = lattice(r, expand(r, part.v, std::move(whole)), w, -1, axes);
            part.one = part.fixed ? own : lattice_of_repeated(r, own);
            if (part.one < 0) return -1;
            ++added;
            continue;
        }
        if (part.made == 0 && !concat) continue;
        const ValueId alone = lattice(r, part.v, rows(r, w, part), -1, axes);
        const double own = product_of(r, alone);
        double gain = part.made + (concat ? own : 0);  // of a sum what is left takes as much as all of it
        ValueId one = concat ? pixelwise_before(r, alone) : -1;
        if (one >= 0) {
            gain = own / 2 + (part.alone ? stored(r, part.v) : 0);
        } else if (part.made > 0) {
            one = lattice_with_inner(r, alone);
            const ValueId y = one < 0 ? -1 : lattice_of(r, one);
            if (y < 0) continue;
            gain -= product_of(r, y) + 128 * product(r.shape(r.arg(y, 1))) * static_cast<double>(part.channels);
        }
        if (one < 0 || r[one].type != r[id].type || (r.heeds_cost() && gain <= 0)) continue;
        part.one = one, saved += gain, ++taken;
    }
    if (taken == 0 && added < parts.size()) return -1;
    const size_t terms = taken + (taken + added < parts.size());
    if (terms + added > 1 && is_sixteen_bit(r.dtype(id))) return -1;  // each term would be rounded on its own
    if (!concat && terms == taken) saved += product_of(r, id);
    if (r.heeds_cost() && saved <= stored(r, id) * (static_cast<double>(terms) - 1)) return -1;

    ValueId rest = -1, own = w, sum = -1;
    std::vector<ValueId> values, weights;
    for (const Part& part : parts) {
        if (part.one >= 0) continue;
        if (concat)
            values.push_back(part.v), weights.push_back(rows(r, w, part));
        else
            rest = joined(r, rest, part.v, part.negative);
    }
    if (values.size() == 1) rest = values[0], own = weights[0];
    if (values.size() > 1) {
        rest = r.add(Op::concat, Operands(values.begin(), values.end()), {{Key::axis, int64_t{1}}});
        own = r.add(Op::concat, Operands(weights.begin(), weights.end()), {{Key::axis, int64_t{1}}});
    }
    for (const bool later : {false, true})
        for (const Part& part : parts)
            if (part.one >= 0 && (part.repeated || part.fixed) == later) sum = joined(r, sum, part.one, part.negative);
    ValueId bias = bias_of(r, id), image = -1;
    if (shifted) {
        const ValueId u = by_class(r, vector_through(r, between.shift, wide_w), *classes);
        const int64_t channels = r.shape(id)[1];
        if (numel(r.shape(u)) == channels) {
            const ValueId vector = reshape(r, u, {channels});
            bias = bias < 0 ? vector : plus(r, cast(r, bias, r.dtype(vector)), vector);
        } else if (is_sixteen_bit(r.dtype(id))) {
            return -1;
        } else {
            image = on_outputs(r, u, *classes);
        }
    }
    if (rest >= 0) {
        sum = plus(r, lattice(r, rest, own, bias, axes), sum);
    } else if (bias >= 0) {
        Sizes along(r.shape(id).size(), 1);
        along[1] = r.shape(id)[1];
        sum = plus(r, sum, cast(r, reshape(r, bias, std::move(along)), r.dtype(id)));
    }
    if (image >= 0) sum = plus(r, sum, cast(r, image, r.dtype(id)));
    r.say("a convolution of ", concat ? "concatenated channels " : "a sum ", r[x].type,
          " is taken of each part: ", static_cast<int64_t>(taken), " become one with what makes them, ",
          static_cast<int64_t>(added), " are added");
    return expand(r, sum, Sizes(r.shape(id)));
}

}  // namespace

std::span<const Rule> distribution_rules() {
    static const std::vector<Rule> rules = {
        {"distributed", Family::compose, {Op::lattice}, distributed},
    };
    return rules;
}

}  // namespace transfuse
