// The input of a dense pass, copied to channels last before it. Where rows of pixels begin anywhere, planes would come
// element by element, in every tile anew; a copy of the tensor whose pixels are vectors of channels comes in boxes, and
// is made once.
#pragma once

#include <optional>

#include "cuda/dense/read/tile_program.h"

namespace transfuse::cuda {

// The value to copy, where the pass reads it in planes and element by element.
std::optional<ValueId> input_to_channels_last(const Surroundings& around);

int64_t channels_last_bytes(const Type& type);
double to_channels_last_seconds(const Surroundings& around, const Type& type);  // an estimate

// The copy, to so many bytes behind the pass's scratch.
Launch to_channels_last(const Type& type, ValueId from, int64_t to);
// What a launch reads of the value, it reads of the copy.
void read_channels_last(Launch& launch, ValueId value, int64_t at);

}  // namespace transfuse::cuda
