// What the planner counts with beside a machine's rates (machine.cpp): what each figure stands for, and where it comes
// from.
#pragma once

#include <cstdint>

namespace transfuse::figures::plan {

// Matrix and vector units take channels in groups of `granule`. Tensor cores multiply `rows` at a time, of which phases
// share those that channels leave, in parts of no fewer than `fewest_rows`. Properties of the units.
inline constexpr int64_t granule = 8, rows = 64, fewest_rows = 8;

inline constexpr double next_to_nothing = 1 << 16;  // flops of a product that any pass may hold; chosen, not measured
inline constexpr int64_t few_elements = 1 << 14;    // a chain on so few needs no parallel loop; chosen, not measured

// Patches overlap: how often a prologue is evaluated on an element. The middle of what patches of 3 to 5 taps have.
inline constexpr double overlap = 1.25;
// Those who load (three warps) evaluate prologues at this share of a tile program's rate, once for so many output
// channels: gelu on 16.8 M elements before a 1×1 convolution of 21 channels took 0.14 ms on an H200.
inline constexpr double loading_share = 0.2;
inline constexpr int64_t loaded_for = 128;

inline constexpr double reread = 1.1;     // bytes read to make a value again over those of storing it; chosen
inline constexpr double as_quick = 1.01;  // estimates as near as this are equal
inline constexpr double grain = 1 << 20;  // bytes: orders of passes that differ by less need the same memory

}  // namespace transfuse::figures::plan
