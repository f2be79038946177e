#include "cuda/kernel/product_code.h"

#include <string_view>

namespace transfuse::cuda {

namespace {

constexpr std::string_view mma =
#include "cuda/device/machine/mma.cuh"
    ;
constexpr std::string_view strict_product =
#include "cuda/device/machine/strict_product.cuh"
    ;
constexpr std::string_view rounded_product =
#include "cuda/device/machine/rounded_product.cuh"
    ;

}  // namespace

std::string product_code(bool strict) { return std::string(mma).append(strict ? strict_product : rounded_product); }

}  // namespace transfuse::cuda
