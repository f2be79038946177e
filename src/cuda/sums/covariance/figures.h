// What was measured or fitted for covariances: what each figure stands for, and where it comes from. Where nothing
// is said nobody knows more than that it served on an H200 when it was chosen.
#pragma once

#include <cstdint>

namespace transfuse::cuda::figures::covariance {

inline constexpr int64_t few_elements = 1 << 16;  // of the result: several lanes gather each
inline constexpr int64_t most_parts = 64;         // that sums about a mean are worth
inline constexpr double busiest = 1.5;            // of a fair share of the work, that a block may have
inline constexpr int64_t many_blocks = 128;       // whose parts 16 threads add up, of fewer 4
inline constexpr int64_t stages = 3;              // planes that are on their way
inline constexpr int64_t samples = 64;            // of a channel, for a number near its mean
namespace ordinary {
inline constexpr int64_t resident = 3;             // blocks a multiprocessor holds at once
inline constexpr int64_t most_sums = 126;          // of a lane, in registers
inline constexpr int64_t most_wide_sums = 40;      // of fp64
inline constexpr int64_t most_channels = 6;        // of a block of them
inline constexpr int64_t most_terms = 128;         // of a sum in fp32
inline constexpr int64_t most_shared = 72 * 1024;  // a third of what a multiprocessor has
}  // namespace ordinary
namespace tensor_cores {
inline constexpr int64_t most_lags = 14;  // of a warp, in registers: eight each
inline constexpr int64_t most_warps = 16;
inline constexpr int64_t narrow = 8;       // a segment of so few places has one warp, others one a row
inline constexpr double most_steps = 128;  // of a sum: tensor cores cut what they add, and long sums drift
}  // namespace tensor_cores

}  // namespace transfuse::cuda::figures::covariance
