// Which values a pull kernel computes once and keeps, and which sums a group of threads shares.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "cuda/pull.h"

namespace transfuse::cuda {

using SinkPlaces = std::map<ValueId, std::vector<Place>>;

struct Keeping {
    std::set<ValueId> kept;
    std::map<ValueId, ValueId> fold_of;  // root of a job -> the fold its threads share
};

Keeping what_to_keep(const PullRequest& request, const SinkPlaces& sinks);

}  // namespace transfuse::cuda
