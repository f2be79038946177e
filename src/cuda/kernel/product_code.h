// Products of warps on tensor cores, for kernels that are written for any architecture.
#pragma once

#include <string>

namespace transfuse::cuda {

// tf_product(c, x, y): c += x·y, tiles of 16 x 8 and 8 x 8, fragments as mma.m16n8k8 has them. strict: each factor as
// the sum of two TF32 numbers; else factors must be such numbers already (tf_tf32 rounds).
std::string product_code(bool strict);

}  // namespace transfuse::cuda
