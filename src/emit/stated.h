// What `optimize` launches for one size, told: its kernels' sources, their launches with every argument, and the
// workspace they share. `transfuse emit` writes it into a file that launches them without this library.
#pragma once

#include <string>

#include "cuda/assemble/options.h"
#include "cuda/sizes/known.h"

namespace transfuse::emit {

// As JSON. Dense kernels that spill are passed over as `optimize` passes over them, where there is a compiler to ask
// ("compiled" says so). known: the kernels of the sizes of this program that were stated before.
std::string stated(const Plan& plan, const cuda::Options& options, const cuda::Target& target,
                   cuda::KnownKernels& known);

}  // namespace transfuse::emit
