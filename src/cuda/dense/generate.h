// From a schedule to CUDA C++: the kernel itself, and the kernel that packs its weights.
#pragma once

#include <string>

#include "cuda/dense/epilogue.h"
#include "cuda/dense/schedule.h"

namespace transfuse::cuda {

std::string dense_source(const std::string& entry, const Problem& problem, const Config& config, const Schedule& schedule, const Epilogue& epilogue);
std::string pack_source(const std::string& entry, const Problem& problem, const Config& config, const Schedule& schedule, DType weight);

}  // namespace transfuse::cuda
