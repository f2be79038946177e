// What the passes of a plan are generated from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/assemble/options.h"
#include "cuda/memory/placement.h"
#include "cuda/sizes/known.h"

namespace transfuse::cuda {

struct PassContext {
    const Plan& plan;
    const Options& options;
    const Target& target;
    bool aligned;                         // leaves and outputs begin on 16-byte boundaries
    const std::vector<bool>& parameters;  // per value: depends on parameters alone
    Placement& placement;
    KnownKernels* known;  // kernels that other sizes of the program were given; may be null
};

// Of a pass of the plan, or of one that has some of its steps.
Surroundings surroundings_of(const PassContext& context, const Pass& pass, size_t number, const std::string& config);
// Whether other ways are open than the tiles' own, which take scratch memory: to the first size of a program, without a
// configuration that is asked for.
bool may_take_memory(const PassContext& context, const Surroundings& around);

}  // namespace transfuse::cuda
