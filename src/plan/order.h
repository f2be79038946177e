// In which order passes run: each after those it reads from, with little memory in use.
#pragma once

#include <cstddef>
#include <vector>

namespace transfuse {

struct Running {
    std::vector<size_t> sources;  // the passes it reads from
    double held = 0;              // bytes of what it stores for others
    bool live = false;
};

// The live ones. Where two orders need the same memory they keep the order they are given in.
std::vector<int> in_order(const std::vector<Running>& passes);

}  // namespace transfuse
