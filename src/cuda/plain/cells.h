// Dense passes with phases whose product is thin: few input channels. A thread makes all outputs of two neighbouring
// input places, phase by phase and all channels at once, in ordinary arithmetic; pools over a cell, reductions over
// channels and over space stay with it.
#pragma once

#include <optional>

#include "cuda/general/offer.h"

namespace transfuse::cuda {

// nullopt with a sentence in `why_not` where another family must do it. sinks: what the pass stores of its tiles.
std::optional<Offer> offer_cells(const Surroundings& surroundings, const Places& places, const std::vector<Sink>& sinks,
                                 std::string* why_not = nullptr);

}  // namespace transfuse::cuda
