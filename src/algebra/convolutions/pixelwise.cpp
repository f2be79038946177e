// A convolution of single pixels commutes with what resamples all channels alike, and is done where pixels are fewer,
// or channels of as many pixels:
//
//     U(B(x) + b) = B(U(x)) + b·gain        B(m·U(x)) = m·U(B(x))        m the same for all channels
//
// It commutes with any rearrangement of pixels, too, and goes before it where it is one with the convolution there.
#include <algorithm>

#include "algebra/convolutions/rules.h"
#include "algebra/terms/channelwise.h"
#include "algebra/terms/rearrangement.h"
#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

bool is_pixelwise(const Rewriter& r, ValueId id) {
    if (!r.is(id, Op::lattice) || r.is_parameter(id) || !r.is_parameter(r.arg(id, 1)) || separable(r, id)) return false;
    const Lattices axes = axes_of(r, id);
    return std::all_of(axes.begin(), axes.end(), [](const Lattice& axis) {
        return axis.up == 1 && axis.down == 1 && axis.taps == 1 && axis.offset == 0 && axis.in == axis.out;
    });
}

Lattices pixels(const Sizes& shape) {
    Lattices axes;
    for (size_t axis = 2; axis < shape.size(); ++axis) axes.push_back({.in = shape[axis], .out = shape[axis]});
    return axes;
}

double stored(DType dtype, const Sizes& shape) { return 16 * static_cast<double>(bytes(dtype)) * product(shape); }

ValueId pixelwise_behind(Rewriter& r, ValueId id) {
    const ValueId y = r.arg(id);
    if (bias_of(r, id) >= 0 || !is_pixelwise(r, y) || r.uses(y) != 1) return -1;
    const std::optional<Separable> kernel = separable(r, id);
    if (!kernel || product(r.shape(id)) >= product(r.shape(y))) return -1;
    const ValueId x = r.arg(y), w = r.arg(y, 1), bias = bias_of(r, y);
    const std::optional<double> passes = bias < 0 ? 1.0 : gain(axes_of(r, id), *kernel);
    if (!passes) return -1;
    const Lattices axes = axes_of(r, id);
    const Sizes in = r.shape(x), middle = r.shape(y);
    Sizes fewer = r.shape(id);
    fewer[1] = in[1];
    const int64_t groups = r.shape(w)[0];
    const double apart = product_flops(pixels(middle), in[0], in[1], middle[1], groups);
    const double together = product_flops(axes, in[0], in[1], in[1], in[1]) + stored(r.dtype(id), fewer) +
                            product_flops(pixels(fewer), in[0], in[1], middle[1], groups);
    if (!pays(r, together, 0, apart)) return -1;
    const DType dtype = wide(r.dtype(y));
    const ValueId vector = bias < 0 ? -1 : scaled(r, cast(r, bias, dtype), *passes);
    r.say("a convolution of the pixels of ", r[y].type, " behind the pool of its input");
    return lattice(r, resampled(r, x, kernel->kernel, axes), w, vector, pixels(fewer));
}

ValueId pixelwise_of_rearranged(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    if (!(r.is(x, Op::permute) || r.is(x, Op::reshape)) || !is_pixelwise(r, id)) return -1;
    const std::optional<Rearrangement> places = rearrangement(r, x);
    if (!places || r.rank(places->of) < 3 || r.uses(x) != 1) return -1;
    const ValueId v = places->of;
    const Sizes from = r.shape(v), w = r.shape(r.arg(id, 1));
    if (from[1] < 2 || places->axes[1] != std::vector<Digit>{{1, 1, from[1]}}) return -1;
    if (!r.is(channelwise(r, v).y, Op::lattice)) return -1;
    const bool alone = channelwise(r, v).alone;
    Sizes along = {w[0], w[1], w[2]}, shape = from;
    along.resize(from.size() + 1, 1);
    shape[1] = r.shape(id)[1];
    std::vector<std::vector<Digit>> axes = places->axes;
    axes[1] = {{1, 1, shape[1]}};
    const ValueId made = lattice(r, v, reshape(r, r.arg(id, 1), std::move(along)), bias_of(r, id), pixels(shape));
    const ValueId one = lattice_in_sequence(r, made, alone);
    if (one < 0) return -1;
    r.say("a convolution of the pixels of ", r[v].type, " is one with that before they are rearranged");
    return rearranged(r, one, axes);
}

}  // namespace

