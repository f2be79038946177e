// Packed weights: the operand tiles a dense kernel multiplies with, as a job for the launch that prepares weights.
#pragma once

#include "cuda/dense/schedule/schedule.h"
#include "cuda/general/pull/pull.h"

namespace transfuse::cuda {

// weight: canonical [G, Cin, Cout, K…]; it is evaluated where it is packed, so a folded weight needs no memory of its
// own. to: where the tiles go.
ExtraJob pack_job(const Problem& problem, const Config& config, std::shared_ptr<const Schedule> schedule,
                  ValueId weight, int spatial, const Argument& to);

int64_t packed_bytes(const Config& config, const Schedule& schedule);

}  // namespace transfuse::cuda
