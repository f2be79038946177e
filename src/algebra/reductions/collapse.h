// Means of a convolution's result, from its input.
#pragma once

#include "algebra/rewriter/rewriter.h"

namespace transfuse {

// The reduction `id` (sum or mean, dims kept) over space before the convolution that its operand is made of by scales
// and shifts; −1 where it is of none.
ValueId collapse(Rewriter& r, ValueId id);

// The reduction moved before a convolution in any of the ways that rules know: over space, weighted, over channels or batch.
ValueId moved_before(Rewriter& r, ValueId id);

// Σ_o m[o]·y[o] of a convolution y over all of space, m the same for all channels, as a correlation of its input with
// m; −1 where `id` is no such sum (or mean).
ValueId weighted_collapse(Rewriter& r, ValueId id);

// The same of what resamples, weighted by numbers that are products over the axes; −1 where `id` is of none.
ValueId collapse_resampled(Rewriter& r, ValueId id);

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
