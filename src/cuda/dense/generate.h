// From a schedule to CUDA C++.
#pragma once

#include <string>
#include <string_view>

#include "cuda/dense/epilogue.h"
#include "cuda/dense/schedule.h"

namespace transfuse::cuda {

std::string dense_source(const std::string& entry, const Problem& problem, const Config& config,
                         const Schedule& schedule, const Epilogue& epilogue);
std::string_view element_name(Arithmetic arithmetic);  // of an operand in shared memory

}  // namespace transfuse::cuda
