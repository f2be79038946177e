// Folds of the collapse: sums over boxes, and their gradient.
#include <algorithm>

#include "cuda/general/emit/emitter.h"

namespace transfuse::cuda {

namespace {

// The intervals of one reduced axis of box_sums or box_spread.
struct BoxAxis {
    size_t axis;
    std::vector<Interval> intervals;
};

std::vector<BoxAxis> box_axes(const Node& node) {
    const auto& a = node.attributes;
    const Sizes &dims = a.integers(Key::dims), &counts = a.integers(Key::counts);
    std::vector<BoxAxis> axes;
    size_t at = 0;
    for (size_t j = 0; j < dims.size(); ++j) {
        BoxAxis axis{static_cast<size_t>(dims[j]), {}};
        for (int64_t i = 0; i < counts[j]; ++i, ++at)
            axis.intervals.push_back({a.integers(Key::los)[at], a.integers(Key::his)[at], a.integers(Key::steps)[at]});
        axes.push_back(std::move(axis));
    }
    return axes;
}

int64_t box_count(const std::vector<BoxAxis>& axes) {
    int64_t boxes = 1;
    for (const BoxAxis& axis : axes) boxes *= static_cast<int64_t>(axis.intervals.size());
    return boxes;
}

}  // namespace

// out[n, c·ΠB + b] = Σ of x[n, c] over box b.
Fold Emitter::box_sums_fold(ValueId id, const Index& index) {
    const Node& node = graph_[id];
    const ValueId x = node.args[0];
    const std::vector<BoxAxis> axes = box_axes(node);
    const int64_t boxes = box_count(axes);
    Fold fold;
    const Coordinate channel = let_index(parameters_.quotient(index[1].text, boxes, false));
    std::string box = let_index(parameters_.remainder(index[1].text, channel.text, boxes, false)).text;
    struct Range {
        size_t axis;
        std::string lo, hi, step;
    };
    std::vector<Range> ranges(axes.size());
    for (size_t j = axes.size(); j-- > 0;) {
        const auto count = static_cast<int64_t>(axes[j].intervals.size());
        const std::string q = let_index(parameters_.quotient(box, count, false)).text;
        const std::string b = let_index(parameters_.remainder(box, q, count, false)).text;
        box = q;
        auto pick = [&](auto member) {
            std::string text = parameters_.integer(member(axes[j].intervals[0]), true);
            for (int64_t i = 1; i < count; ++i) {
                const std::string other = parameters_.integer(member(axes[j].intervals[static_cast<size_t>(i)]), true);
                if (other != text) text = "(" + b + " == " + number(i) + " ? " + other + " : " + text + ")";
            }
            return let_index(text).text;
        };
        ranges[j] = {axes[j].axis, pick([](const Interval& i) { return i.lo; }),
                     pick([](const Interval& i) { return i.hi; }), pick([](const Interval& i) { return i.step; })};
    }
    for (const BoxAxis& axis : axes) {
        int64_t longest = 0;
        for (const Interval& interval : axis.intervals) longest = std::max(longest, interval.size());
        fold.loops.push_back({longest, true});
    }
    fold.term = [this, x, index, channel, ranges](const std::vector<Coordinate>& loop,
                                                  const std::function<void(const Lanes&)>& take) {
        Index at = index;
        at[1] = channel;
        std::string condition;
        for (size_t j = 0; j < ranges.size(); ++j) {
            at[ranges[j].axis] = let_index(plus(ranges[j].lo, times(loop[j].text, ranges[j].step)));
            condition += (condition.empty() ? "" : " && ") + at[ranges[j].axis].text + " <= " + ranges[j].hi;
        }
        open({"if (", condition, ")"});
        take(value(x, at));
        close();
    };
    fold.finish = [this, id](const Lanes& folded) { return in_type_of(id, folded); };
    return fold;
}

// out[n, c, i] = Σ over the boxes b that contain i of h[n, c·ΠB + b].
Fold Emitter::box_spread_fold(ValueId id, const Index& index) {
    const Node& node = graph_[id];
    const ValueId h = node.args[0];
    const std::vector<BoxAxis> axes = box_axes(node);
    const int64_t boxes = box_count(axes);
    Fold fold;
    // Whether i lies in interval b of axis j, once for all boxes: [axis][interval][lane].
    std::vector<std::vector<std::vector<std::string>>> inside(axes.size());
    for (size_t j = 0; j < axes.size(); ++j)
        for (const Interval& interval : axes[j].intervals) {
            const Coordinate& coordinate = index[axes[j].axis];
            inside[j].emplace_back();
            for (int lane = 0; lane < (coordinate.vector ? vector_ : 1); ++lane) {
                const std::string i = plus(coordinate.text, number(lane)), lo = parameters_.integer(interval.lo, true);
                std::string test = i + " >= " + lo + " && " + i + " <= " + parameters_.integer(interval.hi, true);
                if (interval.step > 1) test += " && (" + i + " - " + lo + ") % " + number(interval.step) + " == 0";
                inside[j].back().push_back(let("bool", test, "b"));
            }
        }
    fold.term = [this, h, index, axes, inside, boxes](const std::vector<Coordinate>&,
                                                      const std::function<void(const Lanes&)>& take) {
        const size_t lanes = has_vector(index) ? static_cast<size_t>(vector_) : 1;
        for (int64_t b = 0; b < boxes; ++b) {
            Index at = index;
            for (const BoxAxis& axis : axes) at[axis.axis] = {"0"};
            at[1] = {plus(times(index[1].text, number(boxes)), number(b))};
            const Lanes x = value(h, at);
            const std::string zero = literal(0, x.real);
            Lanes term;
            term.real = x.real;
            for (size_t lane = 0; lane < lanes; ++lane) {
                std::string condition;
                int64_t rest = b;
                for (size_t j = axes.size(); j-- > 0;) {
                    const auto count = static_cast<int64_t>(axes[j].intervals.size());
                    const auto& tests = inside[j][static_cast<size_t>(rest % count)];
                    condition += (condition.empty() ? "" : " && ") + tests[std::min(lane, tests.size() - 1)];
                    rest /= count;
                }
                term.text.push_back("(" + condition + " ? " + x[lane] + " : " + zero + ")");
            }
            take(term);
        }
    };
    fold.finish = [this, id](const Lanes& folded) { return in_type_of(id, folded); };
    return fold;
}

}  // namespace transfuse::cuda
