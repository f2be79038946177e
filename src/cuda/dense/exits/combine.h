// Where the tail of a pass finds its grid values: partial results in fixed slots, which it adds up in order.
#pragma once

#include "cuda/dense/read/epilogue.h"
#include "cuda/general/emit/emitter.h"

namespace transfuse::cuda {

// Partials of whole reductions lie as [statistic][row][channel]; rows of one image are neighbours.
struct PartialRows {
    int64_t images = 1;  // 1: rows of all images are added together
    int64_t rows = 1;    // of all images
};

// A value that lies in scratch, contiguous, in the kernel's own precision.
Place kept_place(const Epilogue& epilogue, ValueId value, int64_t at);

// The slots of a whole reduction; partial_at: where the first statistic's begin in scratch.
Place partial_place(const Epilogue& epilogue, const Partial& p, int64_t partial_at, const PartialRows& rows);

}  // namespace transfuse::cuda
