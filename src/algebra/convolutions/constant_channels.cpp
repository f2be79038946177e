// Input channels that do not vary over the image are taken out of the product:
//
//     A(concat(x, e)) = A₁(x) + e·(Σ of the taps of A₂ that an output meets),      e the same on all inputs
//
// with one value for each class of outputs that meet the same taps (border.h): a bias of one value a channel where all
// meet all of them, else a few values at borders. Zeros are left out. Channels of parameters that are the same for all
// samples, as coordinates are, become an image that is made with the weights and added.
#include <algorithm>

#include "algebra/convolutions/rules.h"
#include "algebra/terms/border.h"
#include "algebra/terms/channelwise.h"
#include "algebra/terms/terms.h"
#include "algebra/terms/weights.h"

namespace transfuse {

namespace {

// What v repeats over the image, [N or 1, C, 1…]; −1 where it varies there.
ValueId repeated(Rewriter& r, ValueId v) {
    const auto rank = r.rank(v);
    const Sizes shape = r.shape(v);
    if (r.is(v, Op::full)) {
        Sizes one(shape.size(), 1);
        one[1] = shape[1];
        return full(r, r.dtype(v), std::move(one), *number(r, v));
    }
    if (!r.is(v, Op::expand) || !constant_along(r, r.arg(v), rank, spatial_axes(rank))) return -1;
    Sizes own(shape.size(), 1), whole(shape.size(), 1);
    for (const int64_t axis : {0, 1}) own[static_cast<size_t>(axis)] = extent_on(r, r.arg(v), rank, axis);
    whole[0] = own[0], whole[1] = shape[1];
    return expand(r, reshape(r, r.arg(v), std::move(own)), std::move(whole));
}

// What parameters v is made of, the same for all samples: [1, C, S…]; −1 where it is no such image.
ValueId fixed_image(Rewriter& r, ValueId v) {
    Sizes one = r.shape(v);
    const bool repeats = r.is(v, Op::expand) && extent_on(r, r.arg(v), r.rank(v), 0) == 1;
    if (!r.is_parameter(v) || (one[0] != 1 && !repeats)) return -1;
    one[0] = 1;
    return repeats ? expand(r, r.arg(v), std::move(one)) : v;
}

bool is_zero(const Rewriter& r, ValueId v) { return number(r, v) == 0.0; }

ValueId channels(Rewriter& r, ValueId w, int64_t from, int64_t to) {
    if (from == 0 && to == r.shape(w)[1]) return w;
    return r.add(Op::slice, {w}, {{Key::axis, int64_t{1}}, {Key::start, from}, {Key::end, to}});
}

ValueId joined(Rewriter& r, const std::vector<ValueId>& pieces) {
    return pieces.size() == 1 ? pieces[0] : r.add(Op::concat, pieces, {{Key::axis, int64_t{1}}});
}

ValueId constant_channels(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const ValueId x = node.args[0], w = node.args[1];
    if (r.is_parameter(id) || r.shape(w)[0] != 1 || r.rank(id) < 3) return -1;
    const bool concat = r.is(x, Op::concat) && r[x].attributes.integer(Key::axis) == 1;
    const Operands pieces = concat ? r[x].args : Operands{x};
    const auto constant = [&](ValueId v) {
        return r.dtype(v) == node.type.dtype &&
               (r.is(v, Op::full) ||
                (r.is(v, Op::expand) && constant_along(r, r.arg(v), r.rank(v), spatial_axes(r.rank(v)))));
    };
    // Of 16 bits what is not a bias would be added after the product was rounded.
    const bool narrow = is_sixteen_bit(node.type.dtype), with_weights = r.is_parameter(w) && !narrow;
    const auto fixed = [&](ValueId v) { return r.is_parameter(v) && with_weights ? fixed_image(r, v) : -1; };
    if (std::none_of(pieces.begin(), pieces.end(), [&](ValueId v) { return constant(v) || fixed(v) >= 0; })) return -1;
    const Lattices axes = axes_of(r, id);
    if (has_long_taps(axes)) return -1;
    const std::optional<std::vector<TapClasses>> classes = tap_classes(axes);
    if (!classes) return -1;

    std::vector<ValueId> varying, weights, constants, their_weights, images, weights_of_images;
    int64_t from = 0, batch = 1;
    bool parameters = r.is_parameter(w);
    for (const ValueId piece : pieces) {
        const int64_t to = from + r.shape(piece)[1];
        if (const ValueId image = constant(piece) ? -1 : fixed(piece); image >= 0) {
            images.push_back(image);
            weights_of_images.push_back(channels(r, w, from, to));
        } else if (!constant(piece)) {
            varying.push_back(piece);
            weights.push_back(channels(r, w, from, to));
        } else if (const ValueId e = repeated(r, piece); !is_zero(r, e)) {
            constants.push_back(e);
            their_weights.push_back(channels(r, w, from, to));
            batch = std::max(batch, r.shape(e)[0]);
            parameters = parameters && r.is_parameter(e);
        }
        from = to;
    }
    const ValueId bias = bias_of(r, id);
    const DType dtype = node.type.dtype;
    const bool single = std::all_of(classes->begin(), classes->end(), [](const auto& c) { return c.single(); });
    if (narrow && !constants.empty() && !(parameters && batch == 1 && single)) return -1;
    if (std::any_of(constants.begin(), constants.end(), [&](ValueId e) { return r.shape(e)[0] != batch; })) {
        for (ValueId& e : constants) {
            Sizes shape = r.shape(e);
            shape[0] = batch;
            e = expand(r, e, std::move(shape));
        }
    }
    ValueId u = -1;  // [batch, Cout, classes…]
    if (!constants.empty()) {
        const ValueId e = joined(r, constants);
        ValueId v = unrounded(r, joined(r, their_weights));
        Sizes shape = {batch, node.type.shape[1]};
        for (size_t a = 0; a < classes->size(); ++a) {  // of weights alone, so that one product gives all classes
            const TapClasses& here = (*classes)[a];
            v = taps(r, v, static_cast<int64_t>(a) + 3, here.count(), here.matrix);
            shape.push_back(here.count());
        }
        u = reshape(r, matrix_product(r, unrounded(r, e), v, batch, 1), std::move(shape));
    }
    const ValueId image = images.empty() ? -1 : lattice(r, joined(r, images), joined(r, weights_of_images), -1, axes);
    const std::string_view become = image >= 0 ? "an image" : single ? "a bias" : "a bias and a border";
    r.say("channels of ", r[x].type, " that do not vary over ", image >= 0 ? "samples" : "the image", " are ", become);
    if (varying.empty()) {
        Sizes along(node.type.shape.size(), 1);
        along[1] = node.type.shape[1];
        const DType wider = wide(dtype);
        const bool zero = u < 0;  // on all outputs
        if (zero) u = full(r, wider, along, 0);
        if (bias >= 0) u = plus(r, u, reshape(r, cast(r, bias, wider), std::move(along)));
        if (!zero) u = parameters ? on_outputs(r, u, *classes) : chosen_on_outputs(r, u, *classes);
        if (image >= 0) u = plus(r, u, image);
        return expand(r, cast(r, u, dtype), node.type.shape);
    }
    const ValueId rest = joined(r, varying), own = joined(r, weights);
    ValueId made = -1;
    if (u < 0)
        made = lattice(r, rest, own, bias, axes);
    else if (!parameters)
        made = plus(r, lattice(r, rest, own, bias, axes), cast(r, chosen_on_outputs(r, u, *classes), dtype));
    else if (batch == 1)
        made = biased_lattice(r, rest, own, bias, axes, u, *classes);
    return made < 0 || image < 0 ? made : plus_image(r, made, image);
}

}  // namespace

ValueId lattice_of_repeated(Rewriter& r, ValueId id) {
    if (!r.is(r.arg(id), Op::expand)) return -1;
    ValueId made = constant_channels(r, id);
    if (made < 0) made = lattice_on_constant_axes(r, id);
    return made >= 0 && r.is(made, Op::expand) ? r.arg(made) : made;
}

std::span<const Rule> constant_channel_rules() {
    static const std::vector<Rule> rules = {
        {"constant_channels", Family::compose, {Op::lattice}, constant_channels},
    };
    return rules;
}

}  // namespace transfuse
