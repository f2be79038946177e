// What lies in shared memory while tiles are made: raw pieces of the patch, stages, weights, chunks.
#pragma once

#include <vector>

#include "cuda/dense/schedule/schedule.h"

namespace transfuse::cuda {

struct MemoryPlan {
    Config config;
    double cycles;  // of a tile
};

struct MemoryAsked {
    int bytes;     // of shared memory
    bool several;  // to be measured: the best of each kind
    bool tight;    // thin slabs and small pieces as well, for patches of many taps in little shared memory
    double waves;  // rounds of tiles
};

// Of all plans that fit the one with the fewest cycles; of several kinds: resident and streamed weights, wide and
// narrow chunks, many slabs and few. s: the tile's geometry, whatever memory it has. base: what the plans share.
std::vector<MemoryPlan> memory_plans(const Problem& problem, const Needs& needs, const Schedule& s, const Config& base,
                                     const MemoryAsked& asked);

}  // namespace transfuse::cuda
