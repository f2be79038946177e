// What was measured or fitted for weight gradients: what each figure stands for, and where it comes from. Where nothing
// is said nobody knows more than that it served on an H200 when it was chosen.
#pragma once

#include <cstdint>

namespace transfuse::cuda::figures::correlate {

inline constexpr int64_t longest_chain = 8192;  // of a slice: where there are no totals, all of it is one chain
inline constexpr int64_t few_positions = 256, few_products = 1 << 20;  // that the general kernel makes as fast
inline constexpr int64_t accumulators = 160;                           // registers of a thread that sums may take
inline constexpr int64_t accumulators_strict = 64;                     // each with its two parts beside it
inline constexpr int64_t held = 200;            // of those and of numbers on their way to shared memory
inline constexpr int64_t held_by_loaders = 64;  // of the latter, where other warps have the sums
inline constexpr int64_t most_held = 160;      // by warps that load and multiply: sums, totals and numbers on their way
inline constexpr int64_t beside_sums = 56;     // registers that such a warp has for other things
inline constexpr double faster_by_groups = 3;  // wgmma beside mma.sync
// Of a block: what it begins and ends with, in steps, and a step.
inline constexpr double begins = 12, step_seconds = 0.4e-6;

}  // namespace transfuse::cuda::figures::correlate
