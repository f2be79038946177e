// Keys of dense kernels that were written already. A schedule and a text know little of sizes: two sizes of which they
// know the same have the same, which then is neither made nor compared again.
#pragma once

#include <memory>
#include <string>

#include "cuda/dense/read/epilogue.h"
#include "cuda/dense/schedule/specialization.h"
#include "cuda/general/emit/text_cache.h"
#include "cuda/general/pull/pull.h"
#include "cuda/kernel/key_text.h"

namespace transfuse::cuda {

// All that a schedule depends on.
KeyText schedule_key(const Problem& problem, const Needs& needs, const Config& config, const Target& target);
// All that the packing of weights depends on. The schedule is one of those found by their keys, and stands for its own.
KeyText pack_key(const Schedule& schedule, const TileProgram& program);
// All that a text depends on: where it sees sizes or strides, only what it may ask of these (whether they are 0 or 1,
// which vectors divide them).
KeyText text_key(const Schedule& schedule, const Epilogue& epilogue);

}  // namespace transfuse::cuda
