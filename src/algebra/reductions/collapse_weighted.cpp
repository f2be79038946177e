// A weighted sum over the outputs of a convolution moves before it:
//
//     Σ_o m[o]·y[o] = Σ_k w[k] · Σ_{(i, o) that meet through k} x[i]·m[o]
//
// The inner sum is the correlation of x with m: one map for all output channels, as the weights do not depend on it.
#include <algorithm>

#include "algebra/reductions/collapse.h"
#include "algebra/terms/channelwise.h"
#include "algebra/terms/terms.h"
#include "algebra/terms/weights.h"
#include "graph/schema.h"

namespace transfuse {

namespace {

Attributes correlate_attributes(const Lattices& axes, int64_t groups) {
    Attributes attributes = lattice_attributes(axes, groups), result;
    for (Key key : {Key::up, Key::down, Key::dil, Key::offset}) result.set(key, attributes.integers(key));
    Sizes taps;
    for (const Lattice& axis : axes) taps.push_back(axis.taps);
    result.set(Key::taps, std::move(taps));
    result.set(Key::groups, groups);
    return result;
}

// m as [1, N, O…], N the batch (1: the same for all samples); −1 where it differs between channels.
ValueId as_map(Rewriter& r, ValueId m, const Sizes& y) {
    const auto rank = static_cast<int64_t>(y.size());
    if (r.rank(m) > rank || extent_on(r, m, rank, 1) != 1) return -1;
    Sizes own, full = {1, extent_on(r, m, rank, 0)};
    for (int64_t axis = 0; axis < rank; ++axis)
        if (axis != 1) own.push_back(extent_on(r, m, rank, axis));
    own.insert(own.begin(), 1);
    full.insert(full.end(), y.begin() + 2, y.end());
    return expand(r, reshape(r, m, std::move(own)), std::move(full));
}

}  // namespace

ValueId weighted_collapse(Rewriter& r, ValueId id) {
    const ValueId product_ = r.arg(id);
    if (!r.is(product_, Op::mul) || r.is_moment() || !r[id].attributes.flag(Key::keepdim)) return -1;
    const Node node = r[id];
    const Sizes dims = node.attributes.integers(Key::dims), space = spatial_axes(r.rank(product_));
    if (space.empty() || !std::includes(dims.begin(), dims.end(), space.begin(), space.end())) return -1;
    for (size_t side = 0; side < 2; ++side) {
        const ValueId y = r.arg(product_, side);
        if (!r.is(y, Op::lattice) || r[y].type != r[product_].type || separable(r, y)) continue;
        const Sizes out = r.shape(y), in = r.shape(r.arg(y));
        const Lattices axes = axes_of(r, y);
        if (has_long_taps(axes) || numel(out) == 0 || numel(in) == 0) return -1;
        const DType dtype = wide(node.type.dtype);
        const ValueId map = as_map(r, r.arg(product_, 1 - side), out);
        if (map < 0) continue;
        const int64_t samples = r.shape(map)[1];
        Sizes stacked = {1, in[0] * in[1]};
        stacked.insert(stacked.end(), in.begin() + 2, in.end());
        const ValueId x = reshape(r, cast(r, r.arg(y), dtype), std::move(stacked)), m = cast(r, map, dtype);
        const ValueId met = r.add(Op::correlate, {x, m}, correlate_attributes(axes, samples));
        Sizes tap_axes, ones = {in[0], numel(r.shape(met)) / in[0]};
        for (size_t a = 0; a < axes.size(); ++a) {
            tap_axes.push_back(static_cast<int64_t>(a) + 3);
            ones.push_back(1);
        }
        const ValueId w = taps_as_channels(r, cast(r, r.arg(y, 1), dtype), tap_axes);
        ValueId sums = lattice(r, reshape(r, met, std::move(ones)), w, -1, Lattices(axes.size()));
        if (const ValueId bias = bias_of(r, y); bias >= 0) {
            Sizes along(out.size(), 1), counts(out.size(), 1);
            along[1] = out[1], counts[0] = samples;
            const ValueId total = reshape(r, reduce(r, Op::sum, m, space), std::move(counts));
            sums = plus(r, sums, times(r, reshape(r, cast(r, bias, dtype), std::move(along)), total));
        }
        if (node.op == Op::mean) sums = scaled(r, sums, static_cast<double>(out[0] * out[1]) / product(out));
        r.say("a weighted ", name(node.op), " over ", space, " of ", r[y].type, " is a correlation of ",
              r[r.arg(y)].type, " with the weights");
        Sizes rest;
        for (const int64_t axis : dims)
            if (axis < 2) rest.push_back(axis);
        return cast(r, reduce(r, node.op, sums, std::move(rest)), node.type.dtype);
    }
    return -1;
}

}  // namespace transfuse
