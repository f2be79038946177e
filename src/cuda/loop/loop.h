// Loop passes at the speed of memory: every element is read once, stays in registers while the pass's steps run on it,
// and is written once. Elements are taken in vectors; where the pass reduces rows (softmax, norms), a group of
// neighbouring threads holds a whole row.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/general/offer.h"

namespace transfuse::cuda {

// A tensor as the loop walks it: one stride an axis of the walk, 0 where it is broadcast.
struct LoopTensor {
    ValueId value = -1;
    Place place;    // its strides are those of the tensor's own shape; the walk uses the ones below
    Sizes strides;  // outer axes, then the row
    int64_t row() const { return strides.back(); }
};

// The walk: `outer` axes around one innermost axis, the row. Axes that lie behind one another in every tensor are one.
struct Loop {
    Sizes outer;
    int64_t row = 1;
    bool reduces = false;  // the steps reduce rows
    std::vector<LoopTensor> reads, stores;
    std::vector<ValueId> steps;  // pointwise ops and reductions of rows, in order
    int64_t rows() const { return numel(outer); }
};

// The pass as a walk; nullopt with a sentence in `why_not` where it is none (the pull kernel takes it then).
// places: of the roots of what the pass reads. stores: where each of the pass's stores goes, in their order.
std::optional<Loop> read_loop(const Surroundings& around, const Places& places, const std::vector<Place>& stores,
                              std::string* why_not);

std::optional<Offer> offer_loop(const Surroundings& around, const Places& places, const std::vector<Place>& stores,
                                std::string* why_not);

}  // namespace transfuse::cuda
