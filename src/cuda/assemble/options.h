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
};

}  // namespace transfuse::cuda
