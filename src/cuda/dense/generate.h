// From a schedule to CUDA C++: the kernel itself, the kernel that packs its weights, and the one that combines partials.
#pragma once

#include <string>

#include "cuda/dense/epilogue.h"
#include "cuda/dense/schedule.h"

namespace transfuse::cuda {

std::string dense_source(const std::string& entry, const Problem& problem, const Config& config, const Schedule& schedule, const Epilogue& epilogue);
std::string pack_source(const std::string& entry, const Problem& problem, const Config& config, const Schedule& schedule, DType weight);

// out[kept] = op over the reduced axes of a contiguous tensor of `real`.
std::string combine_source(const std::string& entry, Op op, Real real);

}  // namespace transfuse::cuda
