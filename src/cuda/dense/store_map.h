// How the 128 threads of a store group lie over a chunk.
#pragma once

#include "cuda/dense/epilogue.h"

namespace transfuse::cuda {

// Channel-major: `lanes` columns along w, each of `vector` neighbouring outputs, and `rows` of threads along channels.
// Pixel-major: lanes along channels, each with `vector` neighbouring channels.
struct StoreMap {
    bool vectors = false;        // a thread's outputs are whole pixels with all their w phases
    int vector = 1, pixels = 1;
    int lanes = 32, rows = 4, turns = 1;
    bool warps_along_w = false;  // channel reductions: a warp has all channels of its pixels
    bool neighbours = false;     // a thread's rows are neighbouring channels; else `rows` apart
    int channels = 64;           // rows of a phase in the chunk
    int items = 16, batch = 16;  // rows of a thread; of them held at once
    bool unrolled = true;        // outer phases have code of their own
};

StoreMap store_map(const Epilogue& epilogue, const Schedule& schedule, const Config& config);

}  // namespace transfuse::cuda
