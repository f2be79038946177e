// Bounds of what assembling a plan tries: chosen so that planning ends in time, none of them fitted.
#pragma once

#include <cstddef>

namespace transfuse::cuda::figures::assemble {

inline constexpr double worthwhile = 1e6;     // flops from which a product's layout is weighed
inline constexpr int most_spilled = 512;      // bytes a dense kernel may spill: a few values of its slowest role
inline constexpr size_t most_attempts = 6;    // configurations a pass may try where some do not compile or spill
inline constexpr size_t candidates = 24;      // under autotune: configurations measured for a pass,
inline constexpr int rounds = 7;              // how often, of which the median counts,
inline constexpr size_t flushed = 128 << 20;  // and bytes written in between: more than any L2

}  // namespace transfuse::cuda::figures::assemble
