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

ValueId compose_lattices(Rewriter& r, ValueId id) {
    if (r.is_parameter(id) || !r.is_parameter(r.arg(id, 1)) || r.waits_for_outer()) return -1;
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
    const double gone =
        chain.alone ? product_flops(before, in[0], in[1], middle[1], a[0]) + 16 * element * product(middle) : 0;
    const double apart = gone + product_flops(after, in[0], middle[1], out[1], b[0]);
    const double together = product_flops(axes, in[0], in[1], out[1], std::min(a[0], b[0]));
    if (!pays(r, together, 2 * products_in_sequence(a, b), apart)) return -1;
    const std::optional<std::vector<TapClasses>> classes = tap_classes(after);
    if (has_shift(r, chain) && !classes) return -1;

    const DType dtype = r.dtype(id);
    const ScaleAndShift between = scale_and_shift(r, chain);
    ValueId wide_first = unrounded(r, first);
    const ValueId wide_second = unrounded(r, second);
    if (between.scale >= 0) wide_first = times(r, wide_first, against_weight(r, between.scale, wide_first, true));
    const ValueId w = cast(r, weights_in_sequence(r, wide_first, wide_second, position, taps), dtype);
    r.say("two convolutions, ", r[y].type, " between them, are one: taps ", taps);
    if (between.shift < 0) return lattice(r, x, w, bias_of(r, id), axes);
    const ValueId through = by_class(r, vector_through(r, between.shift, wide_second), *classes);
    return biased_lattice(r, x, w, bias_of(r, id), axes, through, *classes);
}

// The same where channels of several convolutions of one input are concatenated between: these become one in the same
// step, as by itself that may cost more than it saves.
ValueId compose_concatenated(Rewriter& r, ValueId id) {
    if (r.is_parameter(id) || !r.is_parameter(r.arg(id, 1))) return -1;
    const ValueId one = concatenated_lattice(r, r.arg(id));
    if (one < 0) return -1;
    const Node node = r[id];
    Operands args = node.args;
    args[0] = one;
    return compose_lattices(r, r.add(node.op, std::move(args), node.attributes));
}

}  // namespace

std::span<const Rule> sequence_rules() {
    static const std::vector<Rule> rules = {
        {"compose_lattices", Family::compose, {Op::lattice}, compose_lattices, false, nullptr, true},
        {"compose_concatenated", Family::compose, {Op::lattice}, compose_concatenated, false, nullptr, true},
    };
    return rules;
}

}  // namespace transfuse