ValueId pixelwise_before(Rewriter& r, ValueId id) {
    if (!is_pixelwise(r, id)) return -1;
    const DType dtype = r.dtype(id);
    const int64_t rank = r.rank(id);
    ValueId y = r.arg(id);
    const bool widened = r.is(y, Op::cast);
    const auto alone = [&](ValueId v) { return v == r.arg(id) || r.uses(v) == 1; };
    if (widened) y = r.arg(y);
    std::vector<ValueId> factors;
    for (; r.is(y, Op::mul) && alone(y); y = r.arg(y)) {
        if (r[r.arg(y)].type != r[y].type || !constant_along(r, r.arg(y, 1), rank, {0, 1})) return -1;
        factors.push_back(r.arg(y, 1));
    }
    if (!r.is(y, Op::lattice) || !alone(y) || bias_of(r, y) >= 0) return -1;
    const std::optional<Separable> kernel = separable(r, y);
    ValueId x = r.arg(y);
    const bool fewer_pixels = product(r.shape(x)) < product(r.shape(y));
    const bool fewer_channels = product(r.shape(x)) == product(r.shape(y)) && r.shape(id)[1] < r.shape(x)[1];
    if (!kernel || (!fewer_pixels && !fewer_channels)) return -1;
    if (r.dtype(x) != dtype && r.is(x, Op::cast)) x = r.arg(x);
    if (r.dtype(x) != dtype || r.is_parameter(x)) return -1;
    const Lattices axes = axes_of(r, y);
    const Sizes in = r.shape(x), out = r.shape(id);
    Sizes fewer = in;
    fewer[1] = out[1];
    const int64_t groups = r.shape(r.arg(id, 1))[0];
    double apart =
        product_flops(pixels(out), in[0], in[1], out[1], groups) + (factors.empty() ? 0 : stored(dtype, r.shape(y)));
    if (!fewer_pixels) apart += product_flops(axes, in[0], in[1], in[1], in[1]) + stored(dtype, r.shape(y));
    const double together = product_flops(axes, in[0], out[1], out[1], out[1]) + stored(dtype, fewer) +
                            product_flops(pixels(in), in[0], in[1], out[1], groups);
    if (!pays(r, together, 0, apart)) return -1;
    const ValueId bias = bias_of(r, id);
    const std::optional<double> passes = factors.empty() && !widened ? gain(axes, *kernel) : std::nullopt;
    const bool early = bias >= 0 && passes && *passes == 1;
    const ValueId made = lattice(r, x, r.arg(id, 1), early ? bias : -1, pixels(in));
    ValueId result = resampled(r, cast(r, made, r.dtype(y)), kernel->kernel, axes);
    for (size_t i = factors.size(); i-- > 0;) result = times(r, result, factors[i]);
    if (bias >= 0 && !early) {
        Sizes along(out.size(), 1);
        along[1] = out[1];
        result = plus(r, result, cast(r, reshape(r, bias, std::move(along)), r.dtype(result)));
    }
    r.say("a convolution of the pixels of ", r[r.arg(id)].type, " before ",
          fewer_pixels ? "they become more" : "they are pooled, of fewer channels");
    return cast(r, result, dtype);
}

std::span<const Rule> pixelwise_rules() {
    static const std::vector<Rule> rules = {
        {"pixelwise_behind", Family::compose, {Op::lattice}, pixelwise_behind},
        {"pixelwise_before",
         Family::compose,
         {Op::lattice},
         [](Rewriter& r, ValueId id) { return r.uses(r.arg(id)) == 1 ? pixelwise_before(r, id) : -1; }},
        {"pixelwise_of_rearranged", Family::compose, {Op::lattice}, pixelwise_of_rearranged},
    };
    return rules;
}

}  // namespace transfuse
