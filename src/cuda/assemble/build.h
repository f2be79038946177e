// An assembled plan whose kernels all compile. Needs no device.
#pragma once

#include <functional>
#include <memory>

#include "cuda/assemble/assemble.h"
#include "cuda/runtime/module.h"

namespace transfuse::cuda {

using Compiler = std::function<std::shared_ptr<const Binary>(const Source&, int arch)>;

// Assembles and compiles, several kernels at a time. Where a dense kernel does not compile, or spills registers beyond
// reason, the pass's next best configuration is taken, with one warning for each; then the portable family,
// at last the general kernel. What was compiled is remembered in `known`.
Assembly assemble_compiled(const Plan& plan, const Options& options, const Target& target, bool aligned,
                           DenseConfigs configs = {}, const Compiler& compile = compiled,
                           KnownKernels* known = nullptr);

}  // namespace transfuse::cuda
