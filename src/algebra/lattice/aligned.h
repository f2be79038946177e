// Lattices of one input and one kind of result on common taps.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "transfuse/graph.h"

namespace transfuse {

struct Aligned {
    Lattices axes;
    std::vector<std::vector<std::vector<int64_t>>> tap;  // [lattice][axis][own tap]: the common tap, −1: never met
};
// nullopt where steps of input and result differ, or nothing flows.
std::optional<Aligned> aligned(std::span<const Lattices> lattices);

}  // namespace transfuse
