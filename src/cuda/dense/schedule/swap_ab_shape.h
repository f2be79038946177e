// How the results of a swap-AB product are laid down in shared memory (swap_ab_stores.h).
#pragma once

#include <algorithm>

#include "cuda/dense/schedule/schedule.h"

namespace transfuse::cuda {

constexpr int swap_ab_pixels = 64;  // rows of a product
constexpr int most_swap_ab = 128;   // accumulators of a thread: the chain needs registers beside them

// Rows of outputs, one a channel, some channels at a time. A piece of a row lies as far from a multiple of 16
// bytes as it will in memory.
struct SwapAbShape {
    int vector = 4;                // elements of 16 bytes
    int columns = 64;              // outputs along w of a window
    int channels = 16, parts = 1;  // at a time (`Config::chunk_width`), and how often; two parts lie side by side
    int pitch = 0;                 // elements from a channel to the next
};

inline SwapAbShape swap_ab_shape(int element, const Config& c, const Schedule& s) {
    SwapAbShape shape;
    shape.vector = 16 / element, shape.columns = swap_ab_pixels * s.phases_w;
    shape.channels = std::min(c.chunk_width, s.operand_rows);
    shape.parts = (s.operand_rows + shape.channels - 1) / shape.channels;
    // Two pieces of rows, each shifted; neighbouring channels of a lane lie in other banks.
    shape.pitch = shape.columns + 2 * shape.vector;
    const int banks = element == 4 ? 16 : 32, first = element == 4 ? 4 : 8;
    while (shape.pitch % banks != first) shape.pitch += 4;
    return shape;
}

// Of a warpgroup; channels that lie side by side in memory go there at once.
inline int swap_ab_bytes(const Needs& needs, const Config& c, const Schedule& s) {
    const int element = static_cast<int>(needs.element_bytes);
    if (needs.pixel_major) return 0;
    const SwapAbShape shape = swap_ab_shape(element, c, s);
    return 2 * shape.channels * shape.pitch * element;
}

}  // namespace transfuse::cuda
