// A reduction over channels on the accumulators: a product warp folds its 16 rows, and the store role gets one value a
// warp and pixel instead of its rows. For chains that keep nothing that varies by channel: the minimum, the mean, the
// logsumexp over channels and what follows from it.
#pragma once

#include <string>

#include "cuda/dense/read/epilogue.h"

namespace transfuse::cuda {

// struct Fragments of a folded reduction, and FOLDED.
std::string fold_program(const Epilogue& epilogue);

}  // namespace transfuse::cuda
