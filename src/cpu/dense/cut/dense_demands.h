// What a dense pass asks of the way its convolution is cut.
#pragma once

#include <array>
#include <cstdint>

namespace transfuse::cpu {

struct DenseDemands {
    std::array<int64_t, 3> window{1, 1, 1};  // pool windows that must not be cut
    int64_t resident_planes = 0;             // planes a tile keeps
    int64_t element_bytes = 4, lanes = 4;    // of a number, of a vector
    int64_t panel_rows = 4;                  // most output channels of a product
    bool cuts_channels = true;               // a tile's output channels may be shared among threads
    bool pairs = true;                       // outputs may come in pairs

    // Pairs save products and take more of the second-level cache, the more so the wider vectors are. Its speed differs
    // between machines more than that of products, and what shares a core halves it: estimated cycles are multiplied
    // with this where outputs come in pairs along an axis.
    double pair_doubt() const { return 1 + 0.011 * static_cast<double>(lanes); }
    // And with this along a second one: sums, 16 for every four outputs, then pass through the third level.
    double second_pair_doubt() const { return 1 + 0.025 * static_cast<double>(lanes); }
};

}  // namespace transfuse::cpu
