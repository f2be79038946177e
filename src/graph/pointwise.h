// What the pointwise ops compute, as functions of real numbers. NaN goes through as in PyTorch.
#pragma once

#include <functional>

#include "transfuse/graph.h"

namespace transfuse {

// Of one, two or three numbers, as the op has operands; the others are ignored.
using PointwiseFunction = std::function<double(double, double, double)>;
PointwiseFunction pointwise_function(Op op, const Attributes& attributes);

}  // namespace transfuse
