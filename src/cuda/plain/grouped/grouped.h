// Dense passes of many groups with few channels each: depthwise convolutions and their like. An output is a handful of
// products, so ordinary arithmetic keeps up with memory, and what counts is that loads and stores are wide.
#pragma once

#include <optional>

#include "cuda/general/offer.h"

namespace transfuse::cuda {

// nullopt with a sentence in `why_not` where another family must do it. sinks: what the pass stores of its tiles.
std::optional<Offer> offer_grouped(const Surroundings& surroundings, const Places& places,
                                   const std::vector<Sink>& sinks, std::string* why_not = nullptr);

}  // namespace transfuse::cuda
