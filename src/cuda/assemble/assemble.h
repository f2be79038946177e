// A plan as a list of launches over one block of workspace. Needs no device: the tests compile and even run its kernels
// without one.
#pragma once

#include "cuda/assemble/options.h"
#include "cuda/kernel/kernel.h"
#include "cuda/memory/placement.h"
#include "cuda/sizes/known.h"

namespace transfuse::cuda {

struct Assembly {
    std::vector<BoundLaunch> launches;
    size_t workspace_bytes = 0;
    size_t kept_bytes = 0;            // owned by the executable: what a frozen one prepares once
    Strides strides;                  // per value
    std::vector<Words> notes;         // per pass: what was chosen
    std::map<size_t, Words> configs;  // of the passes that tensor cores take
    std::map<size_t, Taken> taken;    // their kernels, as far as the program does not know them yet
};

// aligned: leaves and outputs begin on 16-byte boundaries. configs: dense configurations to take instead of the
// heuristic's. known: kernels that other sizes of the program were given.
Assembly assemble(const Plan& plan, const Options& options, const Target& target, bool aligned,
                  const DenseConfigs& configs = {}, KnownKernels* known = nullptr);
// Configurations worth a try for a dense pass of an assembled plan, best estimate first.
std::vector<std::string> configs_of(const Plan& plan, size_t pass, const Assembly& assembly, const Options& options,
                                    const Target& target, bool aligned, size_t most);

}  // namespace transfuse::cuda
