#include "cuda/kernel/expression.h"

namespace transfuse::cuda {

namespace {

constexpr std::string_view math =
#include "cuda/device/values/math.cuh"
    ;
constexpr std::string_view launch =
#include "cuda/device/machine/launch.cuh"
    ;

}  // namespace

std::string_view device_math() { return math; }
std::string_view sequence_code() { return launch; }

}  // namespace transfuse::cuda
