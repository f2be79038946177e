// From a draft to a plan: what is live, what is stored, what is read, in which order, at what cost.
#pragma once

#include "plan/draft.h"

namespace transfuse {

// The plan without its graph, which the caller has: it is made many times and kept once.
Plan settle(const Draft& draft);

}  // namespace transfuse
