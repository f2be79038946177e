// compile_cuda for a program of many sizes.
#pragma once

#include <functional>
#include <memory>

#include "cuda/assemble/options.h"

namespace transfuse::cuda {

class KnownKernels;  // known.h

// Makes a plan again, of the types of its leaves.
using PlanAgain = std::function<Plan(const std::vector<Type>& leaf_types)>;

// Sizes share the kernels in `known`, which grows; null: the best kernels for these sizes alone. The executable keeps
// no plan: of a program that meets many sizes they would fill memory. For tensors that begin anywhere it needs one
// more.
std::unique_ptr<Executable> compile_knowing(const Plan& plan, Options options, std::shared_ptr<KnownKernels> known,
                                            PlanAgain again);
std::shared_ptr<KnownKernels> no_kernels_yet();

}  // namespace transfuse::cuda
