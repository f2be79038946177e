// Autotuning: dense configurations measured on the device, the fastest remembered on disk.
#pragma once

#include "cuda/assemble/assemble.h"
#include "cuda/runtime/driver.h"

namespace transfuse::cuda {

// The fastest configurations of a plan's dense passes: remembered, else measured now and remembered. A pass is known by
// its kernel's text, its sizes, the device and the compiler; a damaged entry is a miss. Passes that cannot be measured
// are left to the heuristic.
DenseConfigs tuned_configs(const Plan& plan, const Options& options, const Target& target, const Device& device,
                           bool aligned);

// What a pass's choice is kept under.
std::string tuning_key(const Plan& plan, size_t pass, const Assembly& assembly, const Device& device);

}  // namespace transfuse::cuda
