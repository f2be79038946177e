// A convolution of what repeats itself along some axes is made of it once:
//
//     over the batch       y[n, …] = y[0, …]
//     over channels        y[co] = x·Σ_ci w[ci, co]           also where it is concatenated several times
//     along an axis        y[o] = x·(Σ of the taps that o meets inside)
//
// The outputs along an axis are few classes that meet the same taps (border.h); each is a tap of a lattice on the one
// element that there is.
#include <algorithm>

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

namespace {

// lattice(concat(…, u, …, u, …)) = lattice(concat(…, u, …)), rows of the weight added.
ValueId channels_given_again(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    if (!r.is(x, Op::concat) || r[x].attributes.integer(Key::axis) != 1 || r.rank(id) < 3 || r.is_parameter(id) ||
        r.shape(r.arg(id, 1))[0] != 1)
        return -1;
    const Operands given = r[x].args;
    std::vector<ValueId> pieces, weights;
    const ValueId w = unrounded(r, r.arg(id, 1));
    int64_t from = 0;
    for (const ValueId piece : given) {
        const int64_t to = from + r.shape(piece)[1];
        const ValueId rows = r.add(Op::slice, {w}, {{Key::axis, int64_t{1}}, {Key::start, from}, {Key::end, to}});
        const auto before = std::find(pieces.begin(), pieces.end(), piece);
        if (before == pieces.end())
            pieces.push_back(piece), weights.push_back(rows);
        else
            weights[static_cast<size_t>(before - pieces.begin())] =
                plus(r, weights[static_cast<size_t>(before - pieces.begin())], rows);
        from = to;
    }
    if (pieces.size() == given.size()) return -1;
    const auto joined = [&](const std::vector<ValueId>& parts) {
        return parts.size() == 1 ? parts[0] : r.add(Op::concat, parts, {{Key::axis, int64_t{1}}});
    };
    const Lattices axes = axes_of(r, id);
    r.say("channels of ", r[x].type, " that are given several times are given once");
    return lattice(r, joined(pieces), cast(r, joined(weights), r.dtype(r.arg(id, 1))), bias_of(r, id), axes);
}

}  // namespace

std::span<const Rule> constant_axes_rules() {
    static const std::vector<Rule> rules = {
        {"constant_axes", Family::compose, {Op::lattice}, lattice_on_constant_axes},
        {"channels_given_again", Family::compose, {Op::lattice}, channels_given_again},
    };
    return rules;
}

}  // namespace transfuse
