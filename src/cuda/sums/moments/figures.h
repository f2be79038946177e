// What was measured or fitted for box sums: what each figure stands for, and where it comes from. Where nothing
// is said nobody knows more than that it served on an H200 when it was chosen.
#pragma once

#include <cstdint>

namespace transfuse::cuda::figures::moments {

inline constexpr int64_t least_summed = 512;  // elements of a sum; of fewer the general kernel is as fast
namespace by_cells {
inline constexpr int64_t most_cells = 128;
inline constexpr int64_t most_at_once = 512;        // sums of cells that a block joins in shared memory together
inline constexpr int64_t busy_blocks = 8;           // a multiprocessor: with fewer, threads share a column
inline constexpr int64_t most_held = 32;            // sums in a thread's registers
inline constexpr int64_t chunk_bytes = 256 * 1024;  // measured: 64 KB is 6 % slower on 1 GB, no difference on 64 MB
}  // namespace by_cells
namespace by_rows {
inline constexpr int64_t block_bytes = 32 * 1024;  // of the input that a block reads, about
inline constexpr int64_t shared_doubles = 4096;    // for the sums of its rows
inline constexpr int64_t most_boxes = 1536;
inline constexpr int at_once = 4;  // rows whose loads are in flight together
}  // namespace by_rows

}  // namespace transfuse::cuda::figures::moments
