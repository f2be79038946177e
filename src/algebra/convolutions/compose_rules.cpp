// Pools, upsamplings, slices and zero padding become part of the lattice next to them.
#include <algorithm>

#include "algebra/convolutions/rules.h"
#include "algebra/reductions/collapse.h"
#include "algebra/terms/border.h"
#include "algebra/terms/channelwise.h"
#include "algebra/terms/terms.h"
#include "algebra/terms/weights.h"
#include "graph/infer.h"

namespace transfuse {

namespace {

size_t at(int64_t axis) { return static_cast<size_t>(axis); }

// Two lattices of which one is depthwise, separable and the same for all channels: per axis, the other's taps are
// convolved with its kernel. 16-bit operands are composed in f32, so no weight is rounded twice.
struct Composition {
    Lattices axes;
    std::vector<std::vector<double>> matrix;  // per axis, taps of the result × taps of the kept weight
};

std::optional<Composition> composition(const Lattices& first, const Lattices& second, bool bias, const Separable& thin,
                                       bool thin_is_first) {
    Composition result;
    if (has_long_taps(first) || has_long_taps(second)) return std::nullopt;
    for (size_t a = 0; a < first.size(); ++a) {
        const std::optional<Composed> composed = compose(first[a], second[a], bias);
        if (!composed) return std::nullopt;
        const int64_t kept = thin_is_first ? second[a].taps : first[a].taps;
        std::vector<double> matrix(at(composed->lattice.taps * kept), 0.0);
        for (size_t k1 = 0; k1 < composed->position.size(); ++k1)
            for (size_t k2 = 0; k2 < composed->position[k1].size(); ++k2) {
                const int64_t position = composed->position[k1][k2];
                if (position < 0) continue;
                const size_t own = thin_is_first ? k2 : k1;
                matrix[at(position * kept) + own] += thin.kernel[a][thin_is_first ? k1 : k2];
            }
        result.axes.push_back(composed->lattice);
        result.matrix.push_back(std::move(matrix));
    }
    return result;
}

ValueId mapped_weight(Rewriter& r, ValueId w, const Composition& composition) {
    for (size_t a = 0; a < composition.axes.size(); ++a)
        w = taps(r, w, static_cast<int64_t>(a) + 3, composition.axes[a].taps, composition.matrix[a]);
    return w;
}

// Composed weights need f32. In 16 bits that costs tensor cores six products for one (three, at half the rate), except
// where a product is so thin that it runs in ordinary arithmetic. `shared`: others read what lies between the two (its
// statistics, say), so that apart it is read from memory, which takes as long as half of the flops it is stored for.
bool worth_widening(const Rewriter& r, DType narrow, ValueId w, const Lattices& apart, const Lattices& composed,
                    bool shared) {
    if (!is_sixteen_bit(narrow)) return true;
    constexpr double thin = 1400, dearer = 6;
    const auto channels = static_cast<double>(r.shape(w)[1] * r.shape(w)[2]);
    double products = channels, before = channels, work = channels, read = static_cast<double>(r.shape(w)[2]);
    for (size_t a = 0; a < composed.size(); ++a) {
        products *= static_cast<double>(composed[a].products()), before *= static_cast<double>(apart[a].products());
        work *= static_cast<double>(composed[a].taps), read *= static_cast<double>(apart[a].out);
    }
    return work <= thin || 2 * dearer * products <= 2 * before + (shared ? 0.5 * r.prices().stored_from * read : 0);
}

// What a pool makes of a constant 1 where it reads some of its window outside: an image.
ValueId pooled_one(Rewriter& r, DType dtype, const Separable& pool, const std::vector<TapClasses>& classes) {
    ValueId image = -1;
    for (size_t a = 0; a < classes.size(); ++a) {
        std::vector<double> sums;
        for (int64_t row = 0; row < classes[a].count(); ++row) {
            sums.push_back(0);
            for (size_t k = 0; k < pool.kernel[a].size(); ++k)
                sums.back() += classes[a].matrix[at(row) * pool.kernel[a].size() + k] * pool.kernel[a][k];
        }
        Sizes shape(classes.size() + 2, 1);
        shape[a + 2] = classes[a].count();
        std::vector<TapClasses> others(classes.size());
        for (TapClasses& other : others) other = {.head = 0, .period = 1, .tail = 0, .out = 1, .matrix = {}};
        others[a] = classes[a];
        const ValueId own = on_outputs(
            r,
            r.add(Op::constant, {},
                  {{Key::dtype, static_cast<int64_t>(dtype)}, {Key::shape, std::move(shape)}, {Key::values, sums}}),
            others);
        image = image < 0 ? own : times(r, image, own);
    }
    return image;
}

// The lattice y and the pool `id` behind it as one, of the type 16 bits are widened to; −1 where they are none. A bias
// that the pool's border cuts is added as an image.
ValueId composed_with_pool(Rewriter& r, ValueId y, ValueId id, const Separable& pool) {
    const Lattices first = axes_of(r, y), second = axes_of(r, id);
    const ValueId bias = bias_of(r, y);
    std::optional<double> passes = 1.0;
    if (bias >= 0) passes = gain(second, pool);
    std::optional<std::vector<TapClasses>> classes;
    if (!passes && !is_sixteen_bit(r.dtype(y))) classes = tap_classes(second);
    if (!passes && !classes) return -1;
    const std::optional<Composition> composed = composition(first, second, bias >= 0 && !classes, pool, false);
    const bool shared = r.uses(y) > 1 || (r.is(r.arg(id, 0), Op::cast) && r.uses(r.arg(id, 0)) > 1);
    if (!composed || !worth_widening(r, r.dtype(y), r.arg(y, 1), first, composed->axes, shared)) return -1;
    const DType dtype = wide(r.dtype(y));
    const ValueId x = cast(r, r.arg(y, 0), dtype);
    const ValueId w = mapped_weight(r, cast(r, r.arg(y, 1), dtype), *composed);
    if (classes) {
        Sizes along(first.size() + 2, 1);
        along[1] = r.shape(bias)[0];
        return plus(r, lattice(r, x, w, -1, composed->axes),
                    times(r, reshape(r, bias, std::move(along)), pooled_one(r, dtype, pool, *classes)));
    }
    const ValueId vector = bias < 0 ? -1 : scaled(r, cast(r, bias, dtype), *passes);
    return lattice(r, x, w, vector, composed->axes);
}

Sizes kernel_of(const Rewriter& r, ValueId w) { return Sizes(r.shape(w).begin() + 3, r.shape(w).end()); }

// pool(lattice(x, w, b)) = lattice(x, w * pool, b·gain), also where 16-bit results were widened on the way to the pool
ValueId pool_after_lattice(Rewriter& r, ValueId id) {
    ValueId y = r.arg(id, 0);
    if (r.is(y, Op::cast) && is_sixteen_bit(r.dtype(r.arg(y)))) y = r.arg(y);
    if (!r.is(y, Op::lattice) || bias_of(r, id) >= 0) return -1;
    const std::optional<Separable> pool = separable(r, id);
    if (!pool) return -1;
    const DType dtype = r.dtype(id);
    const ValueId result = composed_with_pool(r, y, id, *pool);
    if (result < 0) return -1;
    r.say("the pool after ", r[y].type, " becomes part of the convolution: taps ",
          kernel_of(r, r.arg(channelwise(r, result).y, 1)));
    return cast(r, result, dtype);
}

ValueId lattice_after_pool(Rewriter& r, ValueId id) { return separable(r, id) ? -1 : lattice_with_resampling(r, id); }

// A pool's weight in another type.
ValueId pool_weight(Rewriter& r, ValueId w, const Separable& pool, DType dtype) {
    return pool.literal ? full(r, dtype, r.shape(w), *number(r, w)) : cast(r, w, dtype);
}

// pool(u·s + t) = pool(u)·s + t·gain for s, t constant along space: on fewer elements.
ValueId pool_of_affine(Rewriter& r, ValueId id) {
    const ValueId y = r.arg(id);
    const Op op = r.op(y);
    if ((op != Op::mul && op != Op::add && op != Op::sub && op != Op::div) || bias_of(r, id) >= 0) return -1;
    if (is_sixteen_bit(r.dtype(id))) return -1;  // each step rounds, and the pool would no longer average the roundings
    const std::optional<Separable> pool = separable(r, id);
    if (!pool) return -1;
    const Node node = r[id], inner = r[y];
    const Lattices axes = axes_of(r, id);
    for (size_t side = 0; side < 2; ++side) {
        if (op == Op::div && side == 1) break;
        const ValueId u = inner.args[side];
        ValueId other = inner.args[1 - side];
        if (r[u].type != inner.type || !constant_along(r, other, inner.type.rank(), spatial_axes(inner.type.rank())))
            continue;
        if (op == Op::add || op == Op::sub) {
            const std::optional<double> passes = gain(axes, *pool);
            if (!passes) return -1;
            if (op == Op::sub && side == 0 && is_own_mean(r, u, other)) {
                const Sizes dims = r[other].attributes.integers(Key::dims);
                if (const ValueId exact = collapsed_mean(r, u, dims); exact >= 0) other = exact;
            }
            other = scaled(r, other, *passes);
        }
        const ValueId pooled = lattice(r, u, node.args[1], -1, axes);
        r.say("a per-channel ", name(op), " moves behind the pool");
        return side == 0 ? binary(r, op, pooled, other) : binary(r, op, other, pooled);
    }
    return -1;
}

// In 16 bits each step of a chain rounds, and a pool that comes first would not average the roundings: the whole chain
// from the convolution to the pool is made in f32, and rounded once.
ValueId pool_of_narrow_affine(Rewriter& r, ValueId id) {
    const DType narrow = r.dtype(id), dtype = wide(narrow);
    if (dtype == narrow || bias_of(r, id) >= 0 || r.is(r.arg(id), Op::lattice)) return -1;
    const std::optional<Separable> pool = separable(r, id);
    if (!pool) return -1;
    const Sizes space = spatial_axes(r.rank(id));
    struct Affine {
        Op op;
        ValueId other;
        bool left;
    };
    std::vector<Affine> steps;
    ValueId y = r.arg(id);
    for (; !r.is(y, Op::lattice); y = r.arg(y, steps.back().left ? 0 : 1)) {
        const Op op = r.op(y);
        if (op != Op::mul && op != Op::add && op != Op::sub && op != Op::div) return -1;
        const bool left = r[r.arg(y)].type == r[y].type && constant_along(r, r.arg(y, 1), r.rank(y), space);
        if (!left &&
            (op == Op::div || r[r.arg(y, 1)].type != r[y].type || !constant_along(r, r.arg(y), r.rank(y), space)))
            return -1;
        steps.push_back({op, r.arg(y, left ? 1 : 0), left});
    }
    const std::optional<double> passes = gain(axes_of(r, id), *pool);
    const ValueId composed = passes && !separable(r, y) ? composed_with_pool(r, y, id, *pool) : -1;
    if (composed < 0) return -1;
    ValueId result = composed;
    for (size_t i = steps.size(); i-- > 0;) {
        const auto& [op, operand, left] = steps[i];
        ValueId other = r.is(operand, Op::scalar) ? operand : cast(r, operand, dtype);
        if (op == Op::add || op == Op::sub) other = scaled(r, other, *passes);
        result = left ? binary(r, op, result, other) : binary(r, op, other, result);
    }
    r.say("the pool and ", static_cast<int64_t>(steps.size()), " scales and shifts after ", r[y].type, " in f32: taps ",
          kernel_of(r, r.arg(composed, 1)));
    return cast(r, result, narrow);
}

// Pool first, round to 16 bits afterwards.
ValueId pool_before_cast(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    if (!r.is(x, Op::cast) || bytes(r.dtype(x)) >= bytes(r.dtype(r.arg(x)))) return -1;
    const std::optional<Separable> pool = separable(r, id);
    if (!pool || bias_of(r, id) >= 0) return -1;
    const DType narrow = r.dtype(id), wider = r.dtype(r.arg(x));
    const Lattices axes = axes_of(r, id);
    const ValueId w = r.arg(id, 1), v = r.arg(x);
    r.say("the pool before the cast to ", name(narrow));
    return cast(r, lattice(r, v, pool_weight(r, w, *pool, wider), -1, axes), narrow);
}

// lattice(pad(x)): padding with zeros is what the lattice does anyway. i' = i + start.
ValueId pad_before_lattice(Rewriter& r, ValueId id) {
    if (!r.is(r.arg(id), Op::pad) || r[r.arg(id)].attributes.number(Key::value) != 0) return -1;
    const Node node = r[id], pad = r[node.args[0]];
    const Sizes &start = pad.attributes.integers(Key::start), &end = pad.attributes.integers(Key::end);
    for (size_t axis = 0; axis < start.size(); ++axis)
        if (start[axis] < 0 || end[axis] < 0 || (axis < 2 && (start[axis] != 0 || end[axis] != 0))) return -1;
    Lattices axes = axes_of(r, id);
    for (size_t a = 0; a < axes.size(); ++a) {
        axes[a].offset -= axes[a].up * start[a + 2];
        axes[a].in = r.shape(pad.args[0])[a + 2];
    }
    r.say("zero padding ", pad.type, " is the lattice's own");
    return lattice(r, pad.args[0], node.args[1], bias_of(r, id), axes);
}

}  // namespace

// y[start : end : step] of a spatial axis: down·(start + step·o') + offset = up·i + dil·k. Channels: rows of w. Batch:
// of x.
ValueId slice_of_lattice(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const ValueId y = node.args[0];
    if (!r.is(y, Op::lattice)) return -1;
    const int64_t axis = node.attributes.integer(Key::axis), step = node.attributes.integer(Key::step);
    const int64_t start = slice_bound(node.attributes.integer(Key::start), r.shape(y)[at(axis)]);
    const int64_t extent = node.type.shape[at(axis)];
    if (extent == 0) return -1;
    Lattices axes = axes_of(r, y);
    if (has_long_taps(axes)) return -1;
    ValueId x = r.arg(y, 0), w = r.arg(y, 1), bias = bias_of(r, y);
    auto sliced = [&](ValueId value, int64_t along) {
        return r.add(
            Op::slice, {value},
            {{Key::axis, along}, {Key::start, start}, {Key::end, start + (extent - 1) * step + 1}, {Key::step, step}});
    };
    if (axis == 0) {
        x = sliced(x, 0);
    } else if (axis == 1) {
        if (r.shape(w)[0] != 1) return -1;
        w = sliced(w, 2);
        if (bias >= 0) bias = sliced(bias, 0);
    } else {
        Lattice& l = axes[at(axis - 2)];
        l.offset += l.down * start;
        l.down *= step;
        l.out = extent;
        const Reduced reduced = reduce(l);
        std::vector<double> matrix(reduced.kept.size() * at(l.taps), 0.0);
        for (size_t j = 0; j < reduced.kept.size(); ++j) matrix[j * at(l.taps) + at(reduced.kept[j])] = 1;
        w = taps(r, w, axis + 1, reduced.lattice.taps, std::move(matrix));
        l = reduced.lattice;
    }
    r.say("only the slice of ", r[y].type, " on axis ", axis, " is computed");
    return lattice(r, x, w, bias, axes);
}

// lattice(s·upsample(x) + t, w, b) = lattice(x, s·w * upsample, b) + lattice(t, w)
ValueId lattice_with_resampling(Rewriter& r, ValueId id) {
    if (const std::optional<Separable> pool = separable(r, id); pool && bias_of(r, id) < 0) {
        const ValueId y = r.arg(id);
        return r.is(y, Op::lattice) && !separable(r, y) && !is_sixteen_bit(r.dtype(id))
                   ? composed_with_pool(r, y, id, *pool)
                   : -1;
    }
    const Channelwise chain = channelwise(r, r.arg(id));
    const ValueId y = chain.y;
    if (!r.is(y, Op::lattice) || r.dtype(y) != r.dtype(id)) return -1;
    const std::optional<Separable> pool = separable(r, y);
    if (!pool || (y != r.arg(id) && !r.is_parameter(r.arg(id, 1)))) return -1;
    const Lattices after = axes_of(r, id);
    const std::optional<Composition> composed = composition(axes_of(r, y), after, false, *pool, true);
    if (!composed || !worth_widening(r, r.dtype(y), r.arg(id, 1), after, composed->axes, false)) return -1;
    std::optional<std::vector<TapClasses>> classes;
    if (has_shift(r, chain) && !(classes = tap_classes(after))) return -1;
    const Type type = r[id].type;
    const DType dtype = wide(type.dtype);
    const ValueId x = cast(r, r.arg(y, 0), dtype), bias = bias_of(r, id), second = unrounded(r, r.arg(id, 1));
    const ScaleAndShift between = scale_and_shift(r, chain);
    ValueId w = second;
    if (between.scale >= 0) w = times(r, w, against_weight(r, between.scale, w, false));
    w = mapped_weight(r, w, *composed);
    ValueId made = -1;
    if (between.shift < 0) {
        made = lattice(r, x, w, bias, composed->axes);
    } else {
        const ValueId through = by_class(r, vector_through(r, between.shift, second), *classes);
        made = biased_lattice(r, x, w, bias, composed->axes, through, *classes);
    }
    if (between.image >= 0) made = plus_image(r, made, lattice(r, between.image, second, -1, after));
    r.say("what resamples ", r[y].type, " before the convolution becomes part of it: taps ", kernel_of(r, w));
    return cast(r, made, type.dtype);
}

std::span<const Rule> compose_rules() {
    static const std::vector<Rule> rules = {
        {"pool_after_lattice", Family::compose, {Op::lattice}, pool_after_lattice},
        {"lattice_after_pool", Family::compose, {Op::lattice}, lattice_after_pool},
        {"pool_of_narrow_affine", Family::compose, {Op::lattice}, pool_of_narrow_affine},
        {"pool_of_affine", Family::compose, {Op::lattice}, pool_of_affine},
        {"pool_before_cast", Family::compose, {Op::lattice}, pool_before_cast, true},
        {"slice_of_lattice", Family::compose, {Op::slice}, slice_of_lattice},
        {"pad_before_lattice", Family::compose, {Op::lattice}, pad_before_lattice},
    };
    return rules;
}

}  // namespace transfuse
