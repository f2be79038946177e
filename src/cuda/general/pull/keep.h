// Which values a pull kernel computes once and keeps, and which sums a group of threads shares.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "cuda/general/pull/pull.h"

namespace transfuse::cuda {

using SinkPlaces = std::map<ValueId, std::vector<Place>>;

// Sums that lie in slots, and all that is stored of what follows from them element by element: one job, since nothing
// there waits for another's threads.
struct Finish {
    std::vector<ValueId> folds, sinks;
};

struct Keeping {
    std::set<ValueId> kept;
    std::map<ValueId, ValueId> fold_of;  // root of a job -> the fold its threads share
    std::vector<Finish> finishes;        // their folds and sinks are in none of the above
};

// Blocks per output block, so that a reduction to few elements fills the device.
int64_t splits_of(const PullRequest& request, ValueId fold);

Keeping what_to_keep(const PullRequest& request, const SinkPlaces& sinks);

}  // namespace transfuse::cuda
