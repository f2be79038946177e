// Values that are made of numbers alone, as numbers.
#pragma once

#include <optional>
#include <vector>

#include "algebra/rewriter/rewriter.h"

namespace transfuse {

// The elements of v, row-major; none where it is made in another way than by constants, views of them and products, or
// has many.
std::optional<std::vector<double>> literal(const Rewriter& r, ValueId v);

}  // namespace transfuse
