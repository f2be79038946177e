// Dense passes whose product is thin: few input channels and taps, few output channels. Ordinary arithmetic makes a pixel in
// less time than tensor cores take to be fed and emptied, and without rounding its factors.
#pragma once

#include <optional>

#include "cuda/pull.h"

namespace transfuse::cuda {

// nullopt with a sentence in `why_not` where another family must do it. sinks: what the pass stores.
std::optional<Program> generate_thin(const Surroundings& surroundings, const Places& places, const std::vector<Sink>& sinks,
                                     std::string* why_not = nullptr);

}  // namespace transfuse::cuda
