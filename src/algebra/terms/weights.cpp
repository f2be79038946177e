#include "algebra/terms/weights.h"

#include <algorithm>

#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

int64_t taps_of(const Sizes& w) { return numel(Sizes(w.begin() + 3, w.end())); }

}  // namespace

ValueId unrounded(Rewriter& r, ValueId w) {
    if (r.is(w, Op::cast) && is_sixteen_bit(r.dtype(w)) && r.dtype(r.arg(w)) == DType::f32) return r.arg(w);
    return cast(r, w, wide(r.dtype(w)));
}

ValueId against_weight(Rewriter& r, ValueId vector, ValueId w, bool output_channels) {
    if (r.rank(vector) == 0) return vector;
    Sizes shape(r.shape(w).size(), 1);
    const int64_t groups = r.shape(w)[0];
    shape[0] = groups;
    shape[output_channels ? 2 : 1] = r.shape(vector)[0] / groups;
    return reshape(r, vector, std::move(shape));
}

ValueId matrix_product(Rewriter& r, ValueId x, ValueId w, int64_t rows, int64_t groups) {
    const int64_t between = numel(r.shape(x)) / (rows * groups), columns = numel(r.shape(w)) / (groups * between);
    return lattice(r, reshape(r, x, {rows, groups * between, 1}), reshape(r, w, {groups, between, columns, 1}), -1,
                   {Lattice{}});
}

double products_in_sequence(const Sizes& first, const Sizes& second) {
    return static_cast<double>(first[1] * taps_of(first)) * product(second);
}

// As matrices: rows (c, k₁), columns m; times rows m, columns (o, k₂), in the groups of the finer of both. Then
// [c, k₁…, g, r, o, k₂…], r the finer groups in a coarser one: with several in the first they are input channels, in
// the second output channels. At last the taps of each axis are brought together.
ValueId weights_in_sequence(Rewriter& r, ValueId first, ValueId second, const Positions& position, const Sizes& taps_) {
    const Sizes a = r.shape(first), b = r.shape(second);
    const auto d = static_cast<int64_t>(a.size()) - 3;
    const int64_t fine = std::max(a[0], b[0]), coarse = std::min(a[0], b[0]), apart = fine / coarse;
    Sizes order = {1};
    for (int64_t axis = 0; axis < d; ++axis) order.push_back(axis + 3);
    order.push_back(0), order.push_back(2);
    const ValueId rows = permute(r, first, std::move(order));
    const ValueId made = matrix_product(r, rows, second, a[1] * taps_of(a), fine);
    Sizes shape = {a[1]};
    shape.insert(shape.end(), a.begin() + 3, a.end());
    shape.push_back(coarse), shape.push_back(apart), shape.push_back(b[2]);
    shape.insert(shape.end(), b.begin() + 3, b.end());
    const int64_t g = d + 1, part = d + 2, o = d + 3;
    order = a[0] > b[0] ? Sizes{g, part, 0, o} : Sizes{g, 0, part, o};
    for (int64_t axis = 0; axis < d; ++axis) order.push_back(axis + 1), order.push_back(axis + 4 + d);
    ValueId w = permute(r, reshape(r, made, std::move(shape)), std::move(order));
    shape = {coarse, a[1] * (a[0] > b[0] ? apart : 1), b[2] * (a[0] > b[0] ? 1 : apart)};
    for (size_t axis = 0; axis < at(d); ++axis) shape.push_back(a[axis + 3] * b[axis + 3]);
    w = reshape(r, w, std::move(shape));
    for (size_t axis = 0; axis < at(d); ++axis) {
        const int64_t pairs = a[axis + 3] * b[axis + 3];
        std::vector<double> matrix(at(taps_[axis] * pairs), 0.0);
        for (int64_t k1 = 0; k1 < a[axis + 3]; ++k1)
            for (int64_t k2 = 0; k2 < b[axis + 3]; ++k2)
                if (const int64_t k = position[axis][at(k1)][at(k2)]; k >= 0)
                    matrix[at(k * pairs + k1 * b[axis + 3] + k2)] = 1;
        w = taps(r, w, static_cast<int64_t>(axis) + 3, taps_[axis], std::move(matrix));
    }
    return w;
}

