// compile_cuda for a program of many sizes.
#pragma once

#include <memory>

#include "transfuse/engine.h"

namespace transfuse::cuda {

class KnownKernels;  // known.h

// Sizes share the kernels in `known`, which grows; null: the best kernels for these sizes alone.
std::unique_ptr<Executable> compile_knowing(Plan plan, CompileOptions options, std::shared_ptr<KnownKernels> known);
std::shared_ptr<KnownKernels> no_kernels_yet();

}  // namespace transfuse::cuda
