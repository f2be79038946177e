// Swap-AB products: 64 pixels are the rows of an accumulator and all channels its columns, so that the channels of a
// pixel lie in four neighbouring lanes, and reductions over them take a few exchanges within a warp. The product warps
// run the whole chain on their accumulators, lay rows of outputs down in shared memory, and store them in vectors of 16
// bytes wherever they begin; what is left at the ends of rows is stored singly. There is no store role.
#pragma once

#include <string>

#include "cuda/dense/read/epilogue.h"
#include "cuda/kernel/hooks.h"

namespace transfuse::cuda {

// What the text of places (src/cuda/device) has for tiles of such products.
void place_windows(Hooks& places, const Schedule& schedule);

// struct Fragments of such a chain.
std::string swap_ab_program(const Epilogue& epilogue, const Config& config, const Schedule& schedule);

}  // namespace transfuse::cuda
