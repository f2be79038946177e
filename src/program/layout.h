// The strides that PyTorch would give to results.
#pragma once

#include <span>
#include <vector>

#include "graph/layout.h"
#include "transfuse/graph.h"

namespace transfuse {

// As PyTorch tells channels last from contiguous: by all strides, those of extents of one too.
bool channels_last(const TensorView& view);
Sizes dense_like(const TensorView& view);  // its own strides if they are dense, else contiguous ones

// One for each output: channels last where PyTorch's operators would hand that on from the leaves, else contiguous.
std::vector<Sizes> output_layout(const Graph& written, std::span<const TensorView> leaves);

}  // namespace transfuse
