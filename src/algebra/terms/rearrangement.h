// Reshapes and permutations in a row as what they are together: axes cut into pieces, which are put together anew.
#pragma once

#include <optional>
#include <vector>

#include "algebra/rewriter/rewriter.h"

namespace transfuse {

// A part of an axis of `of`: the digit ⌊index / stride⌋ mod extent of its index.
struct Digit {
    int64_t axis, stride, extent;
    bool operator==(const Digit&) const = default;
};

struct Rearrangement {
    ValueId of = -1;
    std::vector<std::vector<Digit>> axes;  // the digits that make the index on each axis, the largest first

    // The digits on `axis` that come from `source`, in order.
    std::vector<Digit> from(size_t axis, int64_t source) const;
};
// v as a rearrangement of what neither a reshape nor a permutation made; nullopt where an extent cannot be cut so.
std::optional<Rearrangement> rearrangement(const Rewriter& r, ValueId v);

int64_t extent_of(const std::vector<Digit>& digits);

// v rearranged: the index on each axis of the result is made of these digits of v, which together are all that v has.
ValueId rearranged(Rewriter& r, ValueId v, const std::vector<std::vector<Digit>>& axes);

// `v` has digits[j] on axes[j], one digit an axis: of all it has in this order, they become those of `wanted`, each of
// which is a list of positions in this order. The result has one axis for each list.
ValueId regrouped(Rewriter& r, ValueId v, const Sizes& cut, const std::vector<Sizes>& wanted);

}  // namespace transfuse
