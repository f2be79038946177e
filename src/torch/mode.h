// The bits of the operators' `mode` argument; python/transfuse/native/library.py holds the same.
#pragma once

#include <cstdint>

namespace transfuse::mode_bits {

// own_memory: scratch memory is taken anew for the call, and given back: a CUDA graph's pool counts what stays.
// TF32 is asked for in forward and in backward by a bit each: PyTorch may use it in one and not in the other.
inline constexpr int64_t freeze = 1, inference = 2, tf32 = 4, reference = 8, autotune = 32, tf32_backward = 64,
                         lean = 128, own_memory = 256;
// Above these the number of Program::products().
inline constexpr int products_shift = 16;

}  // namespace transfuse::mode_bits
