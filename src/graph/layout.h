// Orders of a tensor's axes in memory, beside the contiguous one.
#pragma once

#include <algorithm>

#include "transfuse/tensor.h"

namespace transfuse {

// Of a tensor of rank 3 or more: channels are neighbours, then the axes from the last to the third.
inline Sizes channels_last_strides(const Sizes& shape) {
    Sizes strides(shape.size());
    int64_t step = 1;
    const auto place = [&](size_t axis) {
        strides[axis] = step;
        step *= std::max<int64_t>(shape[axis], 1);
    };
    place(1);
    for (size_t axis = shape.size() - 1; axis >= 2; --axis) place(axis);
    place(0);
    return strides;
}

}  // namespace transfuse
