// What was measured or fitted for general kernels: what each figure stands for, and where it comes from. Where nothing
// is said nobody knows more than that it served on an H200 when it was chosen.
#pragma once

#include <cstddef>
#include <cstdint>

namespace transfuse::cuda::figures {

inline constexpr double exponential = 8;     // additions that one term of a logsumexp, or of moments, takes as long as
inline constexpr double long_thread = 256;   // terms added by one thread that take longer than a barrier
inline constexpr double least_slices = 32;   // threads that share the terms of a fold
inline constexpr double often = 1.5;         // evaluations of an element: what is asked for more often is kept
inline constexpr int64_t few_slots = 2;      // more take longer to read than their sums to store
inline constexpr int64_t slots_at_once = 8;  // loaded by a thread before the first is added
inline constexpr int64_t least_vector_terms = 1024;  // of a fold whose lanes lie along its innermost loop
inline constexpr int64_t terms_of_a_warp = 2048;     // more are shared by a block
inline constexpr int64_t most_unrolled = 160, most_unrolled_rows = 8;  // terms of taps in taps, written out; rows
// Of four numbers a thread: as much as shared memory holds without asking.
inline constexpr size_t most_folds = 6;
// Consecutive levels of so little work each become the stages of one launch, in a cluster of few blocks.
inline constexpr double small_level = 1 << 19;
inline constexpr int64_t few_blocks = 64;

}  // namespace transfuse::cuda::figures
