// The strides that PyTorch would give to results.
#pragma once

#include <span>
#include <vector>

#include "transfuse/graph.h"

namespace transfuse {

bool channels_last(const TensorView& view);  // densely packed with the channels innermost, and not also contiguous
Sizes channels_last_strides(const Sizes& shape);
Sizes dense_like(const TensorView& view);  // its own strides if they are dense, else contiguous ones

// One for each output: channels last if the output depends on a convolution one of whose operands is, else contiguous.
std::vector<Sizes> output_layout(const Graph& written, std::span<const TensorView> leaves);

}  // namespace transfuse
