// A convolution of what repeats itself along some axes is made of it once:
//
//     over the batch       y[n, …] = y[0, …]
//     over channels        y[co] = x·Σ_ci w[ci, co]
//     along an axis        y[o] = x·(Σ of the taps that o meets inside)
//
// The outputs along an axis are few classes that meet the same taps (border.h); each is a tap of a lattice on the one
// element that there is.
#include "algebra/convolutions/rules.h"
#include "algebra/terms/border.h"
#include "algebra/terms/channelwise.h"
#include "algebra/terms/terms.h"
#include "algebra/terms/weights.h"

namespace transfuse {

ValueId lattice_on_constant_axes(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    const int64_t rank = r.rank(id);
    if (!r.is(x, Op::expand) || r.is_parameter(id) || rank < 3) return -1;
    const Type type = r[id].type;
    const Sizes in = r.shape(x);
    Sizes own;
    for (int64_t axis = 0; axis < rank; ++axis) own.push_back(extent_on(r, r.arg(x), rank, axis));
    if (own == in) return -1;
    Lattices axes = axes_of(r, id);
    std::vector<TapClasses> classes(axes.size(), TapClasses{.matrix = {}});
    ValueId w = r.arg(id, 1), bias = bias_of(r, id);
    bool summed = false;
    for (size_t a = 0; a < axes.size(); ++a) {
        if (own[a + 2] == in[a + 2]) continue;
        const std::optional<TapClasses> here = axes[a].taps > 1024 ? std::nullopt : tap_classes(axes[a]);
        if (!here) return -1;
        const int64_t count = here->count();
        w = taps(r, unrounded(r, w), static_cast<int64_t>(a) + 3, count, here->matrix);
        axes[a] = {.in = 1, .out = count, .taps = count};
        classes[a] = *here;
        summed = true;
    }
    if (own[1] != in[1]) {
        w = reduce(r, Op::sum, unrounded(r, w), {1});
        Sizes shape = r.shape(w);
        shape[2] *= shape[0], shape[0] = 1;
        w = reshape(r, w, std::move(shape));
        summed = true;
    }
    // Sums of weights are rounded no more than they were, and few products are left.
    const DType dtype = summed ? wide(type.dtype) : type.dtype;
    if (bias >= 0 && summed) bias = cast(r, bias, dtype);
    const ValueId once = lattice(r, cast(r, reshape(r, r.arg(x), std::move(own)), dtype), w, bias, axes);
    r.say("a convolution of ", r[r.arg(x)].type, ", which is repeated to ", r[x].type, ", is made of it once");
    return expand(r, cast(r, chosen_on_outputs(r, once, classes), type.dtype), type.shape);
}

std::span<const Rule> constant_axes_rules() {
    static const std::vector<Rule> rules = {
        {"constant_axes", Family::compose, {Op::lattice}, lattice_on_constant_axes},
    };
    return rules;
}

}  // namespace transfuse
