// How a dense pass is cut into tiles: the configuration that was asked for, or the best estimate of all ways its
// results can go.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cuda/dense/choose/choose.h"
#include "cuda/dense/choose/request.h"

namespace transfuse::cuda {

struct Cut {
    Config config;
    std::shared_ptr<const Schedule> schedule;
    bool found = false;  // by the schedule's key, among those written
};

// The configuration asked for where it fits, else (unless it is that or none) the heuristic's best. Many times the work
// is the work of a machine so many times smaller.
std::optional<Cut> chosen(Request& request, const Surroundings& around, const TextOptions& options);

// The configurations of a request, best estimate first: on the accumulators where the chain can run there and a tile
// fits, else through chunks; then, where several are wanted, those whose results go directly to memory.
std::vector<Choice> choices_of(Request& request, const Target& target, size_t most);

}  // namespace transfuse::cuda
