// One pass as launches: the family of kernels that takes it, whole or in part, and the general kernel for what is left.
#pragma once

#include <memory>
#include <optional>

#include "cuda/general/pull/pull.h"
#include "cuda/sizes/known.h"

namespace transfuse::cuda {

// The weights of a dense kernel, in the order it reads them.
struct PackedWeights {
    int64_t bytes = 0;
    bool kept = false;                    // by a frozen executable
    std::shared_ptr<const ExtraJob> job;  // to be run by the launch that prepares; null: the pass packs them itself
};

struct PassProgram {
    Program program;
    Words note;                   // what was chosen
    std::optional<Words> config;  // of a tensor-core kernel
    std::optional<Taken> taken;   // the same, where the program's kernels are known
    std::optional<PackedWeights> packed;
};

}  // namespace transfuse::cuda
