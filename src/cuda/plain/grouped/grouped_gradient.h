// Weight gradients of groups of few channels, on ordinary arithmetic: dw[g, ci, co, k] = Σ over (n, o) of x[n, ci,
// i]·g[n, co, o].
#pragma once

#include <optional>

#include "cuda/general/offer.h"

namespace transfuse::cuda {

// The correlate of a pass, in partials; nullopt where another family must do it.
std::optional<Offer> offer_grouped_gradient(const Surroundings& surroundings, const Places& places);

}  // namespace transfuse::cuda
