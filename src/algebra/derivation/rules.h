// All rules, in the order they are tried.
#pragma once

#include <vector>

#include "algebra/rewriter/rule.h"

namespace transfuse {

const std::vector<const Rule*>& all_rules();

}  // namespace transfuse
