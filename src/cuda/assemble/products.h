// How exactly each product of a plan is to be made.
#pragma once

#include "cuda/assemble/options.h"

namespace transfuse::cuda {

// Of the pass with this anchor. Where TF32 is asked for, the products of weights that are named strict are not rounded:
// those of a convolution whose weight is made of one, and those that a gradient of one is made of.
Fp32Precision precision_of(const Graph& graph, ValueId anchor, const Options& options);

}  // namespace transfuse::cuda
