// Whether the mean of a convolution's result is worth a reading of its input.
#pragma once

#include "algebra/rewriter.h"

namespace transfuse {

// True for a mean over all of space of a lattice (or a widened one) much larger than its input: it comes from box sums, and
// what is squared next is centred around it. Statistics of single rows come with the rows, without another pass. Leaves a
// margin, so that the cost check does not say otherwise later.
bool collapse_pays(const Rewriter& r, ValueId y, const Sizes& dims);

}  // namespace transfuse
