// How the axes of a reshape correspond: the shortest runs of axes on either side with equally many elements.
#pragma once

#include <optional>
#include <vector>

#include "transfuse/tensor.h"

namespace transfuse {

struct AxisBlock {
    size_t x0, x1, y0, y1;  // axes [x0, x1) of x become axes [y0, y1) of y
};

// None for empty tensors, whose elements correspond to nothing.
inline std::optional<std::vector<AxisBlock>> reshape_blocks(const Sizes& x, const Sizes& y) {
    std::vector<AxisBlock> blocks;
    size_t i = 0, j = 0;
    while (i < x.size() || j < y.size()) {
        AxisBlock block{i, i, j, j};
        int64_t left = i < x.size() ? x[i++] : 1, right = j < y.size() ? y[j++] : 1;
        while (left != right) {
            if (left == 0 || right == 0 || (left < right ? i == x.size() : j == y.size())) return std::nullopt;
            if (left < right)
                left *= x[i++];
            else
                right *= y[j++];
        }
        if (left == 0) return std::nullopt;
        block.x1 = i;
        block.y1 = j;
        blocks.push_back(block);
    }
    return blocks;
}

}  // namespace transfuse
