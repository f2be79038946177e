// What the product warps do with their accumulators: hand them over as they are, with the bias added or folded over
// channels (fold.h); or run the whole tile program and hand over nothing (fragments.h, tma_stores.h).
#pragma once

#include <string>

#include "cuda/dense/read/epilogue.h"

namespace transfuse::cuda {

// struct Fragments, and constants that say which of its members the product role calls.
std::string fragment_program(const Epilogue& epilogue, const Schedule& schedule, const Config& config);

}  // namespace transfuse::cuda
