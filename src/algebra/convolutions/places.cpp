// Slices that convolutions read, and stacks that they write, are places, as rearrangements are.
//
// The slice i = step·m + start is a lattice of one tap. Channels that are slices of one input, concatenated, are read
// from it by a sum of lattices of that input: each composed with its slice, on common taps.
//
// Convolutions of one input that are stacked on a new axis are one with channels (which of them, its own), rearranged.
#include <algorithm>

#include "algebra/convolutions/rules.h"
#include "algebra/lattice/aligned.h"
#include "algebra/terms/channelwise.h"
#include "algebra/terms/rearrangement.h"
#include "algebra/terms/terms.h"
#include "algebra/terms/weights.h"
#include "graph/infer.h"

namespace transfuse {

namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

// Slices of the spatial axes of v, one after another, as lattices.
struct Sliced {
    ValueId v = -1;
    Lattices axes;
};

std::optional<Sliced> sliced(const Rewriter& r, ValueId x) {
    std::vector<ValueId> steps;
    for (; r.is(x, Op::slice) && r[x].attributes.integer(Key::axis) >= 2; x = r.arg(x)) steps.push_back(x);
    if (steps.empty()) return std::nullopt;
    Sliced result{x, {}};
    const Sizes& whole = r.shape(x);
    for (size_t axis = 2; axis < whole.size(); ++axis)
        result.axes.push_back({.in = whole[axis], .out = whole[axis], .taps = 1});
    for (size_t i = steps.size(); i-- > 0;) {
        const Attributes& of = r[steps[i]].attributes;
        const int64_t axis = of.integer(Key::axis);
        Lattice& along = result.axes[at(axis - 2)];
        along.offset += along.down * slice_bound(of.integer(Key::start), along.out);
        along.down *= of.integer(Key::step);
        along.out = r.shape(steps[i])[at(axis)];
    }
    return result;
}

ValueId lattice_of_slices(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    const bool concat = r.is(x, Op::concat) && r[x].attributes.integer(Key::axis) == 1;
    if ((!concat && !r.is(x, Op::slice)) || r.is_parameter(id) || !r.is_parameter(r.arg(id, 1)) || r.rank(id) < 3)
        return -1;
    const ValueId w = r.arg(id, 1);
    const Operands pieces = concat ? r[x].args : Operands{x};
    if (pieces.size() > 1 && r.shape(w)[0] != 1) return -1;
    const Lattices own = axes_of(r, id);
    if (has_long_taps(own)) return -1;
    ValueId v = -1;
    std::vector<Lattices> composed;
    std::vector<std::vector<std::vector<int64_t>>> position;  // of the convolution's own taps, as `tap` below
    for (const ValueId piece : pieces) {
        const std::optional<Sliced> part = sliced(r, piece);
        if (!part || (v >= 0 && part->v != v)) return -1;
        v = part->v;
        composed.emplace_back(), position.emplace_back();
        for (size_t a = 0; a < own.size(); ++a) {
            const std::optional<Composed> one = compose(part->axes[a], own[a], false);
            if (!one) return -1;
            composed.back().push_back(one->lattice);
            position.back().push_back(one->position[0]);
        }
    }
    if (r.is_parameter(v)) return -1;
    const std::optional<Aligned> common = aligned(composed);
    if (!common || has_long_taps(common->axes)) return -1;
    const Sizes in = r.shape(x), from = r.shape(v), out = r.shape(id);
    const int64_t groups = r.shape(w)[0];
    const double apart = product_flops(own, in[0], in[1], out[1], groups) +
                         (concat ? 16 * static_cast<double>(bytes(r.dtype(x))) * product(in) : 0);
    double weights = product(r.shape(w));
    for (size_t a = 0; a < own.size(); ++a)
        weights *= static_cast<double>(common->axes[a].taps) / static_cast<double>(own[a].taps);
    if (concat && !pays(r, product_flops(common->axes, from[0], from[1], out[1], groups), weights, apart)) return -1;
    ValueId sum = -1;
    int64_t row = 0;
    for (size_t i = 0; i < pieces.size(); ++i, row += from[1]) {
        ValueId part = unrounded(r, w);
        if (pieces.size() > 1)
            part = r.add(Op::slice, {part}, {{Key::axis, int64_t{1}}, {Key::start, row}, {Key::end, row + from[1]}});
        for (size_t a = 0; a < own.size(); ++a)
            for (int64_t& k : position[i][a])
                if (k >= 0) k = common->tap[i][a][at(k)];
        part = on_taps(r, part, position[i], common->axes);
        sum = sum < 0 ? part : plus(r, sum, part);
    }
    r.say(pieces.size() > 1 ? "slices of " : "a slice of ", r[v].type, " are where the convolution reads: taps ",
          Sizes(r.shape(sum).begin() + 3, r.shape(sum).end()));
    return lattice(r, v, cast(r, sum, r.dtype(w)), bias_of(r, id), common->axes);
}

// concat(R(a), R(b), …) on an axis of extent 1 = R'(concat(a, b, …)), R a rearrangement. Each firing leaves one stack
// less.
ValueId stack_of_one_input(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const int64_t axis = node.attributes.integer(Key::axis);
    if (r.is_parameter(id) || node.args.size() < 2) return -1;
    std::vector<Rearrangement> places;
    std::vector<ValueId> pieces;
    for (const ValueId arg : node.args) {
        if (!r.is(arg, Op::reshape) && !r.is(arg, Op::permute)) return -1;
        std::optional<Rearrangement> place = rearrangement(r, arg);
        if (!place || r.shape(arg)[at(axis)] != 1 || r.rank(place->of) < 3) return -1;
        if (!places.empty() && (place->axes != places[0].axes || r[place->of].type != r[places[0].of].type)) return -1;
        pieces.push_back(place->of);
        places.push_back(std::move(*place));
    }
    const ValueId one = concatenated_lattice(r, Operands(pieces.begin(), pieces.end()));
    if (one < 0) return -1;
    const Sizes from = r.shape(pieces[0]);
    const Digit which{1, from[1], static_cast<int64_t>(pieces.size())};
    std::vector<std::vector<Digit>> axes = places[0].axes;
    axes[at(axis)].push_back(which);
    r.say("a stack of ", static_cast<int64_t>(pieces.size()), " convolutions of one input is one, rearranged");
    return rearranged(r, one, axes);
}

}  // namespace

std::span<const Rule> place_rules() {
    static const std::vector<Rule> rules = {
        {"lattice_of_slices", Family::compose, {Op::lattice}, lattice_of_slices, true},
        {"stack_of_one_input", Family::compose, {Op::concat}, stack_of_one_input},
    };
    return rules;
}

}  // namespace transfuse
