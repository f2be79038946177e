// The bias of a thin product in two parts: what a scale or a shift behind the convolution makes of it is no float any
// more, and rounding it would be one rounding more than PyTorch's, which adds the shift to what it has. Where results
// are about as large as the bias that is all the difference (f9: 1.25 to 1.62 times PyTorch's error, in two
// parts 1.00).
#pragma once

#include <memory>

#include "cuda/general/pull/pull.h"

namespace transfuse::cuda {

// Whether the bias is made of parameters, in fp32: as a float it loses something.
bool loses_as_float(const Surroundings& around, ValueId bias);

// Writes it for the pass: of every channel the nearest float, then of every channel what that leaves.
std::shared_ptr<const ExtraJob> pack_bias(const Surroundings& around, ValueId bias);
int64_t packed_bias_bytes(int64_t channels);

}  // namespace transfuse::cuda
