// The configurations of swap-AB products (swap_ab_stores.h): they have one run, so that there is less to choose.
#pragma once

#include <optional>

#include "cuda/dense/choose/choose.h"

namespace transfuse::cuda {

// The best estimate, or nullopt where none fits.
std::optional<Choice> choose_swap_ab(const Problem& problem, const Needs& needs, const Target& target, int larger = 1);

}  // namespace transfuse::cuda
