// Reductions over channels (softmax, norms, whatever a chain has of them) on the accumulators: the four product warps
// that hold a pixel's channels meet in shared memory, and hand over what comes of it; the store role runs the pointwise
// rest. Two warpgroups do that while they would wait for the store role otherwise. (Channels of both warpgroups
// together: their meetings took more than was gained, f11 0.92 → 0.99 ms.)
#pragma once

#include <string>

#include "cuda/dense/read/epilogue.h"

namespace transfuse::cuda {

// The text of the product warps' part.
std::string reduction_program(const Epilogue& epilogue);

}  // namespace transfuse::cuda
