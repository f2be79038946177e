// The moments pass: all box sums of a tensor from one reading of it.
#pragma once

#include <optional>

#include "cuda/general/offer.h"

namespace transfuse::cuda {

// nullopt with a sentence in `why_not` where the general kernel must do it.
// `stores`: where the pass stores grid values; one that a single block completes goes there directly.
std::optional<Offer> offer_moments(const Surroundings& surroundings, const Places& places,
                                   const std::vector<std::pair<ValueId, Place>>& stores,
                                   std::string* why_not = nullptr);

}  // namespace transfuse::cuda
