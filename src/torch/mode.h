// The bits of the operators' `mode` argument; python/transfuse/library.py holds the same.
#pragma once

#include <cstdint>

namespace transfuse::mode_bits {

inline constexpr int64_t freeze = 1, inference = 2, tf32 = 4, reference = 8, keep = 16, autotune = 32;

}  // namespace transfuse::mode_bits
