// The boxes of pixels that an accumulator may hold.
#pragma once

#include <array>
#include <vector>

#include "cuda/dense/schedule/schedule.h"

namespace transfuse::cuda {

struct Run {
    Config config;  // of which it decides the run, and whether that is a strip
    double score;   // the share of all tiles that is inside the image, long rows preferred
    int pixels;
};

// The best of every length, then strips. tight: short rows as well. several: to be measured, not to be chosen from.
std::vector<Run> runs_of(const Problem& problem, const Needs& needs, bool tight, bool several);

// u extents of the problem, along every axis.
std::array<int64_t, 4> u_extents(const Problem& problem);
// Where a strip cuts rows of planes that leave through chunks.
bool strips_cut_rows(const Problem& problem, const Needs& needs);

}  // namespace transfuse::cuda
