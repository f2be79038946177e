#include "algebra/terms/rearrangement.h"

#include <algorithm>

#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

using Digits = std::vector<Digit>;

// One digit where the last two are neighbours of one axis, none of extent one.
void append(Digits& digits, const Digit& digit) {
    if (digit.extent == 1) return;
    if (!digits.empty() && digits.back().axis == digit.axis && digits.back().stride == digit.stride * digit.extent)
        digits.back() = {digit.axis, digit.stride, digits.back().extent * digit.extent};
    else
        digits.push_back(digit);
}

// All digits in order, cut at the extents of `shape`.
std::optional<std::vector<Digits>> cut(const std::vector<Digits>& axes, const Sizes& shape) {
    Digits all;
    for (const Digits& digits : axes)
        for (const Digit& digit : digits) append(all, digit);
    std::vector<Digits> result(shape.size());
    size_t next = all.size();
    for (size_t axis = shape.size(); axis-- > 0;) {
        Digits reversed;
        for (int64_t rest = shape[axis]; rest > 1;) {
            if (next == 0) return std::nullopt;
            Digit& last = all[next - 1];
            const int64_t extent = std::min(rest, last.extent);
            if (extent == 0 || rest % extent != 0 || last.extent % extent != 0) return std::nullopt;
            reversed.push_back({last.axis, last.stride, extent});
            rest /= extent;
            last = {last.axis, last.stride * extent, last.extent / extent};
            if (last.extent == 1) --next;
        }
        for (size_t i = reversed.size(); i-- > 0;) append(result[axis], reversed[i]);
    }
    return result;
}

}  // namespace

std::vector<Digit> Rearrangement::from(size_t axis, int64_t source) const {
    Digits result;
    for (const Digit& digit : axes[axis])
        if (digit.axis == source) result.push_back(digit);
    return result;
}

std::optional<Rearrangement> rearrangement(const Rewriter& r, ValueId v) {
    std::vector<ValueId> steps;
    for (; r.is(v, Op::reshape) || r.is(v, Op::permute); v = r.arg(v)) steps.push_back(v);
    Rearrangement result{v, {}};
    for (size_t axis = 0; axis < r.shape(v).size(); ++axis) {
        result.axes.emplace_back();
        append(result.axes.back(), {static_cast<int64_t>(axis), 1, r.shape(v)[axis]});
    }
    for (size_t i = steps.size(); i-- > 0;) {
        if (r.is(steps[i], Op::permute)) {
            std::vector<Digits> permuted;
            for (const int64_t axis : r[steps[i]].attributes.integers(Key::order))
                permuted.push_back(result.axes[at(axis)]);
            result.axes = std::move(permuted);
        } else if (auto axes = cut(result.axes, r.shape(steps[i]))) {
            result.axes = std::move(*axes);
        } else {
            return std::nullopt;
        }
    }
    return result;
}

int64_t extent_of(const std::vector<Digit>& digits) {
    int64_t extent = 1;
    for (const Digit& digit : digits) extent *= digit.extent;
    return extent;
}

ValueId rearranged(Rewriter& r, ValueId v, const std::vector<std::vector<Digit>>& axes) {
    Digits order;
    for (const Digits& digits : axes) order.insert(order.end(), digits.begin(), digits.end());
    std::sort(order.begin(), order.end(),
              [](const Digit& a, const Digit& b) { return a.axis != b.axis ? a.axis < b.axis : a.stride > b.stride; });
    Sizes cut;
    for (const Digit& digit : order) cut.push_back(digit.extent);
    std::vector<Sizes> wanted;
    for (const Digits& digits : axes) {
        wanted.emplace_back();
        for (const Digit& digit : digits)
            wanted.back().push_back(std::find(order.begin(), order.end(), digit) - order.begin());
    }
    return regrouped(r, v, cut, wanted);
}

ValueId regrouped(Rewriter& r, ValueId v, const Sizes& cut, const std::vector<Sizes>& wanted) {
    Sizes order, shape;
    for (const Sizes& group : wanted) {
        shape.push_back(1);
        for (const int64_t position : group) order.push_back(position), shape.back() *= cut[at(position)];
    }
    return reshape(r, permute(r, reshape(r, v, cut), std::move(order)), std::move(shape));
}

}  // namespace transfuse