// [G, Cin/G, Cout/G, …] with box axes in place of the reduced tap axes becomes [G, Cin/G·boxes, Cout/G, …] with taps
// of 1.
ValueId taps_as_channels(Rewriter& r, ValueId w, const Sizes& tap_axes) {
    const Sizes before = r.shape(w);
    Sizes order = {0, 1}, rest, after = {before[0], before[1], before[2]};
    order.insert(order.end(), tap_axes.begin(), tap_axes.end());
    order.push_back(2);
    for (int64_t axis = 3; axis < static_cast<int64_t>(before.size()); ++axis) {
        const bool reduced = std::find(tap_axes.begin(), tap_axes.end(), axis) != tap_axes.end();
        if (reduced)
            after[1] *= before[at(axis)];
        else
            order.push_back(axis);
        after.push_back(reduced ? 1 : before[at(axis)]);
    }
    return reshape(r, permute(r, w, std::move(order)), std::move(after));
}

// A square matrix with v along its diagonal is v, each followed by r zeros, cut into rows of r.
ValueId in_groups(Rewriter& r, ValueId w, int64_t groups) {
    const Sizes from = r.shape(w);
    const int64_t apart = from[0] / groups, rank = static_cast<int64_t>(from.size());
    if (apart == 1) return w;
    Sizes shape = {groups, apart};
    shape.insert(shape.end(), from.begin() + 1, from.end());
    Sizes order = {0};  // [groups, Cin, Cout, K…, apart]
    for (int64_t axis = 2; axis <= rank; ++axis) order.push_back(axis);
    order.push_back(1);
    const ValueId parts = permute(r, reshape(r, w, std::move(shape)), std::move(order));
    shape = r.shape(parts);
    shape.push_back(1);
    Sizes before(shape.size(), 0), after(shape.size(), 0);
    after.back() = apart;
    const ValueId spaced = r.add(Op::pad, {reshape(r, parts, std::move(shape))},
                                 {{Key::start, std::move(before)}, {Key::end, std::move(after)}});
    shape = r.shape(parts);
    shape.back() = apart * (apart + 1);
    const ValueId line = reshape(r, spaced, std::move(shape));
    ValueId square = r.add(Op::slice, {line}, {{Key::axis, rank}, {Key::start, int64_t{0}}, {Key::end, apart * apart}});
    shape = r.shape(parts);
    shape.push_back(apart);
    square = reshape(r, square, std::move(shape));  // [groups, Cin, Cout, K…, apart, apart]
    order = {0, rank, 1, rank + 1, 2};
    for (int64_t axis = 3; axis < rank; ++axis) order.push_back(axis);
    shape = {groups, apart * from[1], apart * from[2]};
    shape.insert(shape.end(), from.begin() + 3, from.end());
    return reshape(r, permute(r, square, std::move(order)), std::move(shape));
}

ValueId on_taps(Rewriter& r, ValueId w, const std::vector<std::vector<int64_t>>& tap, const Lattices& axes) {
    for (size_t a = 0; a < axes.size(); ++a) {
        const size_t own = tap[a].size();
        std::vector<double> matrix(at(axes[a].taps) * own, 0.0);
        for (size_t k = 0; k < own; ++k)
            if (tap[a][k] >= 0) matrix[at(tap[a][k]) * own + k] = 1;
        w = taps(r, w, static_cast<int64_t>(a) + 3, axes[a].taps, std::move(matrix));
    }
    return w;
}

ValueId vector_through(Rewriter& r, ValueId vector, ValueId w) {
    const Sizes b = r.shape(w);
    Sizes shape = {1, b[0] * b[2]};
    shape.insert(shape.end(), b.begin() + 3, b.end());
    return reshape(r, matrix_product(r, vector, w, 1, b[0]), std::move(shape));
}

}  // namespace transfuse
