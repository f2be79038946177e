// A lattice behind a lattice, both with channels mixed, as one whose weight is the product of theirs: the image between
// is never made.
//
//     B(s·A(x) + t) = (B·s·A)(x) + B(t),      t constant over the image between, zero outside of it
//
// Weights are multiplied in f32 at least and rounded once. B(t) takes few values, one for each class of outputs that
// meet the same taps (border.h): a bias where there is one class, else an image without a batch.
#include <algorithm>

#include "algebra/convolutions/rules.h"
#include "algebra/terms/border.h"
#include "algebra/terms/channelwise.h"
#include "algebra/terms/terms.h"
#include "algebra/terms/weights.h"

namespace transfuse {

namespace {

// `alone`: nobody but `id`, and what it stands for, uses what it is made by.
ValueId in_sequence(Rewriter& r, ValueId id, bool if_it_pays, bool alone = false) {
    if (r.is_parameter(id) || !r.is_parameter(r.arg(id, 1))) return -1;
    const Channelwise chain = channelwise(r, r.arg(id));
    if (!r.is(chain.y, Op::lattice)) return -1;
    const ValueId y = chain.y, x = r.arg(y), first = r.arg(y, 1), second = r.arg(id, 1);
    if (!r.is_parameter(first) || r.is_parameter(x) || r.dtype(y) != r.dtype(id)) return -1;
    if (separable(r, y) || separable(r, id)) return -1;  // pools have rules of their own
    const Lattices before = axes_of(r, y), after = axes_of(r, id);
    const Sizes a = r.shape(first), b = r.shape(second);
    if (a[0] % b[0] != 0 && b[0] % a[0] != 0) return -1;
    if (has_long_taps(before) || has_long_taps(after)) return -1;
    Lattices axes;
    Positions position;
    Sizes taps;
    for (size_t axis = 0; axis < before.size(); ++axis) {
        std::optional<Composed> composed = compose(before[axis], after[axis], false);
        if (!composed) return -1;
        axes.push_back(composed->lattice);
        taps.push_back(composed->lattice.taps);
        position.push_back(std::move(composed->position));
    }
    const Sizes in = r.shape(x), middle = r.shape(y), out = r.shape(id);
    const double element = static_cast<double>(bytes(r.dtype(id)));
    // What is no longer made; where several readers are made one with it, each has a part of it.
    double gone = product_flops(before, in[0], in[1], middle[1], a[0]) + 16 * element * product(middle);
    if (!chain.alone && !alone) gone = r.is_one_of_readers() ? gone / std::max(2, r.uses(chain.v)) : 0;
    const double apart = gone + product_flops(after, in[0], middle[1], out[1], b[0]);
    const double together = product_flops(axes, in[0], in[1], out[1], std::min(a[0], b[0]));
    double weights = 2 * products_in_sequence(a, b);
    if (chain.image >= 0) {
        if (is_sixteen_bit(r.dtype(id))) return -1;  // it would be added after the product was rounded
        weights += product_flops(after, 1, middle[1], out[1], b[0]);
    }
    if (if_it_pays && !pays(r, together, weights, apart)) return -1;
    const std::optional<std::vector<TapClasses>> classes = tap_classes(after);
    if (has_shift(r, chain) && !classes) return -1;

    const DType dtype = r.dtype(id);
    const ScaleAndShift between = scale_and_shift(r, chain);
    ValueId wide_first = unrounded(r, first);
    const ValueId wide_second = unrounded(r, second);
    if (between.scale >= 0) wide_first = times(r, wide_first, against_weight(r, between.scale, wide_first, true));
    const ValueId w = cast(r, weights_in_sequence(r, wide_first, wide_second, position, taps), dtype);
    r.say("two convolutions, ", r[y].type, " between them, are one: taps ", taps);
    ValueId made = -1;
    if (between.shift < 0) {
        made = lattice(r, x, w, bias_of(r, id), axes);
    } else {
        const ValueId through = by_class(r, vector_through(r, between.shift, wide_second), *classes);
        made = biased_lattice(r, x, w, bias_of(r, id), axes, through, *classes);
    }
    return between.image < 0 || made < 0 ? made : plus_image(r, made, lattice(r, between.image, second, -1, after));
}

double flops_of(const Rewriter& r, ValueId y) {
    const Sizes& in = r.shape(r.arg(y));
    return product_flops(axes_of(r, y), in[0], in[1], r.shape(y)[1], r.shape(r.arg(y, 1))[0]);
}

// Three at once, where the one between is so thin that it pays with neither neighbour alone.
ValueId three_in_sequence(Rewriter& r, ValueId id) {
    const Channelwise outer = channelwise(r, r.arg(id));
    if (!r.heeds_cost() || !r.is(outer.y, Op::lattice) || !outer.alone) return -1;
    const Channelwise inner = channelwise(r, r.arg(outer.y));
    if (!r.is(inner.y, Op::lattice) || !inner.alone) return -1;
    const auto stored = [&](ValueId y) { return 16 * static_cast<double>(bytes(r.dtype(y))) * product(r.shape(y)); };
    const double apart =
        flops_of(r, id) + flops_of(r, outer.y) + stored(outer.y) + flops_of(r, inner.y) + stored(inner.y);
    const Sizes first = r.shape(r.arg(inner.y, 1));
    double weights = 2 * products_in_sequence(r.shape(r.arg(outer.y, 1)), r.shape(r.arg(id, 1)));
    const ValueId two = in_sequence(r, id, false);
    const Channelwise so_far = channelwise(r, two < 0 ? id : two);
    if (two < 0 || !r.is(so_far.y, Op::lattice) || !so_far.links.empty()) return -1;
    weights += 2 * products_in_sequence(first, r.shape(r.arg(so_far.y, 1)));
    const ValueId three = in_sequence(r, so_far.y, false), one = three < 0 ? -1 : channelwise(r, three).y;
    if (one < 0 || !r.is(one, Op::lattice) || !pays(r, flops_of(r, one), weights, apart)) return -1;
    return so_far.image < 0 ? three : plus_image(r, three, so_far.image);
}

ValueId compose_lattices(Rewriter& r, ValueId id) {
    if (r.waits_for_outer()) return -1;
    if (const ValueId one = in_sequence(r, id, true); one >= 0) return one;
    return three_in_sequence(r, id);
}

// The same where channels of several convolutions of one input are concatenated between: these become one in the same
// step, as by itself that may cost more than it saves.
ValueId compose_concatenated(Rewriter& r, ValueId id) {
    if (r.is_parameter(id) || !r.is_parameter(r.arg(id, 1))) return -1;
    const ValueId concat = r.arg(id);
    if (!r.is(concat, Op::concat) || r[concat].attributes.integer(Key::axis) != 1 || r.rank(id) < 3 ||
        r.uses(concat) != 1)
        return -1;
    const ValueId one = concatenated_lattice(r, Operands(r[concat].args));
    if (one < 0) return -1;
    const Node node = r[id];
    Operands args = node.args;
    args[0] = one;
    return compose_lattices(r, r.add(node.op, std::move(args), node.attributes));
}

// Where axes of extent one are put in or taken out between the two.
ValueId compose_reshaped(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    if (!r.is(x, Op::reshape) || r.uses(x) != 1 || r.is_parameter(id) || r.rank(id) < 3) return -1;
    const ValueId v = r.arg(x);
    const Sizes from = r.shape(v), to = r.shape(x), w = r.shape(r.arg(id, 1));
    if (r.rank(v) < 3 || from == to || from[0] != to[0] || from[1] != to[1] || !r.is(channelwise(r, v).y, Op::lattice))
        return -1;
    const bool alone = channelwise(r, v).alone;
    const Lattices own = axes_of(r, id);
    Lattices axes;
    Sizes weight(w.begin(), w.begin() + 3);
    size_t next = 2;
    const auto skip = [&] {
        for (; next < to.size() && to[next] == 1; ++next)
            if (!own[next - 2].trivial()) return false;
        return true;
    };
    for (size_t axis = 2; axis < from.size(); ++axis) {
        const bool unit = from[axis] == 1;
        if (!unit && (!skip() || next >= to.size() || to[next] != from[axis])) return -1;
        axes.push_back(unit ? Lattice{} : own[next - 2]);
        weight.push_back(unit ? 1 : w[next + 1]);
        next += !unit;
    }
    if (!skip() || next != to.size()) return -1;
    const ValueId made = lattice(r, v, reshape(r, r.arg(id, 1), std::move(weight)), bias_of(r, id), axes);
    const ValueId one = in_sequence(r, made, true, alone);
    return one < 0 ? -1 : reshape(r, one, r.shape(id));
}

// A linear layer on a flattened image is a convolution whose taps are all places of the image: i = I − 1 − k.
ValueId compose_flattened(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id), w = r.arg(id, 1);
    if (!r.is(x, Op::reshape) || r.is_parameter(id) || !r.is_parameter(w) || r.rank(id) < 3) return -1;
    const ValueId v = r.arg(x);
    const Sizes from = r.shape(v), to = r.shape(x);
    if (from.size() < 3 || from[0] != to[0] || numel(Sizes(to.begin() + 2, to.end())) != 1 || r.shape(w)[0] != 1 ||
        from[1] == to[1] || !r.is(channelwise(r, v).y, Op::lattice))
        return -1;
    const Lattices own = axes_of(r, id);
    if (!std::all_of(own.begin(), own.end(), [](const Lattice& axis) { return axis.trivial(); })) return -1;
    Lattices axes;
    Sizes cut = {1, from[1]}, order = {0, 1, static_cast<int64_t>(from.size())}, reversed;
    for (size_t axis = 2; axis < from.size(); ++axis) {
        axes.push_back({.offset = from[axis] - 1, .in = from[axis], .out = 1, .taps = from[axis]});
        cut.push_back(from[axis]);
        order.push_back(static_cast<int64_t>(axis));
        reversed.push_back(static_cast<int64_t>(axis) + 1);
    }
    if (has_long_taps(axes)) return -1;
    cut.push_back(r.shape(id)[1]);
    const ValueId kernel = permute(r, reshape(r, w, std::move(cut)), std::move(order));
    const ValueId whole = r.add(Op::flip, {kernel}, {{Key::dims, std::move(reversed)}});
    const bool alone = channelwise(r, v).alone && r.uses(x) == 1;
    const ValueId one = in_sequence(r, lattice(r, v, whole, bias_of(r, id), axes), true, alone);
    return one < 0 ? -1 : reshape(r, one, r.shape(id));
}

}  // namespace

ValueId lattice_in_sequence(Rewriter& r, ValueId id, bool alone) { return in_sequence(r, id, true, alone); }

ValueId lattice_with_inner(Rewriter& r, ValueId id) {
    if (const ValueId one = in_sequence(r, id, false); one >= 0) return one;
    return lattice_with_resampling(r, id);
}

std::span<const Rule> sequence_rules() {
    static const std::vector<Rule> rules = {
        {"compose_lattices", Family::compose, {Op::lattice}, compose_lattices, false, nullptr, true, true},
        {"compose_reshaped", Family::compose, {Op::lattice}, compose_reshaped},
        {"compose_flattened", Family::compose, {Op::lattice}, compose_flattened},
        {"compose_concatenated", Family::compose, {Op::lattice}, compose_concatenated, false, nullptr, true},
    };
    return rules;
}

}  // namespace transfuse
