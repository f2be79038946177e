// The heuristic: which tile for which problem. Nothing here is needed for correctness.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/dense/schedule/schedule.h"

namespace transfuse::cuda {

struct Choice {
    Config config;
    Schedule schedule;
    double seconds = 0;  // estimate
    double waves = 0;    // tiles a multiprocessor
    int variants = 1;    // tiles at one place, each with some of the phases
    double pixels = 0;   // a warpgroup holds at once, of all its phases, those beyond the image not counted
};

// Tiles of a round. larger: of a problem so many times as large as the one at hand.
inline int tiles_a_round(const Target& target, int larger = 1) { return std::max(1, target.multiprocessors / larger); }

// Configurations worth a try, best estimate first. With most = 1 the heuristic decides; else they are unlike one
// another, for measuring them. larger: those that are good for problems so many times as large.
std::vector<Choice> choose(const Problem& problem, const Needs& needs, const Target& target, size_t most = 1,
                           int larger = 1);

// How long a configuration takes, in seconds: an estimate, to be compared with others of this function. whole: every
// round of tiles is counted as a full one, however many there are.
double estimate(const Problem& problem, const Needs& needs, const Config& config, const Schedule& schedule,
                int tiles_a_round, bool whole = false);

}  // namespace transfuse::cuda
