// Whether the mean of a convolution's result is worth a reading of its input.
#pragma once

#include "algebra/rewriter.h"

namespace transfuse {

// True for a lattice (or a widened one) much larger than its input: its means over space come from box sums, and what is
// squared next is centred around them. Leaves a margin, so that the cost check does not say otherwise later.
bool collapse_pays(const Rewriter& r, ValueId y);

}  // namespace transfuse
