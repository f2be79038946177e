// Results that go from the accumulators directly to memory: the product warps run the chain on them and store them
// themselves, in any layout. A block of eight pixels of a row and channel is a whole sector of fp32. There is no store
// role, whose registers the accumulators take, and no shared memory but for the operands: for long sums, where the
// stores are a small part of a tile.
#pragma once

#include <string>

#include "cuda/dense/read/epilogue.h"

namespace transfuse::cuda {

// struct Fragments of such a chain; runs are strips.
std::string direct_program(const Epilogue& epilogue, const Schedule& schedule);

}  // namespace transfuse::cuda
