// A constant t in the place of an input gives y[o] = t·Σ w[k] over the taps k that o meets an input inside through.
// Along an axis these taps depend on the residue of o modulo the period (its phase) alone, but for outputs near either
// end.
#include "algebra/terms/border.h"

#include <algorithm>

#include "algebra/lattice/integer.h"
#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

constexpr int64_t most_classes = 64;

ValueId sliced(Rewriter& r, ValueId value, int64_t axis, int64_t start, int64_t end) {
    if (start == 0 && end == r.shape(value)[at(axis)]) return value;
    return r.add(Op::slice, {value}, {{Key::axis, axis}, {Key::start, start}, {Key::end, end}});
}

// Classes along an axis put on its outputs: head, the period again and again, tail.
ValueId spread(Rewriter& r, ValueId u, int64_t axis, const TapClasses& classes) {
    const int64_t between = classes.out - classes.head - classes.tail, from = classes.head,
                  to = classes.head + classes.period;
    std::vector<ValueId> pieces;
    if (classes.head > 0) pieces.push_back(sliced(r, u, axis, 0, from));
    if (between > 0) {
        ValueId body = sliced(r, u, axis, from, to);
        Sizes split = r.shape(body), joined = with_extent(split, axis, between);
        split.insert(split.begin() + axis, 1);
        body = expand(r, reshape(r, body, split), with_extent(split, axis, between / classes.period));
        pieces.push_back(reshape(r, body, std::move(joined)));
    }
    if (classes.tail > 0) pieces.push_back(sliced(r, u, axis, to, to + classes.tail));
    if (pieces.size() == 1) return pieces[0];
    return r.add(Op::concat, Operands(pieces.begin(), pieces.end()), {{Key::axis, axis}});
}

}  // namespace

std::optional<TapClasses> tap_classes(const Lattice& axis) {
    if (axis.out < 1 || axis.in < 1) return std::nullopt;
    TapClasses result;
    result.out = axis.out;
    result.period = axis.period();
    if (result.period > most_classes) return std::nullopt;
    // The last output with a tap that reads before the input, and the first with one that reads behind it.
    int64_t last_before = -1, first_behind = axis.out;
    for (int64_t k = 0; k < axis.taps; ++k) {
        const auto reads = [&](int64_t o) {
            return floor_mod(axis.down * o + axis.offset - axis.dil * k, axis.up) == 0;
        };
        int64_t before = std::min(floor_div(axis.dil * k - axis.offset - 1, axis.down), axis.out - 1);
        for (int64_t tries = 0; before > last_before && tries < result.period && !reads(before); ++tries) --before;
        if (before > last_before && reads(before)) last_before = before;
        int64_t behind = std::max<int64_t>(ceil_div(axis.up * axis.in + axis.dil * k - axis.offset, axis.down), 0);
        for (int64_t tries = 0; behind < first_behind && tries < result.period && !reads(behind); ++tries) ++behind;
        if (behind < first_behind && reads(behind)) first_behind = behind;
    }
    result.head = last_before + 1;
    const int64_t between = first_behind - result.head;
    if (between < result.period) {
        result.head = axis.out;
        result.period = result.tail = 0;
    } else {
        result.tail = axis.out - first_behind + between % result.period;
    }
    if (result.count() > most_classes) return std::nullopt;
    result.matrix.assign(at(result.count() * axis.taps), 0.0);
    for (int64_t row = 0; row < result.count(); ++row) {
        const int64_t o = row < result.head + result.period ? row : axis.out - result.count() + row;
        for (int64_t k = 0; k < axis.taps; ++k)
            if (axis.input(o, k)) result.matrix[at(row * axis.taps + k)] = 1;
    }
    return result;
}

std::optional<std::vector<TapClasses>> tap_classes(const Lattices& axes) {
    std::vector<TapClasses> classes;
    for (const Lattice& axis : axes) {
        const std::optional<TapClasses> here = tap_classes(axis);
        if (!here) return std::nullopt;
        classes.push_back(*here);
    }
    return classes;
}

ValueId by_class(Rewriter& r, ValueId v, const std::vector<TapClasses>& classes) {
    for (size_t a = 0; a < classes.size(); ++a)
        v = taps(r, v, static_cast<int64_t>(a) + 2, classes[a].count(), classes[a].matrix);
    return v;
}

ValueId on_outputs(Rewriter& r, ValueId u, const std::vector<TapClasses>& classes) {
    for (size_t a = 0; a < classes.size(); ++a)
        if (!classes[a].single()) u = spread(r, u, static_cast<int64_t>(a) + 2, classes[a]);
    return u;
}

ValueId chosen_on_outputs(Rewriter& r, ValueId u, const std::vector<TapClasses>& classes) {
    for (size_t a = classes.size(); a-- > 0;) {
        const int64_t axis = static_cast<int64_t>(a) + 2, count = classes[a].count();
        if (count == 1) continue;
        Sizes along(classes.size() + 2, 1);
        ValueId chosen = -1;
        for (int64_t row = 0; row < count; ++row) {
            const ValueId own = sliced(r, u, axis, row, row + 1);
            if (chosen < 0) {
                chosen = own;
                continue;
            }
            std::vector<double> unit(at(count), 0.0);
            unit[at(row)] = 1;
            const ValueId mask = spread(r,
                                        r.add(Op::constant, {},
                                              {{Key::dtype, static_cast<int64_t>(r.dtype(u))},
                                               {Key::shape, with_extent(along, axis, count)},
                                               {Key::values, std::move(unit)}}),
                                        axis, classes[a]);
            chosen = r.add(Op::select, {mask, own, chosen});
        }
        u = chosen;
    }
    return u;
}

ValueId biased_lattice(Rewriter& r, ValueId x, ValueId w, ValueId bias, const Lattices& axes, ValueId u,
                       const std::vector<TapClasses>& classes) {
    const DType dtype = r.dtype(x);
    const int64_t channels = r.shape(u)[1];
    const auto with = [&](ValueId more) {
        const ValueId vector = reshape(r, more, {channels});
        return bias < 0 ? vector : plus(r, cast(r, bias, r.dtype(vector)), vector);
    };
    if (numel(r.shape(u)) == channels) return lattice(r, x, w, with(u), axes);
    if (is_sixteen_bit(dtype)) {
        ValueId usual = u;
        for (size_t a = 0; a < classes.size(); ++a) {
            if (classes[a].period != 1) return -1;
            usual = sliced(r, usual, static_cast<int64_t>(a) + 2, classes[a].head, classes[a].head + 1);
        }
        bias = with(usual);
        u = minus(r, u, usual);
    }
    return plus(r, lattice(r, x, w, bias, axes), cast(r, on_outputs(r, u, classes), dtype));
}

}  // namespace transfuse
