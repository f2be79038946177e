// From a schedule to CUDA C++.
#pragma once

#include <string>

#include "cuda/dense/read/epilogue.h"
#include "cuda/dense/schedule/schedule.h"

namespace transfuse::cuda {

std::string dense_source(const std::string& entry, const Problem& problem, const Config& config,
                         const Schedule& schedule, const Epilogue& epilogue);

}  // namespace transfuse::cuda
