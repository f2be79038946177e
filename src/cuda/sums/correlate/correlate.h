// Weight gradients on tensor cores: dw[g, ci, co, k] = Σ over (n, o) of x[n, ci, i]·g[n, co, o].
#pragma once

#include <optional>

#include "cuda/general/offer.h"

namespace transfuse::cuda {

// The correlate of a pass as mma tiles over slices of the pixels, in partials; nullopt with a sentence in `why_not`
// where the general kernel must do it.
std::optional<Offer> offer_correlate(const Surroundings& surroundings, const Places& places,
                                     std::string* why_not = nullptr);

}  // namespace transfuse::cuda
