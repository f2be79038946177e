// A weight's gradient that is returned as a view of what its products are (a convolution's lies transposed) is stored
// as that view by whoever adds up the sums, not copied by a launch of its own.
#pragma once

#include <optional>

#include "transfuse/plan.h"

namespace transfuse::cuda {

// Nothing where there is no such gradient. Passes keep their numbers: copies of outputs are the last ones.
std::optional<Plan> with_sums_in_place(const Plan& plan);

}  // namespace transfuse::cuda
