// The tap loop of a dense kernel: each line one window of the patch times one tile of weights.
#pragma once

#include <string>

#include "cuda/dense/schedule/schedule.h"

namespace transfuse::cuda {

// The device function `multiply` of every variant and warpgroup, with the tables it reads.
std::string multiply_function(const Problem& problem, const Config& config, const Schedule& s);

}  // namespace transfuse::cuda
