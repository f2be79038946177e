// Rules for what is summed or compared: sums, means, variances, maxima, and what a difference takes away again.
// collapse.h has the questions that other rooms ask.
#pragma once

#include <span>

#include "algebra/rewriter/rule.h"

namespace transfuse {

std::span<const Rule> reduction_rules();   // reductions with what is constant along their axes, and with each other
std::span<const Rule> collapse_rules();    // sums and means move before a convolution
std::span<const Rule> box_rules();         // box sums do, too
std::span<const Rule> centred_rules();     // means of centred values
std::span<const Rule> cancel_rules();      // what a subtraction takes away again
std::span<const Rule> statistics_rules();  // variances of a convolution's result
std::span<const Rule> monotone_rules();    // monotone ops after max and min

}  // namespace transfuse
