// What was measured or fitted for products on ordinary arithmetic: what each figure stands for, and where it comes
// from. Where nothing is said nobody knows more than that it served on an H200 when it was chosen.
#pragma once

#include <cstdint>

namespace transfuse::cuda::figures {

namespace thin {
// Channels whose products in strict fp32 would leave most of a tensor core's 64 rows empty, three times over.
inline constexpr int64_t most_few = 8;
inline constexpr int64_t enough_threads = 512;  // a multiprocessor, for long sums
// Of a long sum so many terms are added before they meet the others, so that rounding stays small.
inline constexpr int64_t most_terms = 256;
// Products one behind another in a sum; of longer ones each column's are added up first, or rounding would pile up.
inline constexpr int64_t most_chain = 32;
inline constexpr int64_t most_block = 16;  // channels of a thread
inline constexpr int64_t sums = 64;        // of a thread, in registers
}  // namespace thin

namespace cells {
inline constexpr int64_t most_inputs = 48;         // of a thread, in registers
inline constexpr int64_t most_channels = 16;       // of a thread: a sum each, for every cell
inline constexpr int64_t least_share = 8;          // of a thread that leaves other channels to other blocks: all load
                                                   // the inputs
inline constexpr int64_t most_input_channels = 4;  // more of them are tensor cores' work
}  // namespace cells

namespace grouped {
inline constexpr int64_t most_threads = 256;
inline constexpr int64_t most_sums = 96;           // of a thread, in registers
inline constexpr int64_t most_products = 4096;     // of a thread, written out
inline constexpr int64_t most_shared = 40 * 1024;  // bytes of staged weights
inline constexpr int64_t rows = 4;  // of a thread, or a few more: inputs above and below serve all of them
// Wider groups are matrices for tensor cores, if not small ones: H200, k4 s2, 16x256x48x48: in groups of 4 0.079 ms
// here and 0.288 there, in groups of 8 0.159 and 0.163.
inline constexpr int64_t small_products = 16;                 // channels in times channels out that are no matrix
inline constexpr int64_t narrow = 4, wide = 8, of_wide = 32;  // channels; products of an output in wide groups
}  // namespace grouped

namespace grouped_gradient {
inline constexpr int64_t most_sums = 64;        // of a thread: a tap each
inline constexpr int64_t most_products = 2048;  // of a thread, written out
}  // namespace grouped_gradient

}  // namespace transfuse::cuda::figures
