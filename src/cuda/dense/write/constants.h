// What a dense kernel's text knows of its schedule: constants and small tables, which its roles (src/cuda/device) are
// written in.
#pragma once

#include <string>
#include <string_view>

#include "cuda/dense/read/epilogue.h"
#include "cuda/dense/schedule/schedule.h"

namespace transfuse::cuda {

std::string_view element_name(Arithmetic arithmetic);  // of an operand in shared memory

std::string dense_constants(const Problem& problem, const Config& config, const Schedule& schedule,
                            const Epilogue& epilogue);

}  // namespace transfuse::cuda
