// Collapse: a sum over output positions moves before the convolution.
//
//     Σ_o y[o] = Σ_k w[k] · Σ_{i ∈ interval(k)} x[i]
//
// Padding and output_padding cut only a few border samples, so few intervals are distinct: x is read once into box
// sums, and a small product remains on Cin·boxes channels. Axes that are not reduced keep their lattice.
#include "algebra/reductions/collapse.h"

#include <algorithm>

#include "algebra/reductions/rules.h"
#include "algebra/terms/affine.h"
#include "algebra/terms/rearrangement.h"
#include "algebra/terms/terms.h"
#include "algebra/terms/weights.h"

namespace transfuse {

namespace {

size_t at(int64_t axis) { return static_cast<size_t>(axis); }

struct Boxes {
    IntervalSet set;             // distinct intervals and the one of each tap
    std::vector<double> matrix;  // boxes × taps: which taps share a box
};

// Windows side by side that weigh every input alike: all inputs they cover are one interval.
bool tiles(const Lattice& axis) { return axis.up == 1 && axis.dil == 1 && axis.taps == axis.down; }

Boxes boxes_of(const Lattice& axis, bool uniform) {
    Boxes boxes;
    boxes.set = intervals(axis);
    if (uniform && tiles(axis) && boxes.set.intervals.size() > 1) {
        Interval all = boxes.set.intervals[0];
        all.step = 1;
        for (const Interval& interval : boxes.set.intervals) {
            all.lo = std::min(all.lo, interval.lo);
            all.hi = std::max(all.hi, interval.hi);
        }
        boxes.set.intervals = {all};
        boxes.matrix.assign(at(axis.taps), 0.0);
        boxes.matrix[0] = 1;  // the weight of any tap
        return boxes;
    }
    boxes.matrix.assign(boxes.set.intervals.size() * at(axis.taps), 0.0);
    for (int64_t k = 0; k < axis.taps; ++k)
        if (const int64_t box = boxes.set.of_tap[at(k)]; box >= 0) boxes.matrix[at(box * axis.taps + k)] = 1;
    return boxes;
}

// Σ over the given tensor axes of lattice `y`, times `factor`, plus bias·bias_factor; in f32 for 16-bit operands.
// −1 where it has too many boxes to be worth a look.
ValueId collapsed(Rewriter& r, ValueId y, const Sizes& dims, double factor, double bias_factor) {
    Lattices axes = axes_of(r, y);
    if (has_long_taps(axes)) return -1;
    const std::optional<Separable> pool = separable(r, y);
    const DType dtype = wide(r.dtype(y));
    const ValueId x = r.arg(y, 0), bias = bias_of(r, y);
    ValueId w = cast(r, r.arg(y, 1), dtype);
    Sizes counts, los, his, steps, tap_axes, shape = r.shape(y);
    int64_t boxes = 1;
    for (int64_t dim : dims) {
        Lattice& axis = axes[at(dim - 2)];
        Boxes here = boxes_of(axis, pool && pool->literal);
        const auto count = static_cast<int64_t>(here.set.intervals.size());
        for (const Interval& interval : here.set.intervals) {
            los.push_back(interval.lo);
            his.push_back(interval.hi);
            steps.push_back(interval.step);
        }
        counts.push_back(count);
        boxes *= count;
        tap_axes.push_back(dim + 1);
        shape[at(dim)] = 1;
        if (boxes > 4096) return -1;
        if (count > 0) w = taps(r, w, dim + 1, count, std::move(here.matrix));
        axis = Lattice{};
    }
    auto add_bias = [&](ValueId value) {
        if (bias < 0) return value;
        Sizes along(shape.size(), 1);
        along[1] = shape[1];
        return plus(r, value, scaled(r, reshape(r, cast(r, bias, dtype), std::move(along)), bias_factor));
    };
    if (boxes == 0) return add_bias(full(r, dtype, shape, 0));
    w = taps_as_channels(r, w, tap_axes);
    const ValueId sums = r.add(Op::box_sums, {x},
                               {{Key::dims, dims},
                                {Key::counts, std::move(counts)},
                                {Key::los, std::move(los)},
                                {Key::his, std::move(his)},
                                {Key::steps, std::move(steps)}});
    r.say("reducing ", dims, " of ", r[y].type, " before the convolution: ", boxes, boxes == 1 ? " box" : " boxes");
    if (product(r.shape(w)) > product(shape)) return add_bias(scaled(r, lattice(r, sums, w, -1, axes), factor));
    const ValueId vector = bias < 0 ? -1 : scaled(r, cast(r, bias, dtype), bias_factor);
    return lattice(r, sums, scaled(r, w, factor), vector, axes);
}

// The convolution behind a reduction; a 16-bit one may have been widened on the way, its sums are in f32 all the same.
ValueId convolution(const Rewriter& r, ValueId v) {
    if (r.is(v, Op::cast) && is_sixteen_bit(r.dtype(r.arg(v))) && r.dtype(v) == DType::f32) v = r.arg(v);
    return r.is(v, Op::lattice) ? v : -1;
}

// Σ over output channels: the weights are summed. Groups end, as every input channel reaches the one output.
ValueId sum_of_channels(Rewriter& r, ValueId id) {
    const ValueId y = r.arg(id);
    if (!r.is(y, Op::lattice) || r.is_moment() || r[id].attributes.integers(Key::dims) != Sizes{1} ||
        !r[id].attributes.flag(Key::keepdim))
        return -1;
    const Node node = r[id];
    if (is_sixteen_bit(node.type.dtype)) return -1;  // the summed weights would be rounded
    const Lattices axes = axes_of(r, y);
    const ValueId x = r.arg(y, 0), bias = bias_of(r, y);
    ValueId w = reduce(r, Op::sum, r.arg(y, 1), {2});
    Sizes shape = r.shape(w);
    const double channels = static_cast<double>(r.shape(y)[1]);
    shape[1] *= shape[0];
    shape[0] = 1;
    w = reshape(r, w, std::move(shape));
    ValueId vector = bias < 0 ? -1 : reduce(r, Op::sum, bias, {0});
    if (node.op == Op::mean) {
        w = scaled(r, w, 1 / channels);
        if (vector >= 0) vector = scaled(r, vector, 1 / channels);
    }
    r.say(name(node.op), " over the channels of ", r[y].type, " moves into the weights");
    return lattice(r, x, w, vector, axes);
}

// Σ over some of the digits of the channel's number, as of parts of the channels that are added: so are the weights.
ValueId sum_of_channel_digits(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    if (!(r.is(x, Op::reshape) || r.is(x, Op::permute)) || r.is_moment() || !r[id].attributes.flag(Key::keepdim) ||
        r.is_parameter(x) || is_sixteen_bit(r.dtype(id)))
        return -1;
    const std::optional<Rearrangement> places = rearrangement(r, x);
    if (!places || !r.is(places->of, Op::lattice) || r.shape(r.arg(places->of, 1))[0] != 1) return -1;
    const ValueId y = places->of, bias = bias_of(r, y);
    std::vector<std::vector<Digit>> axes = places->axes;
    std::vector<Digit> own, summed;
    for (const auto& digits : axes)
        for (const Digit& digit : digits)
            if (digit.axis == 1) own.push_back(digit);
    std::sort(own.begin(), own.end(), [](const Digit& a, const Digit& b) { return a.stride > b.stride; });
    for (const int64_t dim : r[id].attributes.integers(Key::dims)) {
        for (const Digit& digit : axes[at(dim)])
            if (digit.axis != 1) return -1;
        summed.insert(summed.end(), axes[at(dim)].begin(), axes[at(dim)].end());
        axes[at(dim)].clear();
    }
    if (summed.empty()) return -1;
    const Sizes w = r.shape(r.arg(y, 1));
    Sizes split = {1, w[1]}, parts, of_weight, of_bias;
    int64_t left = 1;
    double count = 1;
    for (size_t i = 0; i < own.size(); ++i) {
        parts.push_back(own[i].extent);
        if (std::find(summed.begin(), summed.end(), own[i]) == summed.end()) {
            left *= own[i].extent;
        } else {
            count *= static_cast<double>(own[i].extent);
            of_bias.push_back(static_cast<int64_t>(i)), of_weight.push_back(static_cast<int64_t>(i) + 2);
        }
    }
    split.insert(split.end(), parts.begin(), parts.end());
    split.insert(split.end(), w.begin() + 3, w.end());
    Sizes shape = {1, w[1], left};
    shape.insert(shape.end(), w.begin() + 3, w.end());
    const double factor = r.is(id, Op::mean) ? 1 / count : 1;
    const auto sum = [&](ValueId v, Sizes cut, Sizes dims, Sizes to) {
        return scaled(r, reshape(r, reduce(r, Op::sum, reshape(r, v, std::move(cut)), std::move(dims)), std::move(to)),
                      factor);
    };
    const ValueId weight = sum(r.arg(y, 1), std::move(split), std::move(of_weight), std::move(shape));
    const ValueId vector = bias < 0 ? -1 : sum(bias, std::move(parts), std::move(of_bias), {left});
    r.say(name(r.op(id)), " over parts of the channels of ", r[y].type, " moves into the weights");
    // What is left of the channel's number, in digits of its own.
    int64_t stride = 1;
    for (size_t i = own.size(); i-- > 0;) {
        if (std::find(summed.begin(), summed.end(), own[i]) != summed.end()) continue;
        for (auto& digits : axes)
            for (Digit& digit : digits)
                if (digit == own[i]) digit.stride = -stride;  // marked, as others may be equal to it
        stride *= own[i].extent;
    }
    for (auto& digits : axes)
        for (Digit& digit : digits) digit.stride = std::abs(digit.stride);
    return rearranged(r, lattice(r, r.arg(y), weight, vector, axes_of(r, y)), axes);
}

// Σ over the batch: the inputs are summed.
ValueId sum_of_batch(Rewriter& r, ValueId id) {
    const ValueId y = r.arg(id);
    if (!r.is(y, Op::lattice) || r.is_moment() || r[id].attributes.integers(Key::dims) != Sizes{0} ||
        !r[id].attributes.flag(Key::keepdim))
        return -1;
    const Node node = r[id];
    if (is_sixteen_bit(node.type.dtype)) return -1;
    const Lattices axes = axes_of(r, y);
    const ValueId x = r.arg(y, 0), w = r.arg(y, 1), bias = bias_of(r, y);
    const double batch = static_cast<double>(r.shape(y)[0]);
    r.say(name(node.op), " over the batch of ", r[y].type, " moves before the convolution");
    const ValueId sums = reduce(r, node.op, x, {0});
    return lattice(r, sums, w, bias < 0 || node.op == Op::mean ? bias : scaled(r, bias, batch), axes);
}

}  // namespace

// Over space first, through the scales and shifts on the way (they may be needed elsewhere, only the reduction moves);
// then over batch and channels of what is left. 16-bit chains go on in f32 and are rounded once, at the end.
ValueId collapse(Rewriter& r, ValueId id) {
    if (r.is_moment() || !r[id].attributes.flag(Key::keepdim)) return -1;
    Sizes spatial, rest;
    for (int64_t axis : r[id].attributes.integers(Key::dims)) {
        if (r.shape(r.arg(id))[at(axis)] == 1) return -1;
        (axis >= 2 ? spatial : rest).push_back(axis);
    }
    if (spatial.empty()) return -1;
    AffineChain chain = affine_chain(r, r.arg(id), spatial);
    const ValueId y = convolution(r, chain.value);
    if (y < 0) return -1;
    double count = 1;
    for (int64_t axis : spatial) count *= static_cast<double>(r.shape(y)[at(axis)]);
    if (count == 0) return -1;
    const Op op = r.op(id);
    const DType dtype = r.dtype(id);
    const bool mean = op == Op::mean;
    ValueId sums = collapsed(r, y, spatial, mean ? 1 / count : 1, mean ? 1 : count);
    if (sums < 0) return -1;
    if (!chain.steps.empty() && r.is(chain.steps.back().value, Op::sub) && chain.steps.back().side == 0 &&
        spatial == spatial_axes(r.rank(y)) && is_own_mean(r, chain.value, r.arg(chain.steps.back().value, 1))) {
        Sizes others;
        for (int64_t axis : r[r.arg(chain.steps.back().value, 1)].attributes.integers(Key::dims))
            if (axis < 2) others.push_back(axis);
        sums = minus(r, sums, reduce(r, Op::mean, sums, std::move(others)));
        chain.steps.pop_back();
    }
    return cast(r, reduce(r, op, reapply(r, chain, sums, mean ? 1 : count), std::move(rest)), dtype);
}

ValueId collapsed_mean(Rewriter& r, ValueId x, const Sizes& dims) {
    const AffineChain chain = affine_chain(r, x, spatial_axes(r.rank(x)));
    const ValueId y = convolution(r, chain.value);
    if (y < 0) return -1;
    double count = 1;
    for (int64_t axis : spatial_axes(r.rank(y))) count *= static_cast<double>(r.shape(y)[at(axis)]);
    if (count == 0) return -1;
    const ValueId sums = collapsed(r, y, spatial_axes(r.rank(y)), 1 / count, 1);
    Sizes rest;
    for (int64_t axis : dims)
        if (axis < 2) rest.push_back(axis);
    return sums < 0 ? -1 : cast(r, reduce(r, Op::mean, reapply(r, chain, sums, 1), std::move(rest)), r.dtype(x));
}

bool is_own_mean(const Rewriter& r, ValueId d, ValueId e) {
    if (!r.is(e, Op::mean) || r.arg(e) != d || !r[e].attributes.flag(Key::keepdim)) return false;
    const Sizes &dims = r[e].attributes.integers(Key::dims), space = spatial_axes(r.rank(d));
    return std::includes(dims.begin(), dims.end(), space.begin(), space.end());
}

bool collapse_pays(const Rewriter& r, ValueId y, const Sizes& dims) {
    if (r.is(y, Op::cast)) y = r.arg(y);
    if (!r.is(y, Op::lattice)) return false;
    for (int64_t axis : spatial_axes(r.rank(y)))
        if (std::find(dims.begin(), dims.end(), axis) == dims.end()) return false;
    const double read = product(r.shape(r.arg(y, 0))) + 4 * product(r.shape(r.arg(y, 1)));
    return 1.25 * read < product(r.shape(y));
}

ValueId moved_before(Rewriter& r, ValueId id) {
    for (const auto way : {collapse_resampled, collapse, weighted_collapse, sum_of_channels, sum_of_batch})
        if (const ValueId moved = way(r, id); moved >= 0) return moved;
    return -1;
}

std::span<const Rule> collapse_rules() {
    static const std::vector<Rule> rules = {
        {"collapse_resampled", Family::collapse, {Op::sum, Op::mean}, collapse_resampled, false, nullptr, false, true},
        {"collapse", Family::collapse, {Op::sum, Op::mean}, collapse, false, nullptr, false, true},
        {"weighted_collapse", Family::collapse, {Op::sum, Op::mean}, weighted_collapse},
        {"sum_of_channels", Family::collapse, {Op::sum, Op::mean}, sum_of_channels},
        {"sum_of_channel_digits", Family::collapse, {Op::sum, Op::mean}, sum_of_channel_digits},
        {"sum_of_batch", Family::collapse, {Op::sum, Op::mean}, sum_of_batch},
    };
    return rules;
}

}  // namespace transfuse
