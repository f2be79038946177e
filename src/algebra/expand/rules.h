// Rules that say an op with primitives: the lowering. Each removes an op that no rule makes.
#pragma once

#include <span>

#include "algebra/rewriter/rule.h"

namespace transfuse {

std::span<const Rule> expand_pointwise_rules();  // ops that are others in disguise
std::span<const Rule> expand_conv_rules();
std::span<const Rule> expand_pool_rules();
std::span<const Rule> expand_interpolate_rules();
std::span<const Rule> expand_norm_rules();

}  // namespace transfuse
