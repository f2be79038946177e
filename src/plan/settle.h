// From a draft to a plan: what is live, what is stored, what is read, in which order, at what cost.
#pragma once

#include "plan/draft.h"

namespace transfuse {

Plan settle(const Draft& draft);

}  // namespace transfuse
