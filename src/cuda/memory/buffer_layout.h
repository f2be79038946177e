// How the values lie that one pass of a plan leaves for another.
#pragma once

#include <vector>

#include "transfuse/plan.h"

namespace transfuse::cuda {

// Channels, for boxes whose rows are long enough.
inline constexpr int64_t fewest_boxed_channels = 32;

// Per value: whether its buffer lies channels last. What one dense pass leaves for others to convolve does where rows
// of pixels begin anywhere: tiles leave in boxes and patches come as the products read them, whatever a row's length.
std::vector<bool> channels_last_buffers(const Plan& plan);

}  // namespace transfuse::cuda
