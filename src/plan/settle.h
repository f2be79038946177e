// From a draft to a plan: what is live, what is stored, what is read, in which order, at what cost.
#pragma once

#include "plan/draft.h"

namespace transfuse {

// The plan without its graph, which the caller has: it is made many times and kept once.
Plan settle(const Draft& draft);

// What the passes of a plan, and so all of it, cost. (None of it was counted yet.)
void estimate(const Facts& facts, Plan& plan);

}  // namespace transfuse
