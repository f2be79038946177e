// How the results of one kernel leave its tiles: by which exit, and what goes with it.
#pragma once

#include "cuda/dense/read/tile_program.h"
#include "cuda/dense/schedule/exit.h"

namespace transfuse::cuda {

struct Leaving {
    Exit exit = Exit::store;
    ValueId handed = -1;     // fold, reduced: what product warps hand over in place of their accumulators
    Values before{};         // and the steps that it needs
    bool biased = false;     // store: they add the bias before they hand over
    int64_t maps = 0;        // tma: so many tensor maps has each tensor,
    Few<size_t, 4> added{};  // and these reads come in such boxes, too
};

}  // namespace transfuse::cuda
