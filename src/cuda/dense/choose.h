// The heuristic: which tile for which problem. Nothing here is needed for correctness.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/dense/schedule.h"

namespace transfuse::cuda {

struct Choice {
    Config config;
    Schedule schedule;
    double seconds = 0;   // estimate
    int accumulators = 0; // registers of a product thread
};

// What tuning turns: a configuration generate_dense takes instead of the best estimate.
extern thread_local const Config* forced_config;

// All configurations worth a try, best estimate first; at most `most`.
std::vector<Choice> choose(const Problem& problem, const Needs& needs, int multiprocessors, int shared_limit, size_t most = 1);

}  // namespace transfuse::cuda
