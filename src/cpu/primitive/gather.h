// Sums, largest or smallest elements along axes, where each place of the result takes places of its own: windows that
// overlap, reach into padding or vary in size, boxes, and the gradients of all of them. One axis goes after another,
// the first first, so that nearly all of the work is on whole rows.
#pragma once

#include <vector>

#include "transfuse/tensor.h"

namespace transfuse::cpu {

struct Gather {
    enum class Kind : uint8_t { sum, max, min } kind;
    struct Axis {
        size_t axis;
        std::vector<std::vector<int64_t>> from;  // of each place of the result, the places that it takes, ascending
    };
    std::vector<Axis> axes;  // ascending
    // Divisors of the elements in a plane (of the first of these axes and all behind it): of what is taken, of the
    // result; or none.
    std::vector<double> before{}, after{};
};

// out = in, gathered; other axes have the same extent on both sides. A place that takes nothing is 0, −∞ or ∞.
void gather(const Gather& how, const TensorView& in, const TensorView& out, int threads);

}  // namespace transfuse::cpu
