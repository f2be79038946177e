// The form of a graph that is differentiated.
#pragma once

#include "transfuse/algebra.h"

namespace transfuse {

// As rewritten; or, where that left a convolution in two forms, dense and collapsed, whose gradients would meet as a
// difference of large terms, rewritten without that, unless it costs twice as much.
struct Differentiable {
    Graph forward;
    RewriteOptions options = {};  // for its gradient
};
Differentiable differentiable(const Graph& written, const GradientRequest& request, const Prices& prices = {});

}  // namespace transfuse
