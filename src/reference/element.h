// Elements in memory: rounding to 16 and 32 bits, and strided tensors read and written as doubles.
#pragma once

#include <vector>

#include "transfuse/tensor.h"

namespace transfuse::reference {

// The nearest value of the dtype, ties to even; past the largest: infinity.
double rounded(double value, DType dtype);

uint16_t f16_bits(double value);  // of a value rounded() to f16
uint16_t bf16_bits(double value);
double from_f16(uint16_t bits);
double from_bf16(uint16_t bits);

std::vector<double> load(const TensorView& view);
void store(const TensorView& view, const std::vector<double>& values);

}  // namespace transfuse::reference
