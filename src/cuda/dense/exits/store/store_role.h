// The text of the store role: takes chunks of accumulators from shared memory, runs the tile program on them, feeds the
// sinks.
#pragma once

#include <string>

#include "cuda/dense/read/epilogue.h"

namespace transfuse::cuda {

std::string store_role(const Epilogue& epilogue, const Schedule& schedule, const Config& config);

}  // namespace transfuse::cuda
