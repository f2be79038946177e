// Box sums of a convolution are a small product of box sums of its input: a sum over outputs moves before the
// convolution (collapse.cpp), and a box is a convolution of fewer outputs,
//
//     o = lo + step·t:   down·step·t + (offset + down·lo) = up·i + dil·k
//
// so that a mean goes through any number of convolutions, and none of them is computed.
#include <algorithm>

#include "algebra/reductions/collapse.h"
#include "algebra/reductions/rules.h"
#include "algebra/terms/terms.h"
#include "algebra/terms/weights.h"

namespace transfuse {

namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

// One axis: boxes of the result, the intervals of the input that their taps meet, and which is which.
struct BoxedAxis {
    std::vector<Interval> met;
    int64_t boxes = 0;
    std::vector<double> matrix;  // (box, interval met) × taps
};

std::optional<BoxedAxis> boxed(const Lattice& axis, std::span<const Interval> boxes) {
    BoxedAxis result;
    result.boxes = static_cast<int64_t>(boxes.size());
    std::vector<std::vector<int64_t>> of_tap;
    for (const Interval& box : boxes) {
        Lattice part = axis;
        part.offset += part.down * box.lo;
        part.down *= box.step;
        part.out = box.size();
        std::vector<int64_t> here;
        for (int64_t k = 0; k < axis.taps; ++k) {
            const Interval interval = part.out > 0 ? part.interval(k) : Interval{};
            if (interval.empty()) {
                here.push_back(-1);
                continue;
            }
            const auto known = std::find(result.met.begin(), result.met.end(), interval);
            here.push_back(known - result.met.begin());
            if (known == result.met.end()) result.met.push_back(interval);
        }
        of_tap.push_back(std::move(here));
    }
    const auto met = static_cast<int64_t>(result.met.size());
    if (met == 0 || met > 64) return std::nullopt;
    result.matrix.assign(at(result.boxes * met * axis.taps), 0.0);
    for (int64_t b = 0; b < result.boxes; ++b)
        for (int64_t k = 0; k < axis.taps; ++k)
            if (const int64_t i = of_tap[at(b)][at(k)]; i >= 0) result.matrix[at((b * met + i) * axis.taps + k)] = 1;
    return result;
}

ValueId collapse_boxes(Rewriter& r, ValueId id) {
    const ValueId y = r.arg(id);
    if (!r.is(y, Op::lattice) || r.is_parameter(y)) return -1;
    const Node node = r[id];
    const Sizes dims = node.attributes.integers(Key::dims), counts = node.attributes.integers(Key::counts);
    Lattices axes = axes_of(r, y);  // of the axes that are not summed
    if (has_long_taps(axes)) return -1;
    const DType dtype = node.type.dtype;
    const Sizes shape = r.shape(r.arg(y, 1));
    ValueId w = cast(r, r.arg(y, 1), dtype);
    Sizes met_counts, los, his, steps, split(shape.begin(), shape.begin() + 3), mets, their_boxes, kept, ones = shape;
    std::vector<double> elements = {1};  // of each box, the last axis fastest
    size_t first = 0, summed = 0;
    int64_t boxes = 1, met = 1;
    for (size_t a = 0; a < axes.size(); ++a) {
        const auto position = static_cast<int64_t>(split.size());
        if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(a) + 2) == dims.end()) {
            split.push_back(shape[a + 3]), kept.push_back(position);
            continue;
        }
        std::vector<Interval> own;
        for (int64_t i = 0; i < counts[summed]; ++i, ++first)
            own.push_back({node.attributes.integers(Key::los)[first], node.attributes.integers(Key::his)[first],
                           node.attributes.integers(Key::steps)[first]});
        ++summed;
        std::vector<double> longer;
        for (const double before : elements)
            for (const Interval& box : own) longer.push_back(before * static_cast<double>(box.size()));
        elements = std::move(longer);
        const std::optional<BoxedAxis> axis = boxed(axes[a], own);
        if (!axis) return -1;
        const auto here = static_cast<int64_t>(axis->met.size());
        w = taps(r, w, static_cast<int64_t>(a) + 3, axis->boxes * here, axis->matrix);
        split.push_back(axis->boxes), split.push_back(here);
        their_boxes.push_back(position), mets.push_back(position + 1);
        met_counts.push_back(here);
        for (const Interval& interval : axis->met)
            los.push_back(interval.lo), his.push_back(interval.hi), steps.push_back(interval.step);
        boxes *= axis->boxes, met *= here;
        ones[a + 3] = 1;
        axes[a] = Lattice{};
    }
    Sizes order = {0, 1};
    order.insert(order.end(), mets.begin(), mets.end());
    order.push_back(2);
    order.insert(order.end(), their_boxes.begin(), their_boxes.end());
    order.insert(order.end(), kept.begin(), kept.end());
    ones[1] *= met, ones[2] *= boxes;
    w = reshape(r, permute(r, reshape(r, w, std::move(split)), std::move(order)), std::move(ones));
    const ValueId sums = r.add(Op::box_sums, {r.arg(y)},
                               {{Key::dims, dims},
                                {Key::counts, std::move(met_counts)},
                                {Key::los, std::move(los)},
                                {Key::his, std::move(his)},
                                {Key::steps, std::move(steps)}});
    ValueId bias = bias_of(r, y);
    if (bias >= 0) {
        const int64_t channels = shape[0] * shape[2];
        const ValueId sizes = r.add(Op::constant, {},
                                    {{Key::dtype, static_cast<int64_t>(dtype)},
                                     {Key::shape, Sizes{1, boxes}},
                                     {Key::values, std::move(elements)}});
        bias = reshape(r, times(r, reshape(r, cast(r, bias, dtype), {channels, 1}), sizes), {channels * boxes});
    }
    r.say("box sums of ", r[y].type, " before the convolution: ", met, " of its input for ", boxes);
    return lattice(r, sums, w, bias, axes);
}

// Box sums of a sum are taken of each of its terms, where they go on through one.
ValueId boxes_of_terms(Rewriter& r, ValueId id, int depth) {
    if (const ValueId moved = collapse_boxes(r, id); moved >= 0 || depth == 0) return moved;
    const Node node = r[id], sum = r[node.args[0]];
    if (sum.op != Op::add && sum.op != Op::sub) return -1;
    Operands parts;
    bool any = false;
    for (const ValueId arg : sum.args) {
        if (r[arg].type != sum.type) return -1;
        const ValueId own = r.add(node.op, {arg}, node.attributes), moved = boxes_of_terms(r, own, depth - 1);
        any = any || moved >= 0;
        parts.push_back(moved >= 0 ? moved : own);
    }
    return any ? binary(r, sum.op, parts[0], parts[1]) : -1;
}

ValueId boxes_of_sum(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    if ((!r.is(x, Op::add) && !r.is(x, Op::sub)) || r.is_parameter(x)) return -1;
    const Type type = r[x].type;
    const ValueId moved = boxes_of_terms(r, id, 8);
    if (moved >= 0) r.say("box sums of a sum ", type, " are taken of each term");
    return moved;
}

}  // namespace

std::span<const Rule> box_rules() {
    static const std::vector<Rule> rules = {
        {"collapse_boxes", Family::collapse, {Op::box_sums}, collapse_boxes, false, nullptr, false, true},
        {"boxes_of_sum", Family::collapse, {Op::box_sums}, boxes_of_sum, false, nullptr, false, true},
    };
    return rules;
}

}  // namespace transfuse
