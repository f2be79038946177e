// CUDA C++ text of the pointwise ops on scalars, with PyTorch's semantics (NaN passes through min, max, clamp, relu)
// and accuracy. The functions the text calls are in device_math(), which every generated source that uses them must
// contain.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "transfuse/graph.h"

namespace transfuse::cuda {

enum class Real : uint8_t { f32, f64 };  // what arithmetic is done in: f64 for f64 values, else f32
Real real_of(DType dtype);
std::string_view real_name(Real real);       // "float", "double"
std::string_view storage_name(DType dtype);  // "double", "float", "tf_half", "tf_bfloat": types of device_math()

std::string literal(double value, Real real);  // round-trips; inf and nan included

// The op of `node` applied to operands of type `real` (texts of variables or parenthesised expressions).
std::string expression(const Node& node, std::span<const std::string> operands, Real real);

// Self-contained device code: storage types tf_half and tf_bfloat (16-bit patterns), tf_load<R>(const S*) and
// tf_store(S*, R) between storage and arithmetic types, vectors of 16 bytes, and the math the expressions call.
std::string_view device_math();
// Waiting for the kernel before, and letting the next one start, on devices that can (nothing elsewhere).
std::string_view sequence_code();

}  // namespace transfuse::cuda
