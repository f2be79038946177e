// Tiles that go through the steps along K to and fro. The weights of a step are a slab; what one tile ended with, the
// ring still holds, and the next tile begins with it. So a ring of half the weights halves what comes from the L2, and
// one of all of them keeps them for good. A block keeps to one part of the phases.
#pragma once

#include "cuda/dense/schedule/schedule.h"
#include "cuda/kernel/hooks.h"

namespace transfuse::cuda {

bool serpentine(const Problem& problem, const Config& config, const Schedule& schedule);

// What the texts of places and of loads by boxes (src/cuda/device) have for such tiles.
void serpentine_places(Hooks& places);
Hooks serpentine_loads(const Schedule& s);

}  // namespace transfuse::cuda
