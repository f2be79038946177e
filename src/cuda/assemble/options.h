// What the CUDA engine is told of a plan.
#pragma once

#include <vector>

#include "transfuse/engine.h"

namespace transfuse::cuda {

// Where precision is tf32: leaves, and gradients among the outputs, whose products are strict all the same: of what is
// convolved with such a leaf, and of what such an output is the sum. By place; absent ones are not.
struct Options : CompileOptions {
    Options() = default;
    Options(CompileOptions options) : CompileOptions(std::move(options)) {}  // NOLINT(google-explicit-constructor)
    std::vector<bool> strict_leaves, strict_outputs;
    // Bytes of packed weights that are prepared at a time (no fewer than those of one pass), unless they are kept: what
    // products then read is in the L2 cache still, and later ones take the memory of those before.
    int64_t prepared_together = int64_t{16} << 20;
};

}  // namespace transfuse::cuda
