// The covariance of what a lattice's outputs meet, summed in fp64 from products of the input with itself.
#pragma once

#include <optional>

#include "cuda/general/offer.h"

namespace transfuse::cuda {

// nullopt with a sentence in `why_not` where the pass is no such one.
std::optional<Offer> offer_covariance(const Surroundings& surroundings, const Places& places,
                                      std::string* why_not = nullptr);

}  // namespace transfuse::cuda
