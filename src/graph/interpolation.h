// Linear interpolation along one axis: output o lies at source(o) among the inputs, and is the weighted mean of both
// neighbours.
//
//     source(o) = step·o                            with corners aligned, step = (in − 1)/(out − 1)
//     source(o) = max(0, step·(o + ½) − ½)          else, step = in/out or 1/scale
#pragma once

#include <vector>

#include "transfuse/graph.h"

namespace transfuse {

struct Interpolation {
    int64_t in = 1, out = 1;
    double step = 1;
    bool corners = false;

    struct Between {
        int64_t first, second;
        double weight;  // of the second
    };
    Between between(int64_t o) const;
    // Inputs one apart lie at most so many outputs apart, those that meet one of two neighbours counted.
    int64_t reach() const;
};

// Of an interpolate or interpolate_grad: one for each of the last axes, of extents `in` and `out` there.
std::vector<Interpolation> interpolations(const Node& node, const Sizes& in, const Sizes& out);

}  // namespace transfuse
