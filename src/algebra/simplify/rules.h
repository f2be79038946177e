// Rules that change the form of a graph and no product: identities, numbers, shapes of shapes, what is undone again,
// and the form that the planner likes.
#pragma once

#include <span>

#include "algebra/rewriter/rule.h"

namespace transfuse {

std::span<const Rule> simplify_rules();     // identities and numbers
std::span<const Rule> constant_rules();     // scales, shifts and clamps by numbers, merged
std::span<const Rule> shape_rules();        // reshapes of reshapes, taps of taps
std::span<const Rule> permutation_rules();  // permutations that are undone again
std::span<const Rule> finish_rules();       // reshapes sink, axes on which nothing happens go

}  // namespace transfuse
