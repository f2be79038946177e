// Means of a convolution's result, from its input.
#pragma once

#include "algebra/rewriter.h"

namespace transfuse {

// True for a mean over all of space of a lattice (or a widened one) much larger than its input: it comes from box sums,
// and what is squared next is centred around it. Statistics of single rows come with the rows, without another pass.
// Leaves a margin, so that the cost check does not say otherwise later.
bool collapse_pays(const Rewriter& r, ValueId y, const Sizes& dims);

// E[y] over dims, all of space among them, by the collapse; −1 where y is no lattice, scaled and shifted.
ValueId collapsed_mean(Rewriter& r, ValueId y, const Sizes& dims);

// e in d − e, where e is the mean of d over all of space and more: it takes away the rounding that all elements of d
// share. A value that is made of d by another route (a collapsed mean, a composed pool) does not share that rounding,
// and must have its own exact mean taken away instead.
bool is_own_mean(const Rewriter& r, ValueId d, ValueId e);

}  // namespace transfuse
