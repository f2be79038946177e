// The machine that kernels' texts ask: PTX in one-line functions (src/cuda/device), and the products of a warpgroup.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace transfuse::cuda {

std::string_view ptx_code();  // what every architecture since sm_80 has

// Where a product's left factor, of 64 rows, comes from. In shared memory both are descriptors, and whether the product
// is added to the sums is an argument; from registers it always is.
enum class LeftFactor { shared, registers };

// Hopper's machine, behind ptx_code(), with `product`: one wgmma whose lanes have `sums` each, of factors of this type
// (tf32, f16, bf16).
std::string warpgroup_code(const std::string& type, int64_t sums, LeftFactor left);

}  // namespace transfuse::cuda
