// The tile program on the accumulators themselves, in the product warps' registers: for programs that keep nothing but
// reductions over whole images (statistics of a norm, the mean of a pool). Nothing goes through shared memory, there is
// no store role, and what remains costs a few instructions an element.
#pragma once

#include <string>

#include "cuda/dense/read/epilogue.h"

namespace transfuse::cuda {

// struct Fragments, and FRAGMENTS.
std::string statistics_program(const Epilogue& epilogue, const Schedule& schedule, const Config& config);

// Rows of partials it writes, a tile or a CTA.
int fragment_writers(const Config& config);
bool fragment_rows_per_tile(const Epilogue& epilogue, const Schedule& schedule);

}  // namespace transfuse::cuda
