// Shifts of a convolution that is computed twice: for its statistics with its bias, which centres them, and again for
// what follows. There bias and shifts that are constant over the image,
//     v = lattice(x, w, b) ± s₁ ± s₂ …  =  lattice(x, w) − t,   t = ∓s₁ ∓ s₂ … − b,
// are one small tensor, which the tail of the pass between can compute: the tiles are shifted once.
//
// Rounding: t has the rounding of a value of its own size, and |t| ≤ |v| + |lattice(x, w)|. The product has that of
// lattice(x, w) anyway, so v is no less exact than what it is computed from; where it was shifted step by step, each
// step rounded. Not so in 16 bits, where a value without its bias would be rounded to another grid; and f64 is asked
// for where sums that cancel are to keep their last digits: there values stay as written.
#pragma once

#include "transfuse/plan.h"

namespace transfuse {

// The values of a plan that are better computed so: one of each pass that computes a convolution again, at most.
std::vector<ValueId> shifted_again(const Plan& plan);

// The graph with these values computed so.
Graph gather_shifts(const Graph& graph, const std::vector<ValueId>& values);

}  // namespace transfuse
