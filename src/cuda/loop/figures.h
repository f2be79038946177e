// How a loop of rows shares a row among threads: what each figure stands for. Chosen on an H200; nobody knows more.
#pragma once

#include <cstdint>

namespace transfuse::cuda::figures::loop {

inline constexpr int64_t most_in_registers = 64;  // elements of a row that a thread holds
// Of a row along which its threads lie, up to so many elements a warp holds it, each thread about so many; of a longer
// row more threads, each about twice as many.
inline constexpr int64_t row_of_a_warp = 1024, share_of_a_warp = 8, share_of_a_block = 16;
inline constexpr int64_t most_group = 1024;  // threads of a row
// Of rows whose elements lie apart, each held by all warps of a block: elements that leave its threads registers to
// spare.
inline constexpr int64_t warps_of_a_row = 32, share_of_a_row = 16;

}  // namespace transfuse::cuda::figures::loop
